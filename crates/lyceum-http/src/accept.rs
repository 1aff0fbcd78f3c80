//! The `Accept` header, read once: what a client takes, how gladly, and in which order it said so.
//!
//! Only reads. What a reading leads to is the dialect's business ([`crate::dialect`]). Reading never
//! fails: whatever is not a media range is passed over, and a header without any is like no header.

use std::fmt;
use std::sync::LazyLock;

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

/// A media range: its type and its subtype.
type Range<'a> = (&'a [u8], &'a [u8]);

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

/// The header every SDK sends with a POST. It is read once and then recognized: reading it costs
/// as much as a quarter of all else that happens before the handler.
const USUAL: &[u8] = b"application/json, text/event-stream";
static USUAL_ACCEPTANCE: LazyLock<Acceptance> = LazyLock::new(|| read_lines([USUAL]));

/// Reads the `Accept` lines of a request as one header.
pub fn parse_accept<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Acceptance {
    let mut lines = lines.into_iter();
    match (lines.next(), lines.next()) {
        // Not a pattern, which would be compared byte by byte.
        (Some(line), None) if line == USUAL => *USUAL_ACCEPTANCE,
        (first, second) => read_lines(first.into_iter().chain(second).chain(lines)),
    }
}

fn read_lines<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Acceptance {
    let mut acceptance = Acceptance::default();
    let mut position = 0u32;
    for line in lines {
        let mut rest = line;
        let mut quotes = Quotes::default();
        while !rest.is_empty() {
            let (range, after) = take_range(rest);
            let (parameters, tail) = quotes.split_unquoted(after, b',');
            if let Some(range) = range {
                acceptance.admit(range, quality(parameters), position);
            }
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

    fn admit(&mut self, (kind, subtype): Range<'_>, quality: Quality, position: u32) {
        self.present = true;
        let offer = |specificity| Offer { quality, position, specificity };
        let of_subtype = |name: &[u8]| match subtype {
            b"*" => offer(Specificity::Type),
            _ if is(subtype, name) => offer(Specificity::Exact),
            _ => offer(Specificity::None),
        };
        if kind == b"*" {
            for known in [&mut self.json, &mut self.sse, &mut self.html] {
                known.weigh(offer(Specificity::Any));
            }
        } else if is(kind, b"application") {
            self.json.weigh(of_subtype(b"json"));
        } else if is(kind, b"text") {
            self.sse.weigh(of_subtype(b"event-stream"));
            self.html.weigh(of_subtype(b"html"));
        }
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

/// What is known about the quotes of one line.
#[derive(Default)]
struct Quotes {
    /// A quote was not closed. Neither is any after it: they were all escaped, as seen from that one,
    /// and are so from each other. Looking for their ends again and again would be quadratic.
    unclosed: bool,
}

impl Quotes {
    /// Splits at the first `separator` that is not inside a quoted string.
    ///
    /// A quote that is never closed is an ordinary byte: junk must not hide what stands after it.
    fn split_unquoted<'a>(&mut self, text: &'a [u8], separator: u8) -> (&'a [u8], &'a [u8]) {
        let mut at = 0;
        while at < text.len() {
            let byte = text[at];
            if byte == separator {
                return (&text[..at], &text[at + 1..]);
            }
            let quoted =
                if byte == b'"' && !self.unclosed { quoted_length(&text[at..]) } else { None };
            self.unclosed |= byte == b'"' && quoted.is_none();
            at += quoted.unwrap_or(1);
        }
        (text, &[])
    }
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

/// Takes a media range off the start of a list. Gives `None` for an element that starts with anything
/// else, and what follows: parameters, if the element has some, and the rest of the list.
fn take_range(list: &[u8]) -> (Option<Range<'_>>, &[u8]) {
    let (kind, after) = take_token(list.trim_ascii_start());
    let after = after.trim_ascii_start();
    let (subtype, after) = match after {
        [b'/', after @ ..] => take_token(after.trim_ascii_start()),
        _ if kind == b"*" => (kind, after),
        _ => return (None, after),
    };
    let after = after.trim_ascii_start();
    let ended = matches!(after, [] | [b',' | b';', ..]);
    let named = !kind.is_empty() && !subtype.is_empty() && (kind != b"*" || subtype == b"*");
    ((ended && named).then_some((kind, subtype)), after)
}

/// Compares without case; most clients write lower case, which is the quicker comparison.
fn is(text: &[u8], name: &[u8]) -> bool {
    text == name || text.eq_ignore_ascii_case(name)
}

fn take_token(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|&byte| !IS_TOKEN[usize::from(byte)]);
    text.split_at(end.unwrap_or(text.len()))
}

/// The first `q` among the parameters; 1 when there is none or it is not a number.
fn quality(parameters: &[u8]) -> Quality {
    let mut rest = parameters;
    let mut quotes = Quotes::default();
    while !rest.is_empty() {
        let (parameter, tail) = quotes.split_unquoted(rest, b';');
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
    !text.is_empty() && text.iter().all(|&byte| IS_TOKEN[usize::from(byte)])
}

/// The bytes tokens are made of.
const IS_TOKEN: [bool; 256] = {
    let mut is_token = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        is_token[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let special = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < special.len() {
        is_token[special[at] as usize] = true;
        at += 1;
    }
    is_token
};
