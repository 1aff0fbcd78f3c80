//! HTTP/2 frames as bytes, for clients that break its rules. No state, no compression, no flow control:
//! the caller decides what frames say.

/// What an HTTP/2 client sends first.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Ends a stream's own side.
pub(super) const END_STREAM: u8 = 0x1;
/// Ends a block of headers.
pub(super) const END_HEADERS: u8 = 0x4;

/// The kinds of frames, by their numbers (RFC 9113, section 6).
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(u8)]
pub(super) enum FrameKind {
    Data = 0,
    Headers = 1,
    Priority = 2,
    ResetStream = 3,
    Settings = 4,
    Ping = 6,
    WindowUpdate = 8,
    Continuation = 9,
}

/// Frames in the order they are sent.
#[derive(Debug, Clone)]
pub(super) struct FrameSequence(Vec<u8>);

impl FrameSequence {
    /// The preface and these settings, each an identifier and a value.
    pub(super) fn open(settings: &[(u16, u32)]) -> Self {
        let mut sequence = Self(PREFACE.to_vec());
        let mut payload = Vec::new();
        for (identifier, value) in settings {
            payload.extend_from_slice(&identifier.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        sequence.push(FrameKind::Settings, 0, 0, &payload);
        sequence
    }

    pub(super) fn push(&mut self, kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
        self.0.extend_from_slice(&length[1..]);
        self.0.extend_from_slice(&[kind as u8, flags]);
        self.0.extend_from_slice(&stream.to_be_bytes());
        self.0.extend_from_slice(payload);
    }

    /// Takes bytes of credit for what the server sends on a stream, or on all of them for stream 0.
    pub(super) fn push_window(&mut self, stream: u32, bytes: u32) {
        self.push(FrameKind::WindowUpdate, 0, stream, &bytes.to_be_bytes());
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Header fields as literals that no table keeps (RFC 7541, section 6.2.2).
pub(super) fn encode_fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        push_text(&mut block, name);
        push_text(&mut block, value);
    }
    block
}

/// One field that the table keeps, and then `n` references to it: the shortest way to a long list.
pub(super) fn encode_bomb(name: &str, value: &str, n: usize) -> Vec<u8> {
    let mut block = vec![0x40];
    push_text(&mut block, name);
    push_text(&mut block, value);
    // The newest entry of the dynamic table has the index after the 61 static ones.
    block.extend(std::iter::repeat_n(0x80 | 62, n));
    block
}

fn push_text(block: &mut Vec<u8>, text: &str) {
    // A length with a prefix of seven bits (RFC 7541, section 5.1).
    match u8::try_from(text.len()) {
        Ok(length) if length < 127 => block.push(length),
        _ => {
            block.push(127);
            let mut rest = text.len() - 127;
            while rest >= 128 {
                block.push((rest % 128) as u8 | 0x80);
                rest /= 128;
            }
            block.push(rest as u8);
        }
    }
    block.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_its_length_kind_flags_stream_and_payload() {
        let mut frames = FrameSequence::open(&[(4, 1)]);
        frames.push(FrameKind::Ping, 1, 0x0102_0304, b"12345678");
        let bytes = frames.into_bytes();
        let after_preface = &bytes[PREFACE.len()..];
        let (settings, ping) = after_preface.split_at(15);
        assert_eq!(settings, [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1]);
        assert_eq!(ping[..9], [0, 0, 8, 6, 1, 1, 2, 3, 4]);
        assert_eq!(&ping[9..], b"12345678");
    }

    #[test]
    fn lengths_of_texts_are_those_of_the_standard() {
        let length = |n: usize| {
            let mut block = Vec::new();
            push_text(&mut block, &"a".repeat(n));
            block.truncate(block.len() - n);
            block
        };
        assert_eq!(length(10), [10]);
        assert_eq!(length(127), [127, 0]);
        // RFC 7541, C.1.2, with a prefix of seven bits.
        assert_eq!(length(1337), [127, 0xba, 0x09]);
    }

    #[test]
    fn fields_are_literals_and_a_bomb_refers_to_one() {
        assert_eq!(encode_fields(&[("a", "b")]), [0, 1, b'a', 1, b'b']);
        assert_eq!(encode_bomb("a", "b", 2), [0x40, 1, b'a', 1, b'b', 0xbe, 0xbe]);
    }
}
