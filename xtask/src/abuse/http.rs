//! A blocking HTTP/1.1 client that keeps nothing it need not: requests are bytes made beforehand,
//! bodies are counted, and only their beginning is kept.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::stopwatch::Stopwatch;

/// Bytes of an answer that are kept, to tell what it says.
const KEPT: usize = 256 * 1024;
/// How often a wait looks whether it shall end.
const LOOK: Duration = Duration::from_millis(100);
/// The longest head of an answer.
const LONGEST_HEAD: usize = 64 * 1024;

/// What came back.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) head: String,
    /// Bytes of the body that arrived.
    pub(super) length: usize,
    /// The beginning of the body.
    pub(super) text: String,
    /// Whether the body arrived to its end.
    pub(super) complete: bool,
}

/// One connection.
#[derive(Debug)]
pub(super) struct HttpConnection {
    stream: TcpStream,
    /// Gives up waiting when this turns true.
    stop: Option<Arc<AtomicBool>>,
    /// Bytes that were read beyond the last answer.
    pending: Vec<u8>,
}

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum BodyEnd {
    Length(usize),
    Chunked,
    Close,
}

impl HttpAnswer {
    /// Whether a call succeeded: status 2xx and neither an error of the protocol nor of the tool.
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
            && self.complete
            && !self.text.contains("\"isError\":true")
            && !self.text.contains("\"error\":{")
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

impl HttpConnection {
    pub(super) fn open(address: SocketAddr, limit: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        Ok(Self { stream, stop: None, pending: Vec::new() })
    }

