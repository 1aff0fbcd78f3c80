//! The `Accept` header, read once: what a client takes, how gladly, and in which order it said so.
//!
//! Only reads. What a reading leads to is the dialect's business ([`crate::dialect`]). Reading never
//! fails: whatever is not a media range is passed over, and a header without any is like no header.

use std::fmt;

#[cfg(test)]
mod tests;

/// What the `Accept` lines of one request say about the media types we can send.
///
/// ```
/// use lyceum_http::accept::{AcceptMode, parse_accept};
///
/// let acceptance = parse_accept([b"application/json, text/event-stream;q=0.5".as_slice()]);
/// assert_eq!(acceptance.mode(), AcceptMode::Both);
/// assert!(acceptance.json.quality > acceptance.sse.quality);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// `application/json`.
    pub json: Offer,
    /// `text/event-stream`.
    pub sse: Offer,
    /// `text/html`.
    pub html: Offer,
    /// Whether any media range was seen at all; without one the header counts as absent.
    pub present: bool,
}

/// What the header says about one media type, taken from the most specific range that matches it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// How welcome the type is; zero when it is refused or not mentioned.
    pub quality: Quality,
    /// Where the range stood among all elements of the header, counted from zero.
    pub position: u32,
    /// How exactly the range named the type.
    pub specificity: Specificity,
}

/// A `q` value in billionths, so that extra decimals still count as meant.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quality(u32);

/// How exactly a media range names a type; the more exact range speaks for it (RFC 9110, 12.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Specificity {
    /// No range matches.
    #[default]
    None,
    /// `*/*`.
    Any,
    /// `type/*`.
    Type,
    /// `type/subtype`.
    Exact,
}

/// The kinds of `Accept` header operators count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcceptMode {
    /// Takes JSON and SSE, and names at least one of them.
    Both,
    /// Takes JSON, not SSE.
    JsonOnly,
    /// Takes SSE, not JSON.
    SseOnly,
    /// Takes both, only by `*/*`.
    Wildcard,
    /// No header, or none with a media range in it.
    Absent,
    /// Takes neither: names other types only.
    Invalid,
}

/// Reads the `Accept` lines of a request as one header.
pub fn parse_accept<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Acceptance {
    let mut acceptance = Acceptance::default();
    let mut position = 0u32;
    for line in lines {
        let mut rest = line;
        while !rest.is_empty() {
            let (element, tail) = split_element(rest);
            acceptance.admit(element, position);
            position = position.saturating_add(1);
            rest = tail;
        }
    }
    acceptance
}

impl Acceptance {
    /// The kind of header this is.
    pub const fn mode(&self) -> AcceptMode {
        let by_wildcard = matches!(self.json.specificity, Specificity::Any)
            && matches!(self.sse.specificity, Specificity::Any);
        match (self.present, self.json.accepted(), self.sse.accepted()) {
            (false, ..) => AcceptMode::Absent,
            (true, true, true) if by_wildcard => AcceptMode::Wildcard,
            (true, true, true) => AcceptMode::Both,
            (true, true, false) => AcceptMode::JsonOnly,
            (true, false, true) => AcceptMode::SseOnly,
            (true, false, false) => AcceptMode::Invalid,
        }
    }

    fn admit(&mut self, element: &[u8], position: u32) {
        let (range, parameters) = match element.iter().position(|&byte| byte == b';') {
            Some(at) => (&element[..at], &element[at + 1..]),
            None => (element, &[][..]),
        };
        let Some((kind, subtype)) = split_range(range) else { return };
        self.present = true;
        let quality = quality(parameters);
        let offer = |offer: &mut Offer, of_kind: &[u8], of_subtype: &[u8]| {
            let specificity = specificity(kind, subtype, of_kind, of_subtype);
            offer.weigh(Offer { quality, position, specificity });
        };
        offer(&mut self.json, b"application", b"json");
        offer(&mut self.sse, b"text", b"event-stream");
        offer(&mut self.html, b"text", b"html");
    }
}

impl Offer {
    /// Whether the type may be sent.
    pub const fn accepted(&self) -> bool {
        self.quality.0 > 0
    }

    /// Whether the type may be sent and was named in full.
    pub const fn named(&self) -> bool {
        self.accepted() && matches!(self.specificity, Specificity::Exact)
    }

    /// Lets the more specific of two ranges speak. A range given twice keeps its better quality and
    /// its earlier place, so that the order of the header decides nothing but the place.
    fn weigh(&mut self, other: Offer) {
        if other.specificity > self.specificity {
            *self = other;
        } else if other.specificity == self.specificity && other.specificity != Specificity::None {
            self.quality = self.quality.max(other.quality);
        }
    }
}

impl Quality {
    /// `q=1`, also meant when nothing is said.
    pub const ONE: Quality = Quality(1_000_000_000);
    /// `q=0`: not acceptable.
    pub const ZERO: Quality = Quality(0);

