//! Reading events from bytes that arrive in any pieces.
//!
//! Follows the WHATWG rules, with two differences: memory is bounded, and data stays bytes (whoever
//! parses the JSON refuses bad UTF-8, instead of being handed replacement characters).

use bytes::Bytes;
use memchr::memchr2;

#[cfg(feature = "client")]
use crate::ends::Ends;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event, as read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecodedEvent {
    /// The event's name; `message` when the stream gives none.
    pub name: String,
    /// The id this very event carries. For the id to resume after see [`Decoder::last_event_id`].
    pub id: Option<String>,
    /// The payload, its lines joined with line feeds.
    pub data: Bytes,
}

/// An event was larger than the reader allows. The stream is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event is larger than {limit} bytes")]
pub struct TooLong {
    limit: usize,
}

/// An incremental reader: [`push`](Decoder::push) bytes as they come, then take events with
/// [`next_event`](Decoder::next_event) until there are none. Holds at most the last piece pushed and
/// one unfinished event.
///
/// ```
/// let mut decoder = lyceum_http::sse::Decoder::new(1024);
/// decoder.push(b"id: 7\ndata: {\"jsonrpc\"");
/// assert_eq!(decoder.next_event(), Ok(None));
/// decoder.push(b":\"2.0\"}\n\n");
/// let event = decoder.next_event().unwrap().unwrap();
/// assert_eq!((event.name.as_str(), &*event.data), ("message", br#"{"jsonrpc":"2.0"}"#.as_slice()));
/// assert_eq!(decoder.last_event_id(), Some("7"));
/// ```
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    failed: bool,
    /// Bytes not yet made into lines, from `start` on.
    buffer: Vec<u8>,
    start: usize,
    /// Up to where `buffer` is known to hold no line end.
    scanned: usize,
    /// Whether the stream's first bytes, a possible byte order mark, are still to come.
    fresh: bool,
    /// Whether the last line ended with CR, so that LF belongs to the same line end.
    after_cr: bool,
    partial: Partial,
    last_event_id: Option<String>,
    retry: Option<u64>,
    #[cfg(feature = "client")]
    skipping: Option<Skipping>,
    /// How the event began and ended that was skipped last.
    #[cfg(feature = "client")]
    skipped: Option<Ends>,
}

/// An event that is dropped as it arrives.
#[cfg(feature = "client")]
#[derive(Debug, Default)]
struct Skipping {
    ends: Ends,
    /// Whether the line that is being read has begun.
    is_in_line: bool,
}

/// Bytes of room that are kept after a large event.
const KEPT: usize = 64 << 10;

/// The event whose lines are being read.
#[derive(Debug, Default)]
struct Partial {
    name: String,
    id: Option<String>,
    data: Vec<u8>,
    /// Whether there was a `data` line, perhaps an empty one.
    has_data: bool,
}

impl Decoder {
    /// A reader that allows `max_event` bytes for one event.
    pub fn new(max_event: usize) -> Decoder {
        Decoder {
            limit: max_event,
            failed: false,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            fresh: true,
            after_cr: false,
            partial: Partial::default(),
            last_event_id: None,
            retry: None,
            #[cfg(feature = "client")]
            skipping: None,
            #[cfg(feature = "client")]
            skipped: None,
        }
    }

    /// Allows `max_event` bytes for each event from now on.
    pub fn allow(&mut self, max_event: usize) {
        self.limit = max_event;
    }

    /// Adds the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes the next whole event, if it has arrived.
    pub fn next_event(&mut self) -> Result<Option<DecodedEvent>, TooLong> {
        if self.failed {
            return Err(TooLong { limit: self.limit });
        }
        if self.fresh && !self.skip_byte_order_mark() {
            return Ok(None);
        }
        while let Some((from, to)) = self.next_line() {
            #[cfg(feature = "client")]
            if let Some(skipping) = &mut self.skipping {
                if skipping.line_ended(&self.buffer[from..to]) {
                    self.skipped = self.skipping.take().map(|skipping| skipping.ends);
                    return Ok(None);
                }
                continue;
            }
            self.check_length(to - from)?;
            if from < to {
                self.partial.field(&self.buffer[from..to], &mut self.retry);
            } else if let Some(event) = self.dispatch() {
                return Ok(Some(event));
            }
        }
        #[cfg(feature = "client")]
        if let Some(skipping) = &mut self.skipping {
            skipping.note(&self.buffer[self.start..]);
            (self.start, self.scanned) = (self.buffer.len(), self.buffer.len());
        }
        self.check_length(self.buffer.len() - self.start)?;
        Ok(None)
    }

