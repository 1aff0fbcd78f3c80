//! [`Ends`]: how something began and ended that is too large to be kept.

/// Bytes kept of the beginning, and of the end.
const HEAD: usize = 4 << 10;
const TAIL: usize = 128;

/// The beginning and the end of what was [noted](Ends::note).
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
}

impl Ends {
    /// Takes note of the next piece.
    pub(crate) fn note(&mut self, piece: &[u8]) {
        let room = HEAD - self.head.len();
        self.head.extend_from_slice(&piece[..piece.len().min(room)]);
        self.tail.extend_from_slice(&piece[piece.len().saturating_sub(TAIL)..]);
        self.tail.drain(..self.tail.len().saturating_sub(TAIL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_both_ends_whatever_the_pieces() {
        let whole: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        for size in [1, 7, 4096, 5000, whole.len()] {
            let mut ends = Ends::default();
            whole.chunks(size).for_each(|piece| ends.note(piece));
            assert_eq!(ends.head, whole[..HEAD], "in pieces of {size}");
            assert_eq!(ends.tail, whole[whole.len() - TAIL..], "in pieces of {size}");
        }
    }
}
