//! (crate docs)

pub mod accept;
pub mod cors;
pub mod dialect;
pub mod explain;
pub mod guard;
pub mod sse;
