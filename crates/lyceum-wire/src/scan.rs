//! The validating JSON scanner: one walk over the bytes, no tree, no recursion past [`MAX_DEPTH`].
//!
//! It knows JSON and the two rules JSON leaves open (depth and repeated names); what the members
//! mean is its callers' business. The bytes must be valid UTF-8, which [`Scanner::new`] checks.

use std::borrow::Cow;

use crate::names::Names;
use crate::text::unescape;

/// How deep arrays and objects may nest; the outermost one counts as 1.
pub const MAX_DEPTH: usize = 64;

/// A range of the scanned bytes. Zero-length means "not there": no JSON value is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Span {
        // Scanner::new refuses bodies whose offsets do not fit.
        Span { start: start as u32, end: end as u32 }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }

    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The inside of a JSON string, without its quotes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Str {
    pub(crate) span: Span,
    pub(crate) escaped: bool,
}

/// What a value is, judged by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

/// Why the bytes are not JSON this server reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    Empty,
    TooLong,
    ByteOrderMark,
    Utf8,
    Truncated,
    Trailing,
    Depth,
    Escape,
    Surrogate,
    Control,
    Number,
    Unexpected,
}

impl Malformed {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Malformed::Empty => "the body is empty, expected one JSON-RPC message",
            Malformed::TooLong => "the body is too long",
            Malformed::ByteOrderMark => "the body starts with a byte order mark, send plain UTF-8",
            Malformed::Utf8 => "the body is not valid UTF-8",
            Malformed::Truncated => "the JSON ends too early",
            Malformed::Trailing => "there is data after the JSON value",
            Malformed::Depth => "the JSON nests deeper than 64 levels",
            Malformed::Escape => "a string has an invalid escape",
            Malformed::Surrogate => "a string has a lone surrogate escape",
            Malformed::Control => "a string has a raw control character, escape it",
            Malformed::Number => "a number is not valid JSON",
            Malformed::Unexpected => "the body is not valid JSON",
        }
    }
}

pub(crate) type Scan<T> = Result<T, Malformed>;

/// A position in the bytes, how deep it is, and whether a name was repeated so far.
pub(crate) struct Scanner<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) pos: usize,
    depth: usize,
    names: Names,
    /// Some object had the same name twice. A flag, not an error: a body that is not JSON at all is
    /// reported as such even when a repeated name came first.
    pub(crate) repeated: bool,
}

impl<'a> Scanner<'a> {
    /// A scanner at the start of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Scan<Scanner<'a>> {
        if bytes.is_empty() {
            return Err(Malformed::Empty);
        }
        if u32::try_from(bytes.len()).is_err() {
            return Err(Malformed::TooLong);
        }
        if bytes.starts_with(b"\xEF\xBB\xBF") {
            return Err(Malformed::ByteOrderMark);
        }
        if std::str::from_utf8(bytes).is_err() {
            return Err(Malformed::Utf8);
        }
        Ok(Scanner { bytes, pos: 0, depth: 0, names: Names::default(), repeated: false })
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.pos).copied()
    }

    /// Steps over insignificant whitespace.
    pub(crate) fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.pos += 1;
        }
    }

    /// Only whitespace may follow.
    pub(crate) fn end(&mut self) -> Scan<()> {
        self.space();
        if self.pos == self.bytes.len() { Ok(()) } else { Err(Malformed::Trailing) }
    }

    /// Steps over one value and says what it was and where.
    pub(crate) fn token(&mut self) -> Scan<(Kind, Span)> {
        let start = self.pos;
        let kind = self.value()?;
        Ok((kind, Span::new(start, self.pos)))
    }

    /// Steps over one value, which must start here.
    pub(crate) fn value(&mut self) -> Scan<Kind> {
        match self.peek() {
            Some(b'"') => self.string().map(|_| Kind::String),
            Some(b'{') => {
                self.members(|scanner, _| scanner.value().map(|_| ())).map(|()| Kind::Object)
            }
            Some(b'[') => {
                self.elements(|scanner| scanner.value().map(|_| ())).map(|()| Kind::Array)
            }
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| Kind::Number),
            Some(b't') => self.literal(b"true").map(|()| Kind::Bool),
            Some(b'f') => self.literal(b"false").map(|()| Kind::Bool),
            Some(b'n') => self.literal(b"null").map(|()| Kind::Null),
            Some(_) => Err(Malformed::Unexpected),
            None => Err(Malformed::Truncated),
        }
    }

    /// Walks the object that starts here; `each` gets every name and must step over its value.
    pub(crate) fn members(&mut self, mut each: impl FnMut(&mut Self, Str) -> Scan<()>) -> Scan<()> {
        self.enter()?;
        let mut seen = self.names.open();
        if self.peek() == Some(b'}') {
            self.leave();
            return Ok(());
        }
        loop {
            let name = match self.peek() {
                Some(b'"') => self.string()?,
                Some(_) => return Err(Malformed::Unexpected),
                None => return Err(Malformed::Truncated),
            };
            self.repeated |= self.names.repeats(&mut seen, name, self.bytes);
            self.space();
            self.punctuation(b':')?;
            each(self, name)?;
            self.space();
            if self.closes(b'}')? {
                self.repeated |= self.names.close(seen, self.bytes);
                return Ok(());
            }
        }
    }

    /// Walks the array that starts here; `each` must step over one element.
    pub(crate) fn elements(&mut self, mut each: impl FnMut(&mut Self) -> Scan<()>) -> Scan<()> {
        self.enter()?;
        if self.peek() == Some(b']') {
            self.leave();
            return Ok(());
        }
        loop {
            each(self)?;
            self.space();
            if self.closes(b']')? {
                return Ok(());
            }
        }
    }

    /// The string that starts here, checked, its escapes left as they are.
    pub(crate) fn string(&mut self) -> Scan<Str> {
        let start = self.pos + 1;
        let mut at = start;
        let mut escaped = false;
        loop {
            at = plain_run(self.bytes, at);
            match self.bytes.get(at) {
                Some(b'"') => {
                    self.pos = at + 1;
                    return Ok(Str { span: Span::new(start, at), escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    at = escape_end(self.bytes, at + 1)?;
                }
                Some(_) => return Err(Malformed::Control),
                None => return Err(Malformed::Truncated),
            }
        }
    }

    /// The text of a string this scanner found.
    pub(crate) fn text(&self, found: Str) -> Cow<'a, str> {
        let raw = std::str::from_utf8(&self.bytes[found.span.range()]).unwrap_or_default();
        if found.escaped { Cow::Owned(unescape(raw)) } else { Cow::Borrowed(raw) }
    }

    fn enter(&mut self) -> Scan<()> {
        if self.depth == MAX_DEPTH {
            return Err(Malformed::Depth);
        }
        self.depth += 1;
        self.pos += 1;
        self.space();
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.pos += 1;
    }

    /// After a member or element: true at the closing bracket, false after a comma.
    fn closes(&mut self, bracket: u8) -> Scan<bool> {
        match self.peek() {
            Some(b',') => {
                self.pos += 1;
                self.space();
                Ok(false)
            }
            Some(byte) if byte == bracket => {
                self.leave();
                Ok(true)
            }
            Some(_) => Err(Malformed::Unexpected),
            None => Err(Malformed::Truncated),
        }
    }

    fn punctuation(&mut self, expected: u8) -> Scan<()> {
        match self.peek() {
            Some(byte) if byte == expected => {
                self.pos += 1;
                self.space();
                Ok(())
            }
            Some(_) => Err(Malformed::Unexpected),
            None => Err(Malformed::Truncated),
        }
    }

    fn literal(&mut self, word: &'static [u8]) -> Scan<()> {
        let rest = &self.bytes[self.pos..];
        if rest.starts_with(word) {
            self.pos += word.len();
            Ok(())
        } else if word.starts_with(rest) {
            Err(Malformed::Truncated)
        } else {
            Err(Malformed::Unexpected)
        }
    }

    fn number(&mut self) -> Scan<()> {
        let length = number_length(&self.bytes[self.pos..]).ok_or(Malformed::Number)?;
        self.pos += length;
        Ok(())
    }
}

