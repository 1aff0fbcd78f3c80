//! The handshake revisions, 2024-11-05 to 2025-11-25: sessions, streams that can be resumed, server
//! requests, batches, and the two-endpoint HTTP+SSE transport.
//!
//! Nothing outside this folder knows more of them than [`Session`] and the entry points in
//! `pipeline.rs`; the folder can go when the revisions do.

mod attached;
mod batch;
mod hand_over;
mod http_sse;
mod initialize;
mod journal;
mod opened;
mod origin;
mod post;
mod registry;
mod running;
mod session;
mod standalone;
mod subscriptions;
mod token;

pub use http_sse::HttpSse;
pub(crate) use origin::Origin;
pub(crate) use registry::Sessions;
pub(crate) use running::RunningCall;
pub use session::{MAX_QUESTIONS, Session};
pub use subscriptions::{MAX_SUBSCRIPTION_BYTES, MAX_SUBSCRIPTIONS};
