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

    pub(crate) fn len(self) -> u32 {
        self.end - self.start
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
///
/// As wide as the numbers it shares its place in results with: a byte would be moved piecemeal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
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
    /// The same bytes.
    pub(crate) source: &'a str,
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
        let source = std::str::from_utf8(bytes).map_err(|_| Malformed::Utf8)?;
        Ok(Scanner { bytes, source, pos: 0, depth: 0, names: Names::default(), repeated: false })
    }

    /// The byte here; 0, which is never valid outside a string, at the end.
    #[inline]
    pub(crate) fn peek(&self) -> u8 {
        self.bytes.get(self.pos).copied().unwrap_or(0)
    }

    /// Steps over insignificant whitespace, then peeks.
    #[inline]
    pub(crate) fn ahead(&mut self) -> u8 {
        let byte = self.peek();
        if byte > b' ' { byte } else { self.ahead_of_space() }
    }

    fn ahead_of_space(&mut self) -> u8 {
        while let b' ' | b'\t' | b'\n' | b'\r' = self.peek() {
            self.pos += 1;
        }
        self.peek()
    }

    /// Only whitespace may follow.
    pub(crate) fn end(&mut self) -> Scan<()> {
        self.ahead();
        if self.pos == self.bytes.len() { Ok(()) } else { Err(Malformed::Trailing) }
    }

    /// Steps over one value and says what it was and where.
    #[inline]
    pub(crate) fn token(&mut self) -> Scan<(Kind, Span)> {
        let start = self.pos;
        let kind = self.value()?;
        Ok((kind, Span::new(start, self.pos)))
    }

    /// Steps over one value, which must start here.
    pub(crate) fn value(&mut self) -> Scan<Kind> {
        match self.peek() {
            b'"' => self.string().map(|_| Kind::String),
            b'{' => self.members(|scanner, _| scanner.skip()).map(|()| Kind::Object),
            b'[' => self.elements(|scanner| scanner.skip()).map(|()| Kind::Array),
            b'-' | b'0'..=b'9' => self.number().map(|()| Kind::Number),
            b't' => self.literal(b"true").map(|()| Kind::Bool),
            b'f' => self.literal(b"false").map(|()| Kind::Bool),
            b'n' => self.literal(b"null").map(|()| Kind::Null),
            _ => Err(self.unexpected()),
        }
    }

    /// Steps over one value.
    #[inline]
    pub(crate) fn skip(&mut self) -> Scan<()> {
        self.value().map(|_| ())
    }

    /// Walks the object that starts here; `each` gets every name and must step over its value.
    #[inline]
    pub(crate) fn members(&mut self, mut each: impl FnMut(&mut Self, Str) -> Scan<()>) -> Scan<()> {
        self.enter()?;
        let mut byte = self.ahead();
        if byte == b'}' {
            self.leave();
            return Ok(());
        }
        let mut seen = self.names.open();
        loop {
            if byte != b'"' {
                return Err(self.unexpected());
            }
            let name = self.string()?;
            self.repeated |= self.names.repeats(&mut seen, name, self.bytes);
            if self.ahead() != b':' {
                return Err(self.unexpected());
            }
            self.pos += 1;
            self.ahead();
            each(self, name)?;
            match self.ahead() {
                b',' => {
                    self.pos += 1;
                    byte = self.ahead();
                }
                b'}' => break,
                _ => return Err(self.unexpected()),
            }
        }
        self.leave();
        self.repeated |= self.names.close(seen, self.bytes);
        Ok(())
    }

    /// Walks the array that starts here; `each` must step over one element.
    pub(crate) fn elements(&mut self, mut each: impl FnMut(&mut Self) -> Scan<()>) -> Scan<()> {
        self.enter()?;
        if self.ahead() == b']' {
            self.leave();
            return Ok(());
        }
        loop {
            each(self)?;
            match self.ahead() {
                b',' => {
                    self.pos += 1;
                    self.ahead();
                }
                b']' => break,
                _ => return Err(self.unexpected()),
            }
        }
        self.leave();
        Ok(())
    }

    /// The string that starts here, checked, its escapes left as they are.
    #[inline]
    pub(crate) fn string(&mut self) -> Scan<Str> {
        let start = self.pos + 1;
        let end = plain_run(self.bytes, start);
        if self.bytes.get(end) != Some(&b'"') {
            return self.escaped_string(start, end);
        }
        self.pos = end + 1;
        Ok(Str { span: Span::new(start, end), escaped: false })
    }

    /// The rest of a string that is not plain up to its end.
    #[cold]
    fn escaped_string(&mut self, start: usize, mut at: usize) -> Scan<Str> {
        loop {
            match self.bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => at = escape_end(self.bytes, at + 1)?,
                Some(_) => return Err(Malformed::Control),
                None => return Err(Malformed::Truncated),
            }
            at = plain_run(self.bytes, at);
        }
        self.pos = at + 1;
        Ok(Str { span: Span::new(start, at), escaped: true })
    }

    /// The text of a string this scanner found.
    pub(crate) fn text(&self, found: Str) -> Cow<'a, str> {
        let raw = &self.source[found.span.range()];
        if found.escaped { Cow::Owned(unescape(raw)) } else { Cow::Borrowed(raw) }
    }

    /// Asks `question` about a member's unescaped name.
    #[inline]
    pub(crate) fn named<T>(&self, name: Str, question: impl Fn(&[u8]) -> T) -> T {
        if name.escaped {
            return question(self.text(name).as_bytes());
        }
        question(&self.bytes[name.span.range()])
    }

    #[inline]
    fn enter(&mut self) -> Scan<()> {
        if self.depth == MAX_DEPTH {
            return Err(Malformed::Depth);
        }
        self.depth += 1;
        self.pos += 1;
        Ok(())
    }

    #[inline]
    fn leave(&mut self) {
        self.depth -= 1;
        self.pos += 1;
    }

    #[cold]
    fn unexpected(&self) -> Malformed {
        if self.pos >= self.bytes.len() { Malformed::Truncated } else { Malformed::Unexpected }
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
#[inline]
pub(crate) fn plain_run(bytes: &[u8], from: usize) -> usize {
    // Most strings are short, so the first word is worth its own turn.
    if let Some(word) = bytes.get(from..).and_then(<[u8]>::first_chunk::<8>) {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return from + (special.trailing_zeros() / 8) as usize;
        }
        return long_plain_run(bytes, from + 8);
    }
    long_plain_run(bytes, from)
}

#[inline(never)]
fn long_plain_run(bytes: &[u8], from: usize) -> usize {
    let (words, tail) = bytes.get(from..).unwrap_or_default().as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return from + n * 8 + (special.trailing_zeros() / 8) as usize;
        }
    }
    let plain = tail.iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20));
    bytes.len() - tail.len() + plain.count()
}

/// Marks the high bit of each byte that is a quote, a backslash or a control character. Bits above
/// the first mark may be wrong (borrows travel upwards), the lowest mark is always right.
#[inline]
pub(crate) fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES * 0x80;
    let not_quote = word ^ (ONES * b'"' as u64);
    let not_backslash = word ^ (ONES * b'\\' as u64);
    let below = not_quote.wrapping_sub(ONES)
        | not_backslash.wrapping_sub(ONES)
        | word.wrapping_sub(ONES * 0x20);
    // Plain ASCII, the usual case, is done here.
    if below & HIGH == 0 {
        return 0;
    }
    below & !word & HIGH
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

#[cfg(test)]
mod tests;
