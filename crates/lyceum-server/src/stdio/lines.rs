//! Input cut into lines, without ever holding more of a line than it may have.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes asked for at once.
const CHUNK: usize = 16 << 10;

/// One line of input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line, without its end.
    Whole(Bytes),
    /// A line that was too long; its bytes are gone.
    TooLong,
}

/// The lines of `input`.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    limit: usize,
    buffer: BytesMut,
    /// Bytes of `buffer` known to hold no line end.
    searched: usize,
    /// Whether the rest of a line that was too long is still to come.
    skipping: bool,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(input: R, limit: usize) -> Self {
        Self { input, limit, buffer: BytesMut::new(), searched: 0, skipping: false, ended: false }
    }

    /// The next line that is not blank; `None` at the end of the input. A last line needs no end.
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            while let Some(line) = self.take() {
                if !matches!(&line, Line::Whole(bytes) if bytes.trim_ascii().is_empty()) {
                    return Ok(Some(line));
                }
            }
            if self.ended {
                return Ok(None);
            }
            self.buffer.reserve(CHUNK);
            self.ended = self.input.read_buf(&mut self.buffer).await? == 0;
        }
    }

    /// The next line in the buffer, if there is one.
    fn take(&mut self) -> Option<Line> {
        loop {
            let end = self.buffer[self.searched..].iter().position(|&byte| byte == b'\n');
            let Some(end) = end.map(|at| self.searched + at) else { return self.take_unended() };
            self.searched = 0;
            let mut line = self.buffer.split_to(end + 1);
            line.truncate(end);
            if !std::mem::take(&mut self.skipping) {
                let fits = line.len() <= self.limit;
                return Some(if fits { Line::Whole(line.freeze()) } else { Line::TooLong });
            }
        }
    }

    /// What a buffer without a line end yields: a last line, the news that a line is too long, or
    /// nothing yet.
    fn take_unended(&mut self) -> Option<Line> {
        if self.skipping || self.buffer.len() > self.limit {
            self.buffer.clear();
            self.searched = 0;
            return (!std::mem::replace(&mut self.skipping, true)).then_some(Line::TooLong);
        }
        self.searched = self.buffer.len();
        if self.ended && !self.buffer.is_empty() {
            self.searched = 0;
            return Some(Line::Whole(self.buffer.split().freeze()));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `input` in pieces of every small size and compares what comes out.
    async fn check(input: &'static str, expected: &[Option<&'static str>]) {
        for piece in 1..=input.len() {
            let (mut write, read) = tokio::io::duplex(piece);
            let feed = tokio::spawn(async move {
                tokio::io::AsyncWriteExt::write_all(&mut write, input.as_bytes()).await.unwrap();
            });
            let mut lines = Lines::new(read, 8);
            let mut seen = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                seen.push(match line {
                    Line::Whole(bytes) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
                    Line::TooLong => None,
                });
            }
            feed.await.unwrap();
            let seen: Vec<Option<&str>> = seen.iter().map(|line| line.as_deref()).collect();
            assert_eq!(seen, expected, "{input:?} in pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn lines_come_out_whole_whatever_the_pieces() {
        check("one\ntwo\n", &[Some("one"), Some("two")]).await;
    }

    #[tokio::test]
    async fn last_line_needs_no_end() {
        check("one\ntwo", &[Some("one"), Some("two")]).await;
    }

    #[tokio::test]
    async fn blank_lines_are_nothing() {
        check("\n \r\none\n\n", &[Some("one")]).await;
    }

    #[tokio::test]
    async fn too_long_line_is_reported_once_and_skipped() {
        check("12345678\n123456789 and on and on\nnext\n", &[Some("12345678"), None, Some("next")])
            .await;
    }

    #[tokio::test]
    async fn too_long_last_line_is_reported() {
        check("ok\n123456789", &[Some("ok"), None]).await;
    }

    #[tokio::test]
    async fn endless_line_is_not_kept() {
        let input = tokio::io::AsyncReadExt::take(tokio::io::repeat(b'x'), 64 << 20);
        let mut lines = Lines::new(input, 1 << 20);
        assert_eq!(lines.next().await.unwrap(), Some(Line::TooLong));
        assert_eq!(lines.next().await.unwrap(), None);
        assert!(lines.buffer.capacity() < 4 << 20, "{}", lines.buffer.capacity());
    }
}
