//! The id a request has in answers and logs: the client's own, or a fresh one.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The header that carries it, both ways.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest request id taken over from a client.
const MAX_REQUEST_ID: usize = 128;

/// The id to answer with: the one the client sent, if it is fit for a log, or a fresh one.
pub fn request_id(headers: &HeaderMap) -> HeaderValue {
    request_id_or_next(headers.get(REQUEST_ID))
}

/// The same, given what the client sent.
pub(crate) fn request_id_or_next(sent: Option<&HeaderValue>) -> HeaderValue {
    sent.filter(|id| is_request_id(id)).cloned().unwrap_or_else(next_request_id)
}

fn is_request_id(id: &HeaderValue) -> bool {
    id.len() <= MAX_REQUEST_ID && !id.is_empty() && id.as_bytes().iter().all(u8::is_ascii_graphic)
}

/// A fresh id, unique within the process and unlikely to repeat across restarts.
fn next_request_id() -> HeaderValue {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static START: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let start = START.get_or_init(|| u64::from(u32::from_ne_bytes(crate::seal::random())) << 32);
    let number = start | (NEXT.fetch_add(1, Ordering::Relaxed) & u64::from(u32::MAX));
    // By hand, because this runs for every request and formatting costs ten times as much.
    let digit = |at: u32| b"0123456789abcdef"[(number >> (60 - 4 * at)) as usize & 15];
    let id: Vec<u8> = (0..16).map(digit).collect();
    HeaderValue::from_maybe_shared(Bytes::from(id)).expect("hexadecimal digits are a header value")
}
