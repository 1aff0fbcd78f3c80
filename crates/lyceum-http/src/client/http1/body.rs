//! Where the body of an answer ends.

use httparse::{Status, parse_chunk_size};

/// How long the line before a chunk may be.
const MAX_LINE: usize = 1 << 10;
/// How much may follow the last chunk.
const MAX_TRAILERS: usize = 8 << 10;

const NO_SIZE: &str = "a chunk of its answer does not say how long it is";

/// What is to come of a body.
#[derive(Debug, PartialEq)]
pub(super) struct Framing(State);

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// So many bytes.
    Fixed(u64),
    /// Everything until the connection is closed.
    Rest,
    /// The line that says how long the next chunk is.
    Size,
    /// So many bytes of a chunk.
    Chunk(u64),
    /// The end of the line after a chunk.
    ChunkEnd,
    /// Lines after the last chunk, up to an empty one; so many bytes of them were read.
    Trailers(usize),
}

/// What comes next, after so many bytes `before` that are not for the reader.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Piece {
        before: usize,
        length: usize,
    },
    End {
        before: usize,
    },
    /// More must be read first.
    More {
        before: usize,
    },
}

impl Framing {
    pub(super) const ENDED: Framing = Framing(State::Fixed(0));

    pub(super) fn of_length(length: u64) -> Framing {
        Framing(State::Fixed(length))
    }

    pub(super) fn until_close() -> Framing {
        Framing(State::Rest)
    }

    pub(super) fn chunked() -> Framing {
        Framing(State::Size)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.0 == State::Fixed(0)
    }

    pub(super) fn ends_with_connection(&self) -> bool {
        self.0 == State::Rest
    }

    /// How many bytes are to come, if that is known.
    pub(super) fn left(&self) -> Option<u64> {
        match self.0 {
            State::Fixed(left) => Some(left),
            _ => None,
        }
    }

    /// Looks at what was read; whatever it says is taken or passed over is not shown to it again.
    pub(super) fn next(&mut self, read: &[u8]) -> Result<Next, &'static str> {
        let mut before = 0;
        loop {
            let rest = &read[before..];
            match self.0 {
                State::Fixed(0) => return Ok(Next::End { before }),
                State::Fixed(_) | State::Rest | State::Chunk(_) if rest.is_empty() => {
                    return Ok(Next::More { before });
                }
                State::Fixed(left) => {
                    let length = at_most(rest, left);
                    self.0 = State::Fixed(left - length as u64);
                    return Ok(Next::Piece { before, length });
                }
                State::Rest => return Ok(Next::Piece { before, length: rest.len() }),
                State::Chunk(left) => {
                    let length = at_most(rest, left);
                    self.0 = match left - length as u64 {
                        0 => State::ChunkEnd,
                        left => State::Chunk(left),
                    };
                    return Ok(Next::Piece { before, length });
                }
                State::ChunkEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        before += 2;
                        self.0 = State::Size;
                    }
                    [] | [b'\r'] => return Ok(Next::More { before }),
                    _ => return Err("a chunk of its answer is longer than it says"),
                },
                // The parser takes no digits at all for a zero.
                State::Size if rest.first().is_some_and(|byte| !byte.is_ascii_hexdigit()) => {
                    return Err(NO_SIZE);
                }
                State::Size => match parse_chunk_size(rest) {
                    Ok(Status::Complete((length, size))) if is_line(&rest[..length - 1]) => {
                        before += length;
                        self.0 = if size == 0 { State::Trailers(0) } else { State::Chunk(size) };
                    }
                    Ok(Status::Partial) if is_line(rest) => return Ok(Next::More { before }),
                    _ => return Err(NO_SIZE),
                },
                State::Trailers(n_bytes) => {
                    let line = rest.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
                    let n_bytes = n_bytes + line.unwrap_or(rest.len());
                    if n_bytes > MAX_TRAILERS {
                        return Err("too much follows its answer");
                    }
                    let Some(line) = line else { return Ok(Next::More { before }) };
                    before += line;
                    self.0 = match &rest[..line] {
                        b"\r\n" | b"\n" => State::Fixed(0),
                        _ => State::Trailers(n_bytes),
                    };
                }
            }
        }
    }
}

/// Whether this may stand before the line feed of a chunk's first line, which is where everybody thinks
/// that the line ends.
fn is_line(start: &[u8]) -> bool {
    start.len() < MAX_LINE && !start.contains(&b'\n')
}

/// As much of it as there is, and not more than `left`.
fn at_most(read: &[u8], left: u64) -> usize {
    usize::try_from(left).map_or(read.len(), |left| left.min(read.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is read of a body that comes in pieces of these lengths, and whether that was all of it.
    fn read(
        framing: Framing,
        bytes: &[u8],
        mut lengths: impl Iterator<Item = usize>,
    ) -> Result<(Vec<u8>, bool), &'static str> {
        let (mut framing, mut start, mut end, mut whole) = (framing, 0, 0, Vec::new());
        loop {
            match framing.next(&bytes[start..end])? {
                Next::Piece { before, length } => {
                    start += before;
                    whole.extend_from_slice(&bytes[start..start + length]);
                    start += length;
                }
                Next::End { before } => {
                    assert!(framing.has_ended() && start + before <= end);
                    return Ok((whole, true));
                }
                Next::More { .. } if end == bytes.len() => return Ok((whole, false)),
                Next::More { before } => {
                    start += before;
                    end = bytes.len().min(end + lengths.next().unwrap_or(1).max(1));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_body_is_the_same_however_it_is_cut(
            bytes in "(([0-9a-f]{1,2}|[0-9a-f;x \t]{0,4})\r\n[a-z0\r\n]{0,12}(\r\n)?){0,6}",
            lengths in proptest::collection::vec(1_usize..8, 0..64),
            length in 0_u64..40,
        ) {
            for framing in [Framing::chunked, Framing::until_close, || Framing::of_length(0)] {
                let whole = read(framing(), bytes.as_bytes(), std::iter::once(usize::MAX >> 1));
                prop_assert_eq!(&whole, &read(framing(), bytes.as_bytes(), lengths.iter().copied()));
                prop_assert_eq!(&whole, &read(framing(), bytes.as_bytes(), std::iter::empty()));
            }
            let (read, ended) =
                read(Framing::of_length(length), bytes.as_bytes(), lengths.into_iter()).unwrap();
            let expected = bytes.len().min(length as usize);
            prop_assert_eq!(read, &bytes.as_bytes()[..expected]);
            prop_assert_eq!(ended, bytes.len() as u64 >= length);
        }

        #[test]
        fn what_was_cut_into_chunks_is_put_together(
            chunks in proptest::collection::vec("[ -~\r\n]{1,40}", 0..8),
            lengths in proptest::collection::vec(1_usize..16, 0..64),
        ) {
            let mut bytes = String::new();
            for chunk in &chunks {
                bytes += &format!("{:x}\r\n{chunk}\r\n", chunk.len());
            }
            bytes += "0\r\n\r\n";
            let read = read(Framing::chunked(), bytes.as_bytes(), lengths.into_iter());
            prop_assert_eq!(read, Ok((chunks.concat().into_bytes(), true)));
        }
    }
}
