//! For tests only: start a server on a free port, talk to it in exact bytes, break connections.
//!
//! Nothing here uses an HTTP or SSE library, nor any crate of this workspace: what a server sends is
//! read by a second, independent reader, so that a mistake in ours cannot hide itself.

mod connection;
mod events;
mod request;
mod response;
mod server;
pub mod smuggling;

pub use connection::Connection;
pub use events::{Event, EventParser, Events, parse_events};
pub use request::Request;
pub use response::{Head, Response};
pub use server::{Server, Shutdown};
