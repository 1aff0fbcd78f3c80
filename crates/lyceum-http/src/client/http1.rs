//! [`Http1`]: a connection to a server, and the requests that follow each other on it.
//!
//! As much of HTTP/1.1 as it takes to post messages to one origin and to read answers and event streams,
//! over [`httparse`]. hyper's client, which can do more, hands every request to another task and back, and a
//! gateway's hop took a sixth more instructions with it. The rules stand in [`head`] and [`body`]; here is
//! nothing but reading and writing.

mod body;
mod head;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::error::BoxError;
use super::reply::Told;
use body::{Framing, Next};
use head::Parsed;

/// The room for what is read at once, at first and at most. One that filled it gets twice as much.
const ROOM: usize = 8 << 10;
const MAX_ROOM: usize = 64 << 10;

/// A connection.
#[derive(Debug)]
pub(super) struct Http1 {
    stream: TcpStream,
    /// What was read; of it, `start..end` is yet to be taken.
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// The request, and how much of it was written.
    output: Vec<u8>,
    n_written: usize,
    /// What is to come of the answer's body.
    framing: Framing,
    /// Whether another request may follow.
    stays: bool,
}

/// What is sent.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) method: Method,
    pub(super) url: &'a Uri,
    /// All but the body's length.
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) told: Told,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Unanswered {
    /// Nothing was sent.
    pub(super) is_unsent: bool,
    pub(super) error: BoxError,
}

impl Http1 {
    pub(super) fn new(stream: TcpStream) -> Http1 {
        let (input, output) = (vec![0; ROOM], Vec::new());
        let (framing, stays) = (Framing::ENDED, true);
        Http1 { stream, input, start: 0, end: 0, output, n_written: 0, framing, stays }
    }

    /// Whether nothing has happened to it since its last answer: it was not closed, and nobody said
    /// anything unasked.
    pub(super) fn is_quiet(&self) -> bool {
        let read = self.stream.try_read(&mut [0]);
        matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Begins to send a request. The last answer was read to its end.
    pub(super) fn send(&mut self, outgoing: &Outgoing<'_>) {
        self.output.clear();
        head::write(&mut self.output, outgoing);
        self.n_written = 0;
    }

    /// The head of the answer.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, Unanswered>> {
        let mut n_passed_over = 0;
        loop {
            let is_sent = self.poll_write(cx).map_err(|error| self.unanswered(error))?;
            let read = &self.input[self.start..self.end];
            let parsed = head::parse(read).map_err(|error| self.unanswered(error))?;
            match parsed {
                Parsed::Partial => {}
                Parsed::Interim { length } => {
                    self.start += length;
                    n_passed_over += length;
                    // However many there are, whoever waits may lose patience.
                    if n_passed_over > MAX_ROOM {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    continue;
                }
                Parsed::Head { length, head, framing, stays } => {
                    self.start += length;
                    self.framing = framing;
                    // A server that answers early may never read the rest, and one that refuses need not.
                    self.stays = stays && is_sent;
                    if is_sent || !head.status.is_success() {
                        self.let_go_of_request();
                    }
                    return Poll::Ready(Ok(head));
                }
            }
            if self.end - self.start >= MAX_ROOM {
                return Poll::Ready(Err(self.unanswered("the head of its answer is too long")));
            }
            match ready!(self.poll_read(cx)) {
                Ok(0) => return Poll::Ready(Err(self.unanswered("it closed the connection"))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(self.unanswered(error))),
            }
        }
    }

    /// The next piece of the answer's body; None at its end.
    pub(super) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BoxError>>> {
        if self.n_written < self.output.len() && self.poll_write(cx).unwrap_or(true) {
            self.let_go_of_request();
        }
        loop {
            match self.framing.next(&self.input[self.start..self.end]) {
                Err(malformed) => return Poll::Ready(Some(Err(malformed.into()))),
                Ok(Next::Piece { before, length }) => {
                    let start = self.start + before;
                    self.start = start + length;
                    let piece = Bytes::copy_from_slice(&self.input[start..self.start]);
                    return Poll::Ready(Some(Ok(piece)));
                }
                Ok(Next::End { before }) => {
                    self.start += before;
                    return Poll::Ready(None);
                }
                Ok(Next::More { before }) => self.start += before,
            }
            match ready!(self.poll_read(cx)) {
                Ok(0) if self.framing.ends_with_connection() => self.framing = Framing::ENDED,
                Ok(0) => {
                    let early = "it closed the connection in the middle of an answer";
                    return Poll::Ready(Some(Err(early.into())));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
    }

    /// Whether the answer was read to its end.
    pub(super) fn is_at_end(&self) -> bool {
        self.framing.has_ended()
    }

    /// How many bytes of the body are to come, if that is known.
    pub(super) fn left(&self) -> Option<u64> {
        self.framing.left()
    }

    /// Gets it ready for another request; whether there may be one.
    pub(super) fn rest(&mut self) -> bool {
        if self.input.len() > ROOM {
            self.input.truncate(ROOM);
            self.input.shrink_to_fit();
        }
        // Whatever follows an answer nobody asked for.
        let is_empty = self.start == self.end;
        (self.start, self.end) = (0, 0);
        self.stays && self.is_at_end() && is_empty
    }

    /// Writes on; whether the whole request is written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        while self.n_written < self.output.len() {
            let left = &self.output[self.n_written..];
            match Pin::new(&mut self.stream).poll_write(cx, left) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(n)) if n > 0 => self.n_written += n,
                Poll::Ready(Err(error)) if self.n_written == 0 => return Err(error),
                // The rest will never be written; but it may have answered before it closed.
                Poll::Ready(_) => self.output.clear(),
            }
        }
        Ok(self.n_written == self.output.len())
    }

    /// Nothing of it will be written any more.
    fn let_go_of_request(&mut self) {
        self.output.clear();
        if self.output.capacity() > ROOM {
            self.output = Vec::new();
        }
    }

    /// Reads more.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.input.len() && self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.input.len() {
            let longer = (self.input.len() * 2).min(MAX_ROOM);
            self.input.resize(longer, 0);
        }
        let mut room = ReadBuf::new(&mut self.input[self.end..]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut room))?;
        let (n, is_full) = (room.filled().len(), room.remaining() == 0);
        self.end += n;
        if is_full && self.input.len() < MAX_ROOM {
            self.input.resize(self.input.len() * 2, 0);
        }
        Poll::Ready(Ok(n))
    }

    fn unanswered(&self, error: impl Into<BoxError>) -> Unanswered {
        Unanswered { is_unsent: self.n_written == 0, error: error.into() }
    }
}

#[cfg(test)]
mod tests;
