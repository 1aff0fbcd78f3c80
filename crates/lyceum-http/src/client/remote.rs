//! [`Remote`]: a server behind a URL, and the HTTP stack that leads there.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, Uri};
use tokio::sync::watch;

use super::core::Core;
use super::exchange::Exchange;

/// Names the protocol version a request is written in.
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// Where a client's HTTP requests go, and what they all carry.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) core: Arc<Core>,
    pub(crate) url: Uri,
    /// Sent with every request.
    pub(crate) headers: HeaderMap,
    pub(crate) exchange: Exchange,
    /// Whether legacy sessions keep a GET stream open.
    pub(crate) standing_stream: bool,
    /// How often news may have been missed, because a standing stream could not say where it had been
    /// interrupted.
    pub(crate) n_gaps: watch::Sender<u64>,
}