    /// Makes waits for the server end soon after `stop` turns true.
    pub(super) fn until(mut self, stop: &Arc<AtomicBool>) -> io::Result<Self> {
        self.stream.set_read_timeout(Some(LOOK))?;
        self.stream.set_write_timeout(Some(LOOK))?;
        self.stop = Some(Arc::clone(stop));
        Ok(self)
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => rest = &rest[n..],
                Err(error) if is_timeout(&error) && self.goes_on() => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends in another thread, so that answers can be read meanwhile; ends with the connection.
    pub(super) fn send_aside(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let mut stream = self.stream.try_clone()?;
        // Both share their timeouts; this one ends when the connection is closed.
        stream.set_write_timeout(None)?;
        // A server that has heard enough closes, which is for the reader to see.
        thread::spawn(move || stream.write_all(&bytes));
        Ok(())
    }

    /// Closes both directions, which ends a thread that still sends.
    pub(super) fn close(&self) {
        // It may be closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Sends a request and reads its answer to the end, or until `most` bytes or the limit.
    ///
    /// A server that refuses a body stops reading it; its answer is still read.
    pub(super) fn exchange(
        &mut self,
        request: &[u8],
        most: usize,
        limit: Duration,
    ) -> Result<HttpAnswer> {
        let sent = self.send(request);
        self.answer(most, limit).or_else(|error| match sent {
            Ok(()) => Err(error),
            Err(unsent) => Err(unsent).context("the request was cut off"),
        })
    }

    /// Reads one answer, up to `most` bytes of its body and up to the limit.
    pub(super) fn answer(&mut self, most: usize, limit: Duration) -> Result<HttpAnswer> {
        let watch = Stopwatch::start();
        let head = self.head(&watch, limit)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.with_context(|| format!("no status in {head:?}"))?;
        let end = body_end(&head, status);
        let mut answer = HttpAnswer {
            status,
            head,
            length: 0,
            text: String::new(),
            complete: end == BodyEnd::Length(0),
        };
        self.body(&mut answer, end, most, (&watch, limit))?;
        Ok(answer)
    }

    fn head(&mut self, watch: &Stopwatch, limit: Duration) -> Result<String> {
        loop {
            if let Some(at) = self.pending.windows(4).position(|four| four == b"\r\n\r\n") {
                let rest = self.pending.split_off(at + 4);
                let head = std::mem::replace(&mut self.pending, rest);
                return Ok(String::from_utf8_lossy(&head).into_owned());
            }
            ensure!(self.pending.len() < LONGEST_HEAD, "the answer's head is too long");
            ensure!(!watch.is_past(limit), "no answer in time");
            if self.fill(watch, limit)? == 0 {
                bail!("the connection was closed without an answer");
            }
        }
    }

    fn body(
        &mut self,
        answer: &mut HttpAnswer,
        end: BodyEnd,
        most: usize,
        (watch, limit): (&Stopwatch, Duration),
    ) -> Result<()> {
        let mut kept: Vec<u8> = Vec::new();
        // The last bytes, which tell the end of a chunked body.
        let mut tail: Vec<u8> = Vec::new();
        while !answer.complete && answer.length < most && !watch.is_past(limit) {
            if self.pending.is_empty() && self.fill(watch, limit).unwrap_or(0) == 0 {
                answer.complete = end == BodyEnd::Close;
                break;
            }
            let piece = std::mem::take(&mut self.pending);
            answer.length += piece.len();
            let room = KEPT.saturating_sub(kept.len()).min(piece.len());
            kept.extend_from_slice(&piece[..room]);
            tail.extend_from_slice(&piece[piece.len().saturating_sub(5)..]);
            tail.drain(..tail.len().saturating_sub(5));
            answer.complete = match end {
                BodyEnd::Length(length) => answer.length >= length,
                BodyEnd::Chunked => tail == b"0\r\n\r\n",
                BodyEnd::Close => false,
            };
        }
        answer.text = String::from_utf8_lossy(&kept).into_owned();
        Ok(())
    }

    fn fill(&mut self, watch: &Stopwatch, limit: Duration) -> io::Result<usize> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(n) => {
                    self.pending.extend_from_slice(&buffer[..n]);
                    return Ok(n);
                }
                Err(error) if is_timeout(&error) && self.goes_on() && !watch.is_past(limit) => {}
                Err(error) if is_timeout(&error) => {
                    return Err(io::Error::new(ErrorKind::TimedOut, "no answer in time"));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn goes_on(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| !stop.load(Ordering::Relaxed))
    }

    /// Reads at most `n` bytes and forgets them; 0 at the end, `None` when nothing came in time.
    pub(super) fn sip(&mut self, n: usize, limit: Duration) -> io::Result<Option<usize>> {
        self.stream.set_read_timeout(Some(limit.max(Duration::from_millis(1))))?;
        let mut buffer = vec![0; n];
        match self.stream.read(&mut buffer) {
            Ok(n) => Ok(Some(n)),
            Err(error) if is_timeout(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind())
}

fn body_end(head: &str, status: u16) -> BodyEnd {
    let head = head.to_ascii_lowercase();
    if status == 204 || status == 304 {
        return BodyEnd::Length(0);
    }
    if head.contains("\r\ntransfer-encoding: chunked") {
        return BodyEnd::Chunked;
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length.and_then(|length| length.trim().parse().ok()).map_or(BodyEnd::Close, BodyEnd::Length)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn answered(bytes: &'static [u8]) -> HttpAnswer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 1]).unwrap();
            stream.write_all(bytes).unwrap();
        });
        let mut connection = HttpConnection::open(address, LIMIT).unwrap();
        let answer = connection.exchange(b"x", 1 << 20, LIMIT).unwrap();
        server.join().unwrap();
        answer
    }

    #[test]
    fn a_body_ends_by_its_length_its_last_chunk_or_with_the_connection() {
        let sized = answered(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\nok");
        assert_eq!((sized.status, sized.length, sized.complete), (200, 2, true));
        assert_eq!(sized.header("x-a"), Some("b"));
        let chunked =
            answered(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n");
        assert!(chunked.complete && chunked.text.contains("ok"));
        assert!(answered(b"HTTP/1.1 200 OK\r\n\r\nall").complete);
    }

    #[test]
    fn a_body_that_is_cut_off_is_no_success() {
        assert!(!answered(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok").is_success());
    }

    #[test]
    fn an_error_of_the_tool_or_the_protocol_is_no_success() {
        assert!(
            !answered(b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n\"isError\":true")
                .is_success()
        );
        assert!(!answered(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n").is_success());
        assert!(answered(b"HTTP/1.1 202 OK\r\nContent-Length: 0\r\n\r\n").is_success());
    }
}
