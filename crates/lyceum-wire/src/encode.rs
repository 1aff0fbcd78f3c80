//! Writing messages: compact, on one line, one allocation each.
//!
//! Raw JSON that is passed in is copied as it is, except that line breaks between its tokens become
//! spaces: a message must fit on one line of an event stream or of stdio.

use bytes::Bytes;

use crate::error::RpcError;
use crate::id::Id;
use crate::object::Writer;
use crate::scan::special_bytes;

const OPEN: &[u8] = b"{\"jsonrpc\":\"2.0\"";
const ID: &[u8] = b",\"id\":";
const METHOD: &[u8] = b",\"method\":";
const PARAMS: &[u8] = b",\"params\":";
const RESULT: &[u8] = b",\"result\":";
const ERROR_CODE: &[u8] = b",\"error\":{\"code\":";
const MESSAGE: &[u8] = b",\"message\":";
const DATA: &[u8] = b",\"data\":";

/// The response that carries a result.
pub fn result(id: &Id, result: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(result_start(id) + result.len() + 1);
    result_into(&mut out, id, result);
    Bytes::from(out)
}

/// The same in the buffer that holds the result: a large one is moved within it rather than copied,
/// if there is room for what stands around it.
pub fn result_around(id: &Id, mut result: Vec<u8>) -> Bytes {
    let (start, length) = (result_start(id), result.len());
    result.reserve_exact(start + 1);
    result.resize(start + length, 0);
    result.copy_within(..length, start);
    put_on_one_line(&mut result[start..]);
    let mut head = Vec::with_capacity(start);
    head.extend_from_slice(OPEN);
    write_id(&mut head, id);
    head.extend_from_slice(RESULT);
    result[..start].copy_from_slice(&head);
    result.push(b'}');
    Bytes::from(result)
}

/// The same, where `fill` writes the members of the result, in about `room` bytes.
pub fn result_with(id: &Id, room: usize, fill: impl FnOnce(&mut Writer)) -> Bytes {
    let mut out = Vec::with_capacity(result_start(id) + room);
    out.extend_from_slice(OPEN);
    write_id(&mut out, id);
    out.extend_from_slice(RESULT);
    closed(out, fill)
}

/// Where the result starts in what [`result`] writes; it ends before the last byte.
pub fn result_start(id: &Id) -> usize {
    OPEN.len() + id_length(id) + RESULT.len()
}

/// Appends what [`result`] writes.
pub fn result_into(out: &mut Vec<u8>, id: &Id, result: &[u8]) {
    out.extend_from_slice(OPEN);
    write_id(out, id);
    out.extend_from_slice(RESULT);
    write_raw(out, result);
    out.push(b'}');
}

/// The response that carries an error; without an id, the member is left out.
pub fn error(id: Option<&Id>, error: &RpcError) -> Bytes {
    let data = error.data.as_ref().map_or(0, |data| DATA.len() + data.len());
    let mut out = Vec::with_capacity(
        OPEN.len()
            + id.map_or(0, id_length)
            + ERROR_CODE.len()
            + code_length(error.code.0)
            + MESSAGE.len()
            + str_length(&error.message)
            + data
            + 2,
    );
    error_into(&mut out, id, error);
    Bytes::from(out)
}

/// Appends what [`error`] writes.
pub fn error_into(out: &mut Vec<u8>, id: Option<&Id>, error: &RpcError) {
    out.extend_from_slice(OPEN);
    if let Some(id) = id {
        write_id(out, id);
    }
    out.extend_from_slice(ERROR_CODE);
    write_code(out, error.code.0);
    out.extend_from_slice(MESSAGE);
    write_str(out, &error.message);
    if let Some(data) = &error.data {
        out.extend_from_slice(DATA);
        write_raw(out, data);
    }
    out.extend_from_slice(b"}}");
}

/// A notification.
pub fn notification(method: &str, params: Option<&[u8]>) -> Bytes {
    let mut out = Vec::with_capacity(OPEN.len() + call_length(method, params));
    notification_into(&mut out, method, params);
    Bytes::from(out)
}

/// Appends what [`notification`] writes.
pub fn notification_into(out: &mut Vec<u8>, method: &str, params: Option<&[u8]>) {
    out.extend_from_slice(OPEN);
    write_call(out, method, params);
}

/// A request.
pub fn request(id: &Id, method: &str, params: Option<&[u8]>) -> Bytes {
    let mut out = Vec::with_capacity(OPEN.len() + id_length(id) + call_length(method, params));
    request_into(&mut out, id, method, params);
    Bytes::from(out)
}

/// A request whose params `fill` writes, for which room is made.
pub fn request_with(id: &Id, method: &str, room: usize, fill: impl FnOnce(&mut Writer)) -> Bytes {
    let length = OPEN.len() + id_length(id) + call_length(method, None) + PARAMS.len() + room;
    let mut out = Vec::with_capacity(length);
    out.extend_from_slice(OPEN);
    write_id(&mut out, id);
    write_method(&mut out, method);
    out.extend_from_slice(PARAMS);
    closed(out, fill)
}

/// A message that ends with an object, whose members `fill` writes.
fn closed(out: Vec<u8>, fill: impl FnOnce(&mut Writer)) -> Bytes {
    let start = out.len();
    let mut object = Writer::at_end_of(out);
    fill(&mut object);
    let mut out = object.into_vec();
    put_on_one_line(&mut out[start..]);
    out.push(b'}');
    Bytes::from(out)
}

