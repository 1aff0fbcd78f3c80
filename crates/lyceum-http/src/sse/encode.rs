//! Writing events.
//!
//! One event is one frame, whatever its parts contain: nothing a caller passes in can end a line.

use bytes::Bytes;

/// A comment: keeps proxies from closing a quiet stream and tells us when the reader is gone.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

const MESSAGE: &[u8] = b"event: message\ndata: ";
const END: &[u8] = b"\n\n";

/// One event to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event<'a> {
    /// The event's name; left out when empty, which readers take for `message`.
    pub name: &'a str,
    /// The id a client resumes after; see [`is_event_id`].
    pub id: Option<&'a str>,
    /// How many milliseconds a client should wait before it reconnects.
    pub retry: Option<u32>,
    /// The payload: JSON on one line, or a plain string such as a URL.
    pub data: &'a [u8],
}

impl<'a> Event<'a> {
    /// A JSON-RPC message without an id.
    pub const fn message(json: &'a [u8]) -> Event<'a> {
        Event { name: "message", id: None, retry: None, data: json }
    }
}

/// Appends one frame.
///
/// A name or id made of anything but [`is_event_id`] characters is left out: an event that cannot be
/// resumed is better than one that becomes two (CVE-2026-44214, CVE-2026-44217).
pub fn encode(out: &mut Vec<u8>, event: &Event<'_>) {
    out.reserve(event.name.len() + event.id.map_or(0, str::len) + event.data.len() + 48);
    let mut field = |name: &str, value: &str| {
        for part in [name, ": ", value, "\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    };
    if let Some(id) = event.id.filter(|id| is_event_id(id)) {
        field("id", id);
    }
    if let Some(milliseconds) = event.retry {
        field("retry", &milliseconds.to_string());
    }
    if is_event_id(event.name) {
        field("event", event.name);
    }
    out.extend_from_slice(b"data: ");
    push_data(out, event.data);
    out.extend_from_slice(END);
}

/// The frame of one JSON-RPC message, in one exact allocation.
pub fn message_frame(json: &[u8]) -> Bytes {
    let mut frame = Vec::with_capacity(MESSAGE.len() + json.len() + END.len());
    frame.extend_from_slice(MESSAGE);
    push_data(&mut frame, json);
    frame.extend_from_slice(END);
    frame.into()
}

/// The frame of one large JSON-RPC message, in pieces, so that the message is not copied unless
/// something in it has to be written differently.
pub(crate) fn message_pieces(id: Option<&str>, json: Bytes) -> [Bytes; 3] {
    if has_line_ends(&json) {
        let mut frame = Vec::new();
        encode(&mut frame, &Event { id, ..Event::message(&json) });
        // What the message is charged to stays charged as long as the frame is there.
        return [Bytes::from_owner(Kept { frame, _message: json }), Bytes::new(), Bytes::new()];
    }
    let mut head = Vec::with_capacity(64);
    encode(&mut head, &Event { id, ..Event::message(b"") });
    head.truncate(head.len() - END.len());
    [head.into(), json, Bytes::from_static(END)]
}

/// A frame, and the message it was made of.
struct Kept {
    frame: Vec<u8>,
    _message: Bytes,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.frame
    }
}

/// Whether something in `json` could be taken for the end of a line.
fn has_line_ends(json: &[u8]) -> bool {
    let separator = |three: &[u8]| matches!(three, [0xE2, 0x80, 0xA8 | 0xA9]);
    !is_one_line(json)
        && (json.iter().any(|byte| matches!(byte, b'\r' | b'\n')) || json.windows(3).any(separator))
}

/// Whether `id` can stand in a frame: one or more letters, digits, `-`, `_`, `.` or `/`.
pub fn is_event_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    !id.is_empty() && id.bytes().all(allowed)
}

/// Appends JSON as one line. Our own is compact already; JSON passed through from elsewhere may be
/// laid out over several lines, and raw U+2028 and U+2029, legal in JSON strings, hang readers that
/// take them for line ends.
fn push_data(out: &mut Vec<u8>, json: &[u8]) {
    if is_one_line(json) {
        return out.extend_from_slice(json);
    }
    let mut rest = json;
    loop {
        rest = match rest {
            [] => return,
            // Between JSON tokens all white space is alike, and inside of them a line end is illegal.
            [b'\r' | b'\n', tail @ ..] => {
                out.push(b' ');
                tail
            }
            [0xE2, 0x80, last @ (0xA8 | 0xA9), tail @ ..] => {
                out.extend_from_slice(if *last == 0xA8 { b"\\u2028" } else { b"\\u2029" });
                tail
            }
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
        }
    }
}

/// Whether nothing needs care. 0xE2 starts U+2028 and U+2029 in UTF-8, and some harmless characters.
fn is_one_line(json: &[u8]) -> bool {
    let careful = |byte: u8| matches!(byte, b'\r' | b'\n' | 0xE2);
    // Without an early exit inside a chunk the compiler checks many bytes at once.
    json.chunks(64).all(|chunk| !chunk.iter().fold(false, |any, &byte| any | careful(byte)))
}