    /// Reads a decimal number as a quality; `None` when it is not one.
    fn parse(text: &[u8]) -> Option<Quality> {
        let (negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let (whole, fraction) = match digits.iter().position(|&byte| byte == b'.') {
            Some(at) => (&digits[..at], &digits[at + 1..]),
            None => (digits, &[][..]),
        };
        let numeric = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
        if whole.len() + fraction.len() == 0 || !numeric(whole) || !numeric(fraction) {
            return None;
        }
        if negative {
            return Some(Quality::ZERO);
        }
        if whole.iter().any(|&digit| digit != b'0') {
            return Some(Quality::ONE);
        }
        Some(Quality::from_fraction(fraction))
    }

    fn from_fraction(digits: &[u8]) -> Quality {
        let kept = digits.iter().chain(std::iter::repeat(&b'0')).take(9);
        let billionths = kept.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        // A quality too small to hold is still not zero: the type was not refused.
        let lost = digits.iter().skip(9).any(|&digit| digit != b'0');
        Quality(if billionths == 0 && lost { 1 } else { billionths })
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Quality::ZERO => f.write_str("0"),
            Quality::ONE => f.write_str("1"),
            Quality(billionths) => {
                let digits = format!("{billionths:09}");
                write!(f, "0.{}", digits.trim_end_matches('0'))
            }
        }
    }
}

impl fmt::Debug for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl AcceptMode {
    /// Every mode, in the order metrics list them.
    pub const ALL: [AcceptMode; 6] = [
        AcceptMode::Both,
        AcceptMode::JsonOnly,
        AcceptMode::SseOnly,
        AcceptMode::Wildcard,
        AcceptMode::Absent,
        AcceptMode::Invalid,
    ];

    /// The name of the mode in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            AcceptMode::Both => "both",
            AcceptMode::JsonOnly => "json-only",
            AcceptMode::SseOnly => "sse-only",
            AcceptMode::Wildcard => "wildcard",
            AcceptMode::Absent => "absent",
            AcceptMode::Invalid => "invalid",
        }
    }
}

impl fmt::Display for AcceptMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Splits the first element off a list, at a comma outside of quotes.
fn split_element(list: &[u8]) -> (&[u8], &[u8]) {
    split_unquoted(list, b',')
}

/// Splits at the first `separator` that is not inside a quoted string.
///
/// A quote that is never closed is an ordinary byte: junk must not hide what stands after it.
fn split_unquoted(text: &[u8], separator: u8) -> (&[u8], &[u8]) {
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        if byte == separator {
            return (&text[..at], &text[at + 1..]);
        }
        if byte == b'"'
            && let Some(length) = quoted_length(&text[at..])
        {
            at += length;
        } else {
            at += 1;
        }
    }
    (text, &[])
}

/// The length of the quoted string `text` starts with, quotes included.
fn quoted_length(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// Splits a media range into type and subtype; `None` when it is not one.
fn split_range(range: &[u8]) -> Option<(&[u8], &[u8])> {
    let range = range.trim_ascii();
    if range == b"*" {
        return Some((b"*", b"*"));
    }
    let slash = range.iter().position(|&byte| byte == b'/')?;
    let (kind, subtype) = (range[..slash].trim_ascii_end(), range[slash + 1..].trim_ascii_start());
    let valid = is_token(kind) && is_token(subtype) && (kind != b"*" || subtype == b"*");
    valid.then_some((kind, subtype))
}

fn specificity(kind: &[u8], subtype: &[u8], of_kind: &[u8], of_subtype: &[u8]) -> Specificity {
    if kind == b"*" {
        Specificity::Any
    } else if !kind.eq_ignore_ascii_case(of_kind) {
        Specificity::None
    } else if subtype == b"*" {
        Specificity::Type
    } else if subtype.eq_ignore_ascii_case(of_subtype) {
        Specificity::Exact
    } else {
        Specificity::None
    }
}

/// The first `q` among the parameters; 1 when there is none or it is not a number.
fn quality(parameters: &[u8]) -> Quality {
    let mut rest = parameters;
    while !rest.is_empty() {
        let (parameter, tail) = split_unquoted(rest, b';');
        rest = tail;
        let Some(equals) = parameter.iter().position(|&byte| byte == b'=') else { continue };
        if parameter[..equals].trim_ascii().eq_ignore_ascii_case(b"q") {
            let value = parameter[equals + 1..].trim_ascii();
            let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
            return Quality::parse(bare.unwrap_or(value)).unwrap_or(Quality::ONE);
        }
    }
    Quality::ONE
}

/// Whether `text` is a token of RFC 9110, 5.6.2.
pub(crate) fn is_token(text: &[u8]) -> bool {
    let special = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.iter().all(|&byte| byte.is_ascii_alphanumeric() || special(byte))
}
