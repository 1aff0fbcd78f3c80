//! Values of the headers that mirror the body: how they are written and read, and which methods
//! need `Mcp-Name`.
//!
//! A value that is not plain visible ASCII travels as `=?base64?...?=`.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::params::Member;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// Why a header value cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadValue {
    /// The base64 form holds no strict, padded, canonical base64.
    Base64,
    /// The base64 form holds bytes that are not UTF-8.
    Utf8,
    /// A literal value has characters that must use the base64 form.
    Literal,
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadValue::Base64 => "the base64 form is not canonical padded base64",
            BadValue::Utf8 => "the base64 form does not hold UTF-8",
            BadValue::Literal => "characters outside visible ASCII need the base64 form",
        })
    }
}

impl std::error::Error for BadValue {}

/// Reads a header value: whitespace around it is stripped, the base64 form is decoded.
pub fn decode_value(raw: &[u8]) -> Result<Cow<'_, str>, BadValue> {
    match decode_bytes(raw)? {
        Cow::Borrowed(value) => {
            std::str::from_utf8(value).map(Cow::Borrowed).map_err(|_| BadValue::Literal)
        }
        Cow::Owned(value) => String::from_utf8(value).map(Cow::Owned).map_err(|_| BadValue::Utf8),
    }
}

/// The bytes of [`decode_value`], for comparisons.
pub(crate) fn decode_bytes(raw: &[u8]) -> Result<Cow<'_, [u8]>, BadValue> {
    let value = trim(raw);
    if !value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
        return Err(BadValue::Literal);
    }
    if !looks_encoded(value) {
        return Ok(Cow::Borrowed(value));
    }
    let payload = value.get(PREFIX.len()..value.len() - SUFFIX.len()).ok_or(BadValue::Base64)?;
    let decoded = STANDARD.decode(payload).map_err(|_| BadValue::Base64)?;
    if std::str::from_utf8(&decoded).is_err() {
        return Err(BadValue::Utf8);
    }
    Ok(Cow::Owned(decoded))
}

/// Writes a header value: as it is when it is plain visible ASCII, in the base64 form otherwise.
pub fn encode_value(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let plain = bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let padded = bytes.first() == Some(&b' ') || bytes.last() == Some(&b' ');
    if plain && !padded && !looks_encoded(bytes) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(bytes)))
}

/// The member of `params` that `Mcp-Name` mirrors for this method; None if it needs no `Mcp-Name`.
pub fn required_name(method: &str) -> Option<Member> {
    mirrored_member(method.as_bytes())
}

/// [`required_name`] of a method as bytes.
pub(crate) fn mirrored_member(method: &[u8]) -> Option<Member> {
    Some(match method {
        b"tools/call" | b"prompts/get" => Member::Name,
        b"resources/read" => Member::Uri,
        b"tasks/get" | b"tasks/update" | b"tasks/cancel" => Member::TaskId,
        _ => return None,
    })
}

/// The value without the optional whitespace HTTP allows around it.
pub(crate) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

fn looks_encoded(value: &[u8]) -> bool {
    value.starts_with(PREFIX.as_bytes()) && value.ends_with(SUFFIX.as_bytes())
}

#[cfg(test)]
mod tests;