/// The length of the JSON number at the start of `bytes`, or None if there is none.
pub(crate) fn number_length(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits(at);
    if whole == 0 || (whole > 1 && bytes[at] == b'0') {
        return None;
    }
    at += whole;
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if fraction == 0 {
            return None;
        }
        at += 1 + fraction;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = bytes.get(at) {
            at += 1;
        }
        let exponent = digits(at);
        if exponent == 0 {
            return None;
        }
        at += exponent;
    }
    Some(at)
}

/// Where the run of bytes that need no attention inside a string ends: at a quote, a backslash, a
/// control character, or the end of the bytes. Eight bytes at a time.
fn plain_run(bytes: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let special = special_bytes(u64::from_le_bytes(*chunk));
        if special != 0 {
            return at + (special.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(byte) = bytes.get(at)
        && !matches!(byte, b'"' | b'\\' | 0..0x20)
    {
        at += 1;
    }
    at
}

/// Marks the high bit of each byte that is a quote, a backslash or a control character. Bits above
/// the first mark may be wrong (borrows travel upwards), the lowest mark is always right.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES * 0x80;
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let is_quote = quote.wrapping_sub(ONES) & !quote;
    let is_backslash = backslash.wrapping_sub(ONES) & !backslash;
    let is_control = word.wrapping_sub(ONES * 0x20) & !word;
    (is_quote | is_backslash | is_control) & HIGH
}

/// Where the escape whose letter is at `at` ends.
fn escape_end(bytes: &[u8], at: usize) -> Scan<usize> {
    match bytes.get(at) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 1),
        Some(b'u') => match hex4(bytes, at + 1)? {
            0xD800..0xDC00 => {
                if bytes.get(at + 5..at + 7) != Some(b"\\u") {
                    return Err(Malformed::Surrogate);
                }
                match hex4(bytes, at + 7)? {
                    0xDC00..0xE000 => Ok(at + 11),
                    _ => Err(Malformed::Surrogate),
                }
            }
            0xDC00..0xE000 => Err(Malformed::Surrogate),
            _ => Ok(at + 5),
        },
        Some(_) => Err(Malformed::Escape),
        None => Err(Malformed::Truncated),
    }
}

fn hex4(bytes: &[u8], at: usize) -> Scan<u16> {
    let digits = bytes.get(at..at + 4).ok_or(Malformed::Truncated)?;
    digits.iter().try_fold(0, |value: u16, digit| {
        let digit = char::from(*digit).to_digit(16).ok_or(Malformed::Escape)?;
        Ok(value << 4 | digit as u16)
    })
}
