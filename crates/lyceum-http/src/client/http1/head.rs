//! Heads of requests and answers.

use std::io::Write;
use std::mem::MaybeUninit;

use http::header::{self, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use httparse::{ParserConfig, Status};

use super::body::Framing;
use super::{Head, Outgoing, Told};

/// Headers an answer may have.
const MAX_HEADERS: usize = 100;
/// How a request travels is not for its headers to say.
const OURS: [HeaderName; 3] =
    [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION];
/// What most answers are.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What the bytes read so far begin with.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
pub(super) enum Parsed {
    /// A head that is not all there yet.
    Partial,
    /// A head of this length that announces another one.
    Interim { length: usize },
    /// The head of the answer.
    Head {
        length: usize,
        head: Head,
        framing: Framing,
        /// Whether another request may follow this one.
        stays: bool,
    },
}

/// Writes a request.
pub(super) fn write(out: &mut Vec<u8>, outgoing: &Outgoing<'_>) {
    let target = outgoing.url.path_and_query().map_or("/", |target| target.as_str());
    // A URL may have a query and no path.
    let root = if target.starts_with('/') { "" } else { "/" };
    let pieces = [outgoing.method.as_str(), " ", root, target, " HTTP/1.1\r\n"];
    pieces.iter().for_each(|piece| out.extend_from_slice(piece.as_bytes()));
    for (name, value) in outgoing.headers.iter().filter(|(name, _)| !OURS.contains(name)) {
        field(out, name, value.as_bytes());
    }
    if outgoing.method == Method::POST {
        // Writing to memory does not fail.
        let _ = write!(out, "content-length: {}\r\n", outgoing.body.len());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&outgoing.body);
}

fn field(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    for piece in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(piece);
    }
}

/// Reads the head of an answer.
pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, &'static str> {
    if bytes.is_empty() {
        return Ok(Parsed::Partial);
    }
    let mut fields = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        bytes,
        &mut fields,
    );
    let length = match parsed {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Ok(Parsed::Partial),
        Err(httparse::Error::TooManyHeaders) => return Err("its answer has too many headers"),
        Err(_) => return Err("its answer is not HTTP/1.1"),
    };
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or("its answer has no status")?;
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err("it switched to a protocol nobody asked for");
    }
    if status.is_informational() {
        return Ok(Parsed::Interim { length });
    }
    let (mut told, mut rules) = (Told::default(), Rules::default());
    for field in response.headers.iter() {
        if !rules.take(field)? {
            keep(field, &mut told)?;
        }
    }
    let is_old = response.version == Some(0);
    let framing = rules.framing(status, is_old)?;
    let asked = if is_old { rules.keeps_alive } else { true };
    let stays = asked && !rules.closes && !rules.is_ambiguous() && !framing.ends_with_connection();
    Ok(Parsed::Head { length, head: Head { status, told }, framing, stays })
}

fn keep(field: &httparse::Header<'_>, told: &mut Told) -> Result<(), &'static str> {
    if let Some(place @ None) = told.place(field.name) {
        let unreadable = |_| "its answer has a header nobody can read";
        *place = Some(match field.value {
            value if JSON == value => JSON,
            value => HeaderValue::from_bytes(value).map_err(unreadable)?,
        });
    }
    Ok(())
}

/// What headers say about the body and the connection.
#[derive(Default)]
struct Rules {
    length: Option<u64>,
    is_chunked: bool,
    closes: bool,
    keeps_alive: bool,
}

impl Rules {
    /// Whether it is a header that is meant for us.
    fn take(&mut self, field: &httparse::Header<'_>) -> Result<bool, &'static str> {
        let is = |name: HeaderName| field.name.eq_ignore_ascii_case(name.as_str());
        if is(header::CONTENT_LENGTH) {
            let length = length(field.value).ok_or("its answer has no readable length")?;
            if self.length.is_some_and(|known| known != length) {
                return Err("its answer has two lengths");
            }
            self.length = Some(length);
        } else if is(header::TRANSFER_ENCODING) {
            if self.is_chunked || !field.value.eq_ignore_ascii_case(b"chunked") {
                return Err("its answer has a transfer coding other than chunked");
            }
            self.is_chunked = true;
        } else if is(header::CONNECTION) {
            for word in field.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                self.closes |= word.eq_ignore_ascii_case(b"close");
                self.keeps_alive |= word.eq_ignore_ascii_case(b"keep-alive");
            }
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Somebody on the way may have taken the length at its word.
    fn is_ambiguous(&self) -> bool {
        self.is_chunked && self.length.is_some()
    }

    fn framing(&self, status: StatusCode, is_old: bool) -> Result<Framing, &'static str> {
        if status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED {
            return Ok(Framing::ENDED);
        }
        match (self.is_chunked, self.length) {
            (true, _) if is_old => Err("its answer is chunked, which HTTP/1.0 does not know"),
            (true, _) => Ok(Framing::chunked()),
            (false, Some(length)) => Ok(Framing::of_length(length)),
            (false, None) => Ok(Framing::until_close()),
        }
    }
}

/// Digits and nothing else; no sign, which a parser of numbers would take.
fn length(value: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(value).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}
