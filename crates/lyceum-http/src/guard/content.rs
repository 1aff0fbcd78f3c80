//! What kind of body comes along: its type and its encoding, by their headers alone.

use http::{HeaderMap, header};

use super::{Refused, quoted};
use crate::fields::Line;

/// What `Content-Type` says about a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// `application/json`, in UTF-8 as far as it says.
    Json,
    /// Something else, or more than one thing.
    Other,
    /// Nothing.
    Missing,
}

/// Reads the `Content-Type` of a request.
pub fn check_content_type(headers: &HeaderMap) -> ContentType {
    content_type(Line::of(headers, &header::CONTENT_TYPE))
}

/// [`check_content_type`], given how the header arrived.
pub(crate) fn content_type(line: Line<'_>) -> ContentType {
    match line {
        Line::Absent => ContentType::Missing,
        Line::Once(line) if is_json(line.as_bytes()) => ContentType::Json,
        Line::Once(_) | Line::Repeated => ContentType::Other,
    }
}

/// Refuses a body that would have to be decoded first: nothing here inflates, so nothing explodes.
pub fn check_content_encoding(headers: &HeaderMap) -> Result<(), Refused> {
    for line in headers.get_all(header::CONTENT_ENCODING) {
        let mut codings = line.as_bytes().split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        let identity =
            |coding: &[u8]| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity");
        if !codings.all(identity) {
            let coding = quoted(line.as_bytes());
            let message =
                format!("content encoding {coding} is not supported; send the body as is");
            return Err(Refused::new(415, message));
        }
    }
    Ok(())
}

fn is_json(value: &[u8]) -> bool {
    // Nearly every client writes it so.
    if value == b"application/json" {
        return true;
    }
    let mut parts = value.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    let essence = parts.next().unwrap_or_default();
    essence.eq_ignore_ascii_case(b"application/json") && parts.all(|part| !is_foreign_charset(part))
}

/// Whether a parameter names a charset that is not UTF-8, the only one JSON travels in (RFC 8259).
fn is_foreign_charset(parameter: &[u8]) -> bool {
    let Some(equals) = parameter.iter().position(|&byte| byte == b'=') else { return false };
    let (name, value) = (parameter[..equals].trim_ascii(), parameter[equals + 1..].trim_ascii());
    let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    let value = bare.unwrap_or(value);
    let utf8 = value.eq_ignore_ascii_case(b"utf-8") || value.eq_ignore_ascii_case(b"utf8");
    name.eq_ignore_ascii_case(b"charset") && !utf8
}
