//! The checks at the door: who is addressed, who sends, and what kind of body comes along.
//!
//! Pure functions over the request's head. The pipeline calls them in order and turns a [`Refused`]
//! into a response; nothing here looks into a body.
//!
//! Host and Origin are judged apart. A page that reached us by DNS rebinding controls both, so the one
//! never vouches for the other (CVE-2025-66414, CVE-2026-42559 and their kin).

use std::borrow::Cow;

mod content;
mod fetch_site;
mod host;
mod origin;
#[cfg(test)]
mod tests;

pub(crate) use content::content_type;
pub use content::{ContentType, check_content_encoding, check_content_type};
pub use fetch_site::check_fetch_site;
pub(crate) use fetch_site::check_fetch_site_line;
pub(crate) use host::check_host_line;
pub use host::{HostPolicy, check_host};
pub(crate) use origin::check_origin_line;
pub use origin::{OriginPolicy, check_origin};

/// A request turned away before any handler saw it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Refused {
    /// The HTTP status of the answer.
    pub status: u16,
    /// What is wrong and what to do about it.
    pub message: Cow<'static, str>,
}

/// An entry of a configured list that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{entry:?} is not {expected}")]
pub struct BadEntry {
    entry: String,
    expected: &'static str,
}

impl Refused {
    fn new(status: u16, message: impl Into<Cow<'static, str>>) -> Refused {
        Refused { status, message: message.into() }
    }
}

/// A header's value for an error message: short, printable, and never mistaken for our own words.
fn quoted(value: &[u8]) -> String {
    const LONGEST: usize = 80;
    let shown = &value[..value.len().min(LONGEST)];
    let more = if value.len() > LONGEST { "..." } else { "" };
    format!("\"{}{more}\"", shown.escape_ascii())
}
