//! [`Lines`]: input cut into lines, without ever holding more of a line than it may have.

use bytes::{Bytes, BytesMut};
use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::client::error::ClientError;

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
}

impl<R: AsyncRead + Unpin, L: Fn() -> usize> Lines<R, L> {
    pub(crate) fn new(input: R, limit: L) -> Lines<R, L> {
        Lines { input, limit, buffer: BytesMut::new(), n_searched: 0, ended: false }
    }

    /// The next line that is not blank, without the white space around it; None at the end of the
    /// input. A last line needs no end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            while let Some(line) = self.take() {
                if line.len() > (self.limit)() {
                    return Err(self.too_long());
                }
                let message = line.trim_ascii();
                if !message.is_empty() {
                    return Ok(Some(line.slice_ref(message)));
                }
            }
            if self.buffer.len() > (self.limit)() {
                return Err(self.too_long());
            }
            if self.ended {
                return Ok(None);
            }
            self.buffer.reserve(CHUNK);
            let read = self.input.read_buf(&mut self.buffer).await;
            self.ended = read.map_err(|error| ClientError::Broken(error.into()))? == 0;
        }
    }

    /// The next line in the buffer, if there is one.
    fn take(&mut self) -> Option<Bytes> {
        let end = memchr(b'\n', &self.buffer[self.n_searched..]);
        if let Some(end) = end {
            let line = self.buffer.split_to(self.n_searched + end + 1);
            self.n_searched = 0;
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
            let mut lines = Lines::new(read, || 8);
            let mut seen = Vec::new();
            loop {
                match lines.next().await {
                    Ok(Some(line)) => seen.push(String::from_utf8(line.to_vec()).unwrap()),
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
        let mut lines = Lines::new(tokio::io::repeat(b'x'), || 1 << 20);
        assert!(lines.next().await.is_err());
        assert!(lines.buffer.capacity() < 4 << 20, "{}", lines.buffer.capacity());
    }
}