    /// Bytes that are held of the event that is being read.
    #[cfg(feature = "client")]
    pub(crate) fn pending(&self) -> usize {
        self.buffer.len() - self.start + self.partial.data.len()
    }

    /// Drops what has arrived of the event that is being read, and the rest of it as it comes.
    #[cfg(feature = "client")]
    pub(crate) fn skip_event(&mut self) {
        let mut skipping = Skipping::default();
        skipping.ends.note(&std::mem::take(&mut self.partial).data);
        let begun = &self.buffer[self.start..];
        let text = begun.strip_prefix(b"data:").unwrap_or(begun);
        skipping.note(text.trim_ascii_start());
        skipping.is_in_line = !begun.is_empty();
        self.skipping = Some(skipping);
        self.buffer = Vec::new();
        (self.start, self.scanned) = (0, 0);
    }

    /// How an event began and ended that was skipped, once it is over.
    #[cfg(feature = "client")]
    pub(crate) fn take_skipped(&mut self) -> Option<Ends> {
        self.skipped.take()
    }

    /// The id of the last event that carried one: what `Last-Event-ID` should say on reconnecting.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }

    /// The reconnection time in milliseconds, if the stream set one.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// False while it cannot be told yet whether the stream starts with a byte order mark.
    fn skip_byte_order_mark(&mut self) -> bool {
        let seen = self.buffer.len().min(BYTE_ORDER_MARK.len());
        if self.buffer[..seen] == BYTE_ORDER_MARK[..seen] {
            if seen < BYTE_ORDER_MARK.len() {
                return false;
            }
            self.start = seen;
            self.scanned = seen;
        }
        self.fresh = false;
        true
    }

    /// Takes the next whole line out of the buffer: its bounds, without its end.
    fn next_line(&mut self) -> Option<(usize, usize)> {
        if self.after_cr && self.start < self.buffer.len() {
            self.after_cr = false;
            if self.buffer[self.start] == b'\n' {
                self.start += 1;
                self.scanned = self.start;
            }
        }
        match memchr2(b'\n', b'\r', &self.buffer[self.scanned..]) {
            Some(at) => {
                let line = (self.start, self.scanned + at);
                self.after_cr = self.buffer[line.1] == b'\r';
                self.start = line.1 + 1;
                self.scanned = self.start;
                Some(line)
            }
            None => {
                self.scanned = self.buffer.len();
                None
            }
        }
    }

    fn dispatch(&mut self) -> Option<DecodedEvent> {
        let partial = std::mem::take(&mut self.partial);
        if self.buffer.capacity() > KEPT && self.buffer.len() - self.start <= KEPT {
            // Streams last, and most of their events are small.
            self.buffer = self.buffer[self.start..].to_vec();
            (self.start, self.scanned) = (0, 0);
        }
        if let Some(id) = &partial.id {
            self.last_event_id = Some(id.clone());
        }
        partial.has_data.then(|| partial.finish())
    }

    fn check_length(&mut self, line: usize) -> Result<(), TooLong> {
        if line + self.partial.length() > self.limit {
            self.failed = true;
            return Err(TooLong { limit: self.limit });
        }
        Ok(())
    }
}

#[cfg(feature = "client")]
impl Skipping {
    fn note(&mut self, piece: &[u8]) {
        self.is_in_line |= !piece.is_empty();
        self.ends.note(piece);
    }

    /// Takes the end of a line; whether it was a blank one, which ends the event.
    fn line_ended(&mut self, piece: &[u8]) -> bool {
        self.note(piece);
        !std::mem::take(&mut self.is_in_line)
    }
}

impl Partial {
    fn field(&mut self, line: &[u8], retry: &mut Option<u64>) {
        let (name, value) = match line.iter().position(|&byte| byte == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"id" if !value.contains(&0) => {
                self.id = Some(String::from_utf8_lossy(value).into_owned());
            }
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let digits = std::str::from_utf8(value).expect("ASCII digits are UTF-8");
                *retry = digits.parse().ok().or(*retry);
            }
            // A comment (no name) or a field of some other kind.
            _ => {}
        }
    }

    fn length(&self) -> usize {
        self.name.len() + self.data.len() + self.id.as_ref().map_or(0, String::len)
    }

    fn finish(self) -> DecodedEvent {
        let name = if self.name.is_empty() { "message".to_owned() } else { self.name };
        DecodedEvent { name, id: self.id, data: self.data.into() }
    }
}