/// Appends what [`request`] writes.
pub fn request_into(out: &mut Vec<u8>, id: &Id, method: &str, params: Option<&[u8]>) {
    out.extend_from_slice(OPEN);
    write_id(out, id);
    write_call(out, method, params);
}

/// Appends a JSON string, quotes included. U+2028 and U+2029 are escaped too, for readers that
/// take them for line breaks.
pub fn write_str(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    if is_plain(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
    } else {
        write_escaped(out, text.as_bytes());
    }
    out.push(b'"');
}

fn write_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut written = 0;
    let mut at = 0;
    while at < bytes.len() {
        if at % 8 == 0 && starts_plain(&bytes[at..]) {
            at += 8;
            continue;
        }
        let Some(escape) = escape(bytes[at], &bytes[at..]) else {
            at += 1;
            continue;
        };
        out.extend_from_slice(&bytes[written..at]);
        match escape {
            Escape::Short(letter) => out.extend_from_slice(&[b'\\', letter]),
            Escape::Unicode(low) => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[hex_digit(low >> 4), hex_digit(low & 15)]);
            }
            Escape::Separator(last) => {
                out.extend_from_slice(&[b'\\', b'u', b'2', b'0', b'2', last])
            }
        }
        at += escape.replaces();
        written = at;
    }
    out.extend_from_slice(&bytes[written..]);
}

/// How many bytes [`write_str`] appends.
pub fn str_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    if is_plain(bytes) {
        return bytes.len() + 2;
    }
    let escapes = bytes.iter().enumerate().filter_map(|(at, byte)| escape(*byte, &bytes[at..]));
    escapes.map(|escape| escape.length() - escape.replaces()).sum::<usize>() + bytes.len() + 2
}

/// How a character that cannot stand for itself is written.
#[derive(Clone, Copy)]
enum Escape {
    Short(u8),
    Unicode(u8),
    Separator(u8),
}

impl Escape {
    fn length(self) -> usize {
        match self {
            Escape::Short(_) => 2,
            Escape::Unicode(_) | Escape::Separator(_) => 6,
        }
    }

    fn replaces(self) -> usize {
        match self {
            Escape::Separator(_) => 3,
            Escape::Short(_) | Escape::Unicode(_) => 1,
        }
    }
}

/// Whether all of a text is ASCII that stands for itself, as most text is.
fn is_plain(bytes: &[u8]) -> bool {
    let (words, _) = bytes.as_chunks::<8>();
    match bytes.last_chunk::<8>() {
        // The last eight bytes are a word of their own, part of which was looked at before.
        Some(last) => words.iter().all(|word| is_plain_word(*word)) && is_plain_word(*last),
        None => {
            bytes.iter().all(|byte| matches!(byte, b' '..0x80) && !matches!(byte, b'"' | b'\\'))
        }
    }
}

/// Whether the next eight bytes are.
fn starts_plain(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|word| is_plain_word(*word))
}

fn is_plain_word(word: [u8; 8]) -> bool {
    let word = u64::from_le_bytes(word);
    word & 0x8080_8080_8080_8080 == 0 && special_bytes(word) == 0
}

fn escape(byte: u8, from_here: &[u8]) -> Option<Escape> {
    Some(match byte {
        b'"' | b'\\' => Escape::Short(byte),
        b'\n' => Escape::Short(b'n'),
        b'\r' => Escape::Short(b'r'),
        b'\t' => Escape::Short(b't'),
        0x08 => Escape::Short(b'b'),
        0x0C => Escape::Short(b'f'),
        0..0x20 => Escape::Unicode(byte),
        0xE2 => match from_here {
            [_, 0x80, 0xA8, ..] => Escape::Separator(b'8'),
            [_, 0x80, 0xA9, ..] => Escape::Separator(b'9'),
            _ => return None,
        },
        _ => return None,
    })
}

fn hex_digit(value: u8) -> u8 {
    b"0123456789abcdef"[usize::from(value & 15)]
}

fn write_id(out: &mut Vec<u8>, id: &Id) {
    out.extend_from_slice(ID);
    out.extend_from_slice(id.as_bytes());
}

fn id_length(id: &Id) -> usize {
    ID.len() + id.as_bytes().len()
}

fn write_method(out: &mut Vec<u8>, method: &str) {
    out.extend_from_slice(METHOD);
    write_str(out, method);
}

fn write_call(out: &mut Vec<u8>, method: &str, params: Option<&[u8]>) {
    write_method(out, method);
    if let Some(params) = params {
        out.extend_from_slice(PARAMS);
        write_raw(out, params);
    }
    out.push(b'}');
}

fn call_length(method: &str, params: Option<&[u8]>) -> usize {
    let params = params.map_or(0, |params| PARAMS.len() + params.len());
    METHOD.len() + str_length(method) + params + 1
}

/// Appends raw JSON on one line.
fn write_raw(out: &mut Vec<u8>, raw: &[u8]) {
    let start = out.len();
    out.extend_from_slice(raw);
    put_on_one_line(&mut out[start..]);
}

/// In valid JSON a line break is always whitespace between tokens.
fn put_on_one_line(raw: &mut [u8]) {
    // One comparison per byte, which the compiler turns into vector code.
    if raw.iter().copied().fold(u8::MAX, u8::min) < b' ' {
        for byte in raw {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
}

fn write_code(out: &mut Vec<u8>, code: i32) {
    let mut digits = [0; 11];
    let mut at = digits.len();
    let mut rest = code.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if code < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend_from_slice(&digits[at..]);
}

fn code_length(code: i32) -> usize {
    let digits = code.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
    digits + usize::from(code < 0)
}

#[cfg(test)]
mod tests;
