//! [`Text`]: a piece of the body that is a string, unescaped; and how JSON strings are unescaped.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use bytes::Bytes;

/// A string from a message: a slice of the body when it had no escapes, its own bytes otherwise.
#[derive(Clone)]
pub struct Text(Repr);

#[derive(Clone)]
enum Repr {
    /// Costs nothing to share, nor to read.
    Static(&'static str),
    /// UTF-8.
    Shared(Bytes),
}

impl Text {
    /// A text known at compile time; never allocates.
    pub const fn from_static(text: &'static str) -> Text {
        Text(Repr::Static(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Static(text) => text,
            // Every constructor takes valid UTF-8, so the default is never used.
            Repr::Shared(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        }
    }

    /// The text's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Static(text) => text.as_bytes(),
            Repr::Shared(bytes) => bytes,
        }
    }

    /// The text's bytes, shared.
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Repr::Static(text) => Bytes::from_static(text.as_bytes()),
            Repr::Shared(bytes) => bytes,
        }
    }

    /// `raw` is the inside of a string token the scanner accepted, unescaped already.
    pub(crate) fn from_checked(raw: Bytes) -> Text {
        Text(Repr::Shared(raw))
    }
}

impl Default for Text {
    fn default() -> Text {
        Text::from_static("")
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text {}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(Repr::Shared(Bytes::from(text)))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(Repr::Shared(Bytes::copy_from_slice(text.as_bytes())))
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// The beginning of a caller's text, for an error that repeats it.
pub fn excerpt(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 256;
    if text.len() <= LONGEST {
        return Cow::Borrowed(text);
    }
    let start = text.floor_char_boundary(LONGEST);
    Cow::Owned(format!("{}… ({} bytes)", &text[..start], text.len()))
}

/// Whether a careless reader could take the name of a member for a name it knows: equal but for case,
/// counting the few non-ASCII characters that fold to ASCII letters. Equal names resemble each other, too.
pub fn resembles(name: &str, known: &str) -> bool {
    name.chars().map(fold).eq(known.chars().map(fold))
}

fn fold(letter: char) -> char {
    match letter {
        'ſ' => 's',
        '\u{212A}' => 'k',
        'İ' | 'ı' => 'i',
        _ => letter.to_ascii_lowercase(),
    }
}

/// The text of a JSON string token (quotes included), or None if `token` is not one.
///
/// `token` must come from the scanner, which has checked its escapes.
pub(crate) fn token_text(token: &[u8]) -> Option<Cow<'_, str>> {
    let inside = token.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let raw = std::str::from_utf8(inside).ok()?;
    Some(if inside.contains(&b'\\') { Cow::Owned(unescape(raw)) } else { Cow::Borrowed(raw) })
}

/// Whether a JSON token the scanner has checked is the string `text`.
pub(crate) fn token_is(token: &[u8], text: &[u8]) -> bool {
    let Some(inside) = token.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else {
        return false;
    };
    // Equal bytes with a backslash would be an escape on one side and text on the other.
    if inside == text && !text.contains(&b'\\') {
        return true;
    }
    inside.contains(&b'\\') && unescaped_bytes(inside).eq(text.iter().copied())
}

/// Unescapes the inside of a string whose escapes the scanner has checked.
pub(crate) fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let (unescaped, length) = unescape_one(escape.as_bytes());
        text.push(unescaped);
        rest = escape.get(length..).unwrap_or_default();
    }
    text.push_str(rest);
    text
}

/// The bytes of the unescaped text, one at a time: for comparing without allocating.
pub(crate) fn unescaped_bytes(raw: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut rest = raw;
    let mut pending = [0; 4];
    let mut left = 0..0;
    std::iter::from_fn(move || {
        if let Some(at) = left.next() {
            return Some(pending[at]);
        }
        let (&first, tail) = rest.split_first()?;
        if first != b'\\' {
            rest = tail;
            return Some(first);
        }
        let (unescaped, length) = unescape_one(tail);
        rest = tail.get(length..).unwrap_or_default();
        let encoded = unescaped.encode_utf8(&mut pending).len();
        left = 1..encoded;
        Some(pending[0])
    })
}

/// The character that the escape after a backslash stands for, and how many bytes it takes.
fn unescape_one(escape: &[u8]) -> (char, usize) {
    let plain = match escape.first() {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unescape_unicode(escape),
        Some(other) => char::from(*other),
        None => char::REPLACEMENT_CHARACTER,
    };
    (plain, 1)
}

fn unescape_unicode(escape: &[u8]) -> (char, usize) {
    let unit = hex(escape.get(1..5));
    if (0xD800..0xDC00).contains(&unit) {
        let low = hex(escape.get(7..11));
        let code = 0x1_0000 + ((unit - 0xD800) << 10) + (low & 0x3FF);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 11);
    }
    (char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER), 5)
}

fn hex(digits: Option<&[u8]>) -> u32 {
    digits
        .unwrap_or_default()
        .iter()
        .fold(0, |value, digit| value << 4 | char::from(*digit).to_digit(16).unwrap_or_default())
}
