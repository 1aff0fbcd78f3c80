//! An event stream on its way out: what an [`Outbox`] holds, framed, with keep-alive comments.
//!
//! [`Outbox`]: crate::outbox::Outbox

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::time::{Duration, Instant, Sleep};

use crate::authenticate::Lapse;
use crate::byte_budget::UNCOUNTED_BYTES;
use crate::outbox::{Outbox, Read, Reader};
use crate::sse::{self, Event};
use crate::timers::later;

/// A call that runs inside its own response: dropping the response drops the call.
pub(crate) type Running = Pin<Box<dyn Future<Output = Bytes> + Send>>;

/// One connection's event stream.
pub(crate) struct EventStream {
    reader: Reader,
    /// The stream's number, where its events carry ids.
    number: Option<u64>,
    /// Pieces of frames to send before anything else.
    queued: VecDeque<Bytes>,
    call: Option<(Running, Arc<Outbox>)>,
    keep_alive: Duration,
    silence: Pin<Box<Sleep>>,
    /// Something that must live exactly as long as the stream.
    guard: Option<Box<dyn Send + Sync>>,
    /// What ends the stream early.
    end: Option<Lapse>,
}

impl EventStream {
    pub(crate) fn new(reader: Reader, keep_alive: Duration) -> Self {
        let silence = Box::pin(tokio::time::sleep(keep_alive));
        let (number, queued, call, guard, end) = (None, VecDeque::new(), None, None, None);
        Self { reader, number, queued, call, keep_alive, silence, guard, end }
    }

    /// Gives every event an id, so that the client can resume.
    pub(crate) fn numbered(mut self, stream: u64) -> Self {
        self.number = Some(stream);
        self
    }

    /// Sends `frame` before anything else.
    pub(crate) fn starting_with(mut self, frame: Bytes) -> Self {
        self.queued.push_back(frame);
        self
    }

    /// Drives `call` from within the stream; its output is the last message.
    pub(crate) fn driving(mut self, call: Running, outbox: Arc<Outbox>) -> Self {
        self.call = Some((call, outbox));
        self
    }

    /// Keeps `guard` alive until the stream ends.
    pub(crate) fn holding(mut self, guard: impl Send + Sync + 'static) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }

    /// Ends the stream once `end` completes.
    pub(crate) fn end_at(mut self: Pin<&mut Self>, end: Option<Lapse>) {
        self.end = end;
    }

    /// The next bytes to send; `None` at the end.
    pub(crate) fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        if let Some(end) = &mut this.end
            && end.as_mut().poll(cx).is_ready()
        {
            // Polled again, a finished future would panic; nothing is left to send anyway.
            this.end = Some(Box::pin(std::future::ready(())));
            return Poll::Ready(None);
        }
        if let Some(piece) = this.queued.pop_front() {
            return Poll::Ready(Some(piece));
        }
        if let Some((call, outbox)) = &mut this.call
            && let Poll::Ready(last) = call.as_mut().poll(cx)
        {
            outbox.conclude(last);
            this.call = None;
        }
        match this.reader.poll_read(cx) {
            Poll::Ready(Read::Message(sequence, message)) => {
                this.silence.as_mut().reset(later(Instant::now(), this.keep_alive));
                if message.len() <= UNCOUNTED_BYTES {
                    return Poll::Ready(Some(frame(this.number, sequence, &message)));
                }
                let id = this.number.map(|stream| event_id(stream, sequence));
                let pieces = sse::message_pieces(id.as_deref(), message);
                this.queued.extend(pieces.into_iter().filter(|piece| !piece.is_empty()));
                Poll::Ready(this.queued.pop_front())
            }
            Poll::Ready(Read::End) => Poll::Ready(None),
            Poll::Pending => {
                std::task::ready!(this.silence.as_mut().poll(cx));
                this.silence.as_mut().reset(later(Instant::now(), this.keep_alive));
                Poll::Ready(Some(Bytes::from_static(sse::KEEP_ALIVE)))
            }
        }
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The id of event `sequence` on `stream`: opaque to clients, looked up only within their session.
pub(crate) fn event_id(stream: u64, sequence: u64) -> String {
    format!("{stream:016x}-{sequence}")
}

/// Reads an id made by [`event_id`].
pub(crate) fn parse_event_id(id: &str) -> Option<(u64, u64)> {
    let (stream, sequence) = id.split_once('-')?;
    // Numbers with signs, which the standard library would read, are none of ours.
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    if stream.len() != 16 || !digits(stream) || !digits(sequence) {
        return None;
    }
    Some((u64::from_str_radix(stream, 16).ok()?, sequence.parse().ok()?))
}

fn frame(number: Option<u64>, sequence: u64, message: &[u8]) -> Bytes {
    let Some(stream) = number else { return sse::message_frame(message) };
    let id = event_id(stream, sequence);
    let mut out = Vec::with_capacity(message.len() + 64);
    sse::encode(&mut out, &Event { name: "message", id: Some(&id), retry: None, data: message });
    out.into()
}
