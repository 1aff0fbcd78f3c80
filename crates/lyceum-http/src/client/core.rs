//! [`Core`]: what every part of one client shares.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Uri};
use lyceum_wire::{Id, RevisionSet};

use super::exchange::Exchange;
use super::handler::Handler;
use super::limits::Limits;

/// Names the protocol version a request is written in.
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// One client's settings and its HTTP stack.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) url: Uri,
    /// Sent with every request.
    pub(crate) headers: HeaderMap,
    pub(crate) exchange: Exchange,
    pub(crate) limits: Limits,
    /// The raw `clientInfo` object.
    pub(crate) info: Bytes,
    /// The raw `ClientCapabilities` object.
    pub(crate) capabilities: Bytes,
    pub(crate) versions: RevisionSet,
    pub(crate) handler: Handler,
    /// Whether legacy sessions keep a GET stream open.
    pub(crate) standing_stream: bool,
    pub(crate) n_ids: AtomicU64,
}

impl Core {
    /// An id no request of this client had before.
    pub(crate) fn next_id(&self) -> Id {
        Id::number(self.n_ids.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
