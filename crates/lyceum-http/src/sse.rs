//! Server-sent events: writing frames that stay whole, and reading a stream that comes in pieces.
//!
//! Only the format (WHATWG HTML, "Server-sent events"). What the events mean, and when a stream
//! starts, ends or resumes, is decided elsewhere.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub use decode::{DecodedEvent, Decoder, TooLong};
pub(crate) use encode::message_pieces;
pub use encode::{Event, KEEP_ALIVE, encode, is_event_id, message_frame};
