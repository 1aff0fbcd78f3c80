//! Chunked bodies: however one is cut, it reads as it does to a reader that has all of it before it.

#[path = "../../crates/lyceum-http/src/client/http1/body.rs"]
#[expect(dead_code, reason = "what the other kinds of bodies need")]
mod body;

use body::{Framing, Next};

/// As the product's.
const MAX_LINE: usize = 1 << 10;
const MAX_TRAILERS: usize = 8 << 10;

/// How reading came to an end.
#[derive(Debug, PartialEq)]
enum Ending {
    /// The body is whole, and so many bytes follow it.
    Whole(usize),
    /// More must be read.
    Cut,
    Malformed,
}

/// Takes the first byte as the length of pieces and the rest as a body.
pub fn check(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let expected = read(data);
    assert_eq!(expected, pieced(data, usize::from(first).max(1)), "in pieces of {first}");
    assert_eq!(expected, pieced(data, data.len().max(1)), "at once");
    // What is written in chunks reads as it was.
    let written: String = data.chunks(usize::from(first).max(1)).map(chunk).collect();
    let written = written + "0\r\n\r\nnext";
    let text: String = data.iter().map(|&byte| char::from(byte & 0x7F)).collect();
    assert_eq!((text.into_bytes(), Ending::Whole("next".len())), pieced(written.as_bytes(), 7));
}

/// A chunk of these bytes, as ASCII.
fn chunk(data: &[u8]) -> String {
    let text: String = data.iter().map(|&byte| char::from(byte & 0x7F)).collect();
    format!("{:X}\r\n{text}\r\n", text.len())
}

/// What the product reads when this arrives in pieces.
fn pieced(data: &[u8], piece: usize) -> (Vec<u8>, Ending) {
    let (mut framing, mut body) = (Framing::chunked(), Vec::new());
    let (mut start, mut end) = (0, 0);
    loop {
        match framing.next(&data[start..end]) {
            Err(_) => return (body, Ending::Malformed),
            Ok(Next::Piece { before, length }) => {
                assert_ne!(length, 0, "a piece of nothing");
                start += before;
                body.extend_from_slice(&data[start..start + length]);
                start += length;
            }
            Ok(Next::End { before }) => {
                return (body, Ending::Whole(data.len() - start - before));
            }
            Ok(Next::More { .. }) if end == data.len() => return (body, Ending::Cut),
            Ok(Next::More { before }) => {
                start += before;
                end = data.len().min(end + piece);
            }
        }
    }
}

/// What is to be read of a chunked body, by the letter of RFC 9112.
fn read(mut data: &[u8]) -> (Vec<u8>, Ending) {
    let mut body = Vec::new();
    let ending = loop {
        let Some((line, rest)) = split_line(data) else {
            break if could_be_size(data) && data.len() < MAX_LINE {
                Ending::Cut
            } else {
                Ending::Malformed
            };
        };
        let Some(size) = size(line).filter(|_| line.len() <= MAX_LINE) else {
            break Ending::Malformed;
        };
        data = rest;
        if size == 0 {
            break after(data);
        }
        let n = data.len().min(usize::try_from(size).unwrap_or(usize::MAX));
        body.extend_from_slice(&data[..n]);
        data = &data[n..];
        match data {
            [b'\r', b'\n', rest @ ..] => data = rest,
            [] | [b'\r'] => break Ending::Cut,
            _ => break Ending::Malformed,
        }
    };
    (body, ending)
}

/// What follows the last chunk: lines, the last of them empty.
fn after(data: &[u8]) -> Ending {
    let mut n_read = 0;
    while let Some((line, rest)) = split_line(&data[n_read..]) {
        n_read += line.len();
        if n_read > MAX_TRAILERS {
            return Ending::Malformed;
        }
        if line == b"\r\n" || line == b"\n" {
            return Ending::Whole(rest.len());
        }
    }
    if data.len() > MAX_TRAILERS { Ending::Malformed } else { Ending::Cut }
}

/// The first line with its end, and what follows it.
fn split_line(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = data.iter().position(|&byte| byte == b'\n')?;
    Some(data.split_at(end + 1))
}

/// `1*16HEXDIG *(SP / HTAB) [ ";" anything ] CRLF`
fn size(line: &[u8]) -> Option<u64> {
    let line = line.strip_suffix(b"\r\n").filter(|line| !line.contains(&b'\r'))?;
    let line = line.split(|&byte| byte == b';').next()?;
    let digits = std::str::from_utf8(line).ok()?.trim_end_matches([' ', '\t']);
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex && digits.len() <= 16).then(|| u64::from_str_radix(digits, 16).ok())?
}

/// Whether something could follow that makes it a line as above.
fn could_be_size(start: &[u8]) -> bool {
    let line = start.strip_suffix(b"\r").unwrap_or(start);
    start.is_empty() || size(&[line, b"\r\n"].concat()).is_some()
}
