//! [`Core`]: what every part of one client shares, however it reaches its server.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use lyceum_wire::{Id, RevisionSet};

use super::handler::Handler;
use super::limits::Limits;
use crate::byte_budget::Payer;
use crate::timers::Timers;

/// One client's settings.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) limits: Limits,
    /// The raw `clientInfo` object.
    pub(crate) info: Bytes,
    /// The raw `ClientCapabilities` object.
    pub(crate) capabilities: Bytes,
    pub(crate) versions: RevisionSet,
    pub(crate) handler: Handler,
    pub(crate) n_ids: AtomicU64,
    /// Who pays for what the server sends as long as it is not known for whom.
    pub(crate) payer: Option<Payer>,
    pub(crate) timers: Timers,
}

impl Core {
    /// An id no request of this client had before.
    pub(crate) fn next_id(&self) -> Id {
        Id::number(self.n_ids.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// The number a token is, if it is one as this client writes them. All its ids are.
pub(crate) fn number(token: &[u8]) -> Option<u64> {
    std::str::from_utf8(token).ok()?.parse().ok()
}
