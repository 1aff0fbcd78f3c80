//! [`Lines`]: input cut into lines, without ever holding more of a line than it may have.

use bytes::{Bytes, BytesMut};
use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::byte_budget::{Exhausted, Payer, UNCOUNTED_BYTES};
use crate::client::error::ClientError;
use crate::client::intake::{DOUBLING, Incoming, Intake};
use crate::ends::Ends;

/// Bytes asked for at once.
const CHUNK: usize = 16 << 10;

/// The lines of `input`.
#[derive(Debug)]
pub(crate) struct Lines<R, L> {
    input: R,
    /// How long a line may be at the moment.
    limit: L,
    buffer: BytesMut,
    /// Bytes of `buffer` known to hold no line end.
    n_searched: usize,
    ended: bool,
    intake: Intake,
    /// The line that is dropped as it arrives, and why.
    skipping: Option<(Ends, Exhausted)>,
}

impl<R: AsyncRead + Unpin, L: Fn() -> usize> Lines<R, L> {
    /// The lines of `input`, which `payer` is charged for.
    pub(crate) fn new(input: R, limit: L, payer: Option<Payer>) -> Lines<R, L> {
        let (buffer, intake) = (BytesMut::new(), Intake::new(payer));
        Lines { input, limit, buffer, n_searched: 0, ended: false, intake, skipping: None }
    }

    /// The next line that is not blank, without the white space around it; None at the end of the
    /// input. A last line needs no end. A line that there is no room for is skipped.
    pub(crate) async fn next(&mut self) -> Result<Option<Incoming>, ClientError> {
        loop {
            if let Some((ends, why)) = self.skip() {
                return Ok(Some(Incoming::Skipped(ends, why)));
            }
            let capacity = self.buffer.capacity();
            while let Some(line) = self.take() {
                if line.len() > (self.limit)() {
                    return Err(self.too_long());
                }
                let message = line.trim_ascii();
                if !message.is_empty() {
                    let reservation = self.intake.take(capacity);
                    return Ok(Some(Incoming::Message(line.slice_ref(message), reservation)));
                }
            }
            if self.buffer.len() > (self.limit)() {
                return Err(self.too_long());
            }
            if self.ended {
                return Ok(None);
            }
            let length = self.buffer.len() + CHUNK;
            if let Err(exhausted) = self.intake.charge(length, DOUBLING * length).await {
                self.skipping = Some((Ends::default(), exhausted));
                self.intake.take(0);
            }
            self.buffer.reserve(CHUNK);
            let read = self.input.read_buf(&mut self.buffer).await;
            self.ended = read.map_err(|error| ClientError::Broken(error.into()))? == 0;
        }
    }

    /// Drops what there is of a line that is skipped; how it began and ended, once it is over.
    fn skip(&mut self) -> Option<(Ends, Exhausted)> {
        let (ends, _) = self.skipping.as_mut()?;
        let end = memchr(b'\n', &self.buffer);
        ends.note(&self.buffer[..end.unwrap_or(self.buffer.len())]);
        self.buffer = match end {
            Some(end) => BytesMut::from(&self.buffer[end + 1..]),
            None => BytesMut::new(),
        };
        self.n_searched = 0;
        self.skipping.take_if(|_| end.is_some() || self.ended)
    }

    /// The next line in the buffer, if there is one.
    fn take(&mut self) -> Option<Bytes> {
        let end = memchr(b'\n', &self.buffer[self.n_searched..]);
        if let Some(end) = end {
            let line = self.buffer.split_to(self.n_searched + end + 1);
            self.n_searched = 0;
            if line.len() > UNCOUNTED_BYTES {
                // What follows must not keep the large buffer of this line.
                self.buffer = BytesMut::from(&self.buffer[..]);
            }
            let length = line.len() - 1;
            return Some(line.freeze().slice(..length));
        }
        self.n_searched = self.buffer.len();
        if self.ended && !self.buffer.is_empty() {
            self.n_searched = 0;
            return Some(self.buffer.split().freeze());
        }
        None
    }

    fn too_long(&self) -> ClientError {
        ClientError::TooLarge { what: "a line of the server's output", limit: (self.limit)() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `input` in pieces of every small size and compares what comes out.
    async fn check(input: &'static str, expected: &[&str]) {
        for piece in 1..=input.len() {
            let (mut write, read) = tokio::io::duplex(piece);
            let feed = tokio::spawn(async move {
                // Nobody reads on after a line that is too long.
                let _ = tokio::io::AsyncWriteExt::write_all(&mut write, input.as_bytes()).await;
            });
            let mut lines = Lines::new(read, || 8, None);
            let mut seen = Vec::new();
            loop {
                match lines.next().await {
                    Ok(Some(Incoming::Message(line, _))) => {
                        seen.push(String::from_utf8(line.to_vec()).unwrap());
                    }
                    Ok(Some(skipped)) => panic!("{skipped:?}"),
                    Ok(None) => break,
                    Err(error) => {
                        assert!(matches!(error, ClientError::TooLarge { limit: 8, .. }));
                        seen.push("too long".to_owned());
                        break;
                    }
                }
            }
            drop(lines);
            feed.await.unwrap();
            assert_eq!(seen, expected, "{input:?} in pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn lines_come_out_whole_whatever_the_pieces() {
        check("one\n two\r\n\n \n\nthree", &["one", "two", "three"]).await;
        check("12345678\n123456789\n1\n", &["12345678", "too long"]).await;
        check("1\n123456789", &["1", "too long"]).await;
    }

    #[tokio::test]
    async fn an_endless_line_is_not_kept() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'), || 1 << 20, None);
        assert!(lines.next().await.is_err());
        assert!(lines.buffer.capacity() < 4 << 20, "{}", lines.buffer.capacity());
    }
}
