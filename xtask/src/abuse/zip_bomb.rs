//! A Word file of a few megabytes whose text is a gigabyte: one element, repeated by back references.

/// Bytes of the text.
const TEXT_BYTES: usize = 1 << 30;
const NAME: &[u8] = b"word/document.xml";
const HEAD: &str =
    "<w:document xmlns:w=\"http://schemas.openxmlformats.org/wordprocessingml/2006/main\"><w:body>";

/// Bits in the order of DEFLATE (RFC 1951), least significant first.
#[derive(Debug, Default)]
struct BitWriter {
    bytes: Vec<u8>,
    pending: u64,
    n_pending: u32,
}

impl BitWriter {
    fn push(&mut self, bits: u64, n: u32) {
        self.pending |= bits << self.n_pending;
        self.n_pending += n;
        while self.n_pending >= 8 {
            self.bytes.push(self.pending as u8);
            self.pending >>= 8;
            self.n_pending -= 8;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.push(0, 7);
        self.bytes
    }
}

/// A Word file whose body is nothing but this element of 33 to 64 bytes.
pub(super) fn word_file(element: &str) -> Vec<u8> {
    let start = format!("{HEAD}{element}");
    let n_matches = (TEXT_BYTES - start.len()) / 258;
    let length = start.len() + n_matches * 258;
    let text = deflated(&start, element.len(), n_matches);
    // The checksum is wrong, which a reader can only tell after a gigabyte.
    let mut fields = [20_u16, 0, 8, 0, 0].map(u16::to_le_bytes).concat();
    for number in [0, text.len() as u32, length as u32] {
        fields.extend_from_slice(&number.to_le_bytes());
    }
    fields.extend_from_slice(&[NAME.len() as u8, 0, 0, 0]);
    let file = [&b"PK\x03\x04"[..], &fields, NAME, &text].concat();
    let entry = [&b"PK\x01\x02"[..], &[20, 0], &fields, &[0; 14], NAME].concat();
    let (entry_length, entry_at) = (entry.len() as u32, file.len() as u32);
    let counts = b"PK\x05\x06\0\0\0\0\x01\0\x01\0";
    let ends = [entry_length.to_le_bytes(), entry_at.to_le_bytes()].concat();
    [file, entry, counts.to_vec(), ends, vec![0, 0]].concat()
}

/// The start as it is, then its last `period` bytes again and again, 258 bytes at a time.
fn deflated(start: &str, period: usize, n_matches: usize) -> Vec<u8> {
    // Code 10 covers distances 33 to 48, code 11 those up to 64; the rest is four bits.
    let (code, first) = if period > 48 { (11, 49) } else { (10, 33) };
    // Huffman codes are sent from their most significant bit on, numbers from their least.
    let distance_code = u64::from((code as u8).reverse_bits() >> 3);
    let longest_match = u64::from(0b1100_0101_u8.reverse_bits());
    let rest = (period - first) as u64;
    let one = longest_match | distance_code << 8 | rest << 13;

    let mut writer = BitWriter::default();
    // A stored block, whose length follows at the next whole byte.
    writer.push(0, 8);
    let length = start.len() as u16;
    writer.push(u64::from(length), 16);
    writer.push(u64::from(!length), 16);
    start.bytes().for_each(|byte| writer.push(byte.into(), 8));
    // The last block, with the fixed codes.
    writer.push(0b011, 3);
    for _ in 0..n_matches {
        writer.push(one, 17);
    }
    // The end of the block.
    writer.push(0, 7);
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_repeated_by_the_longest_matches() {
        // What zlib makes of it was compared once: a stored "…", one match of 258 bytes, the end.
        let bytes = deflated("0123456789abcdefghijklmnopqrstuvw", 33, 1);
        assert_eq!(bytes[..5], [0, 33, 0, !33, 0xff]);
        assert_eq!(bytes[38..], [0x1b, 0x55, 0, 0]);
    }

    #[test]
    fn a_file_is_small_and_claims_a_gigabyte() {
        let file = word_file("<w:p><w:r><w:t>a</w:t></w:r></w:p>");
        assert!(file.len() < 16 << 20, "{}", file.len());
        assert!(file.starts_with(b"PK\x03\x04") && file[22..26] > [0, 0, 0xf0, 0x3f][..]);
    }
}
