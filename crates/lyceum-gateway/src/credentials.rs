//! Credentials the operator configured: secrets, where they come from, and headers made of them.
//!
//! A value is written as `env:VAR`, `file:PATH` or plain text and looked up each time a connection
//! is made, so that a rotated file is noticed. What OAuth obtains by itself is `oauth`'s business.

use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use lyceum_http::open_secret_file;

use crate::config::HeaderSource;

/// Larger files hold something else.
const MAX_SECRET_BYTES: u64 = 64 << 10;

/// Headers that say how a message is framed or which session it belongs to: the client's own.
const RESERVED: &[&str] = &[
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Text that never shows in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Why a configured credential cannot be used. Never quotes the value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    #[error("the environment has no {0}")]
    NoVariable(String),
    #[error("cannot read {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("\"{0}\" is no header name")]
    Name(String),
    #[error("the header {0} is set by the client itself, leave it out")]
    Reserved(HeaderName),
    #[error("the value of header {0} has characters that do not fit in a header")]
    Value(HeaderName),
}

impl Secret {
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

impl HeaderSource {
    /// Reads `env:VAR`, `file:PATH` or plain text.
    pub fn parse(text: &str) -> HeaderSource {
        match text.split_once(':') {
            Some(("env", name)) => HeaderSource::Env(name.to_owned()),
            Some(("file", path)) => HeaderSource::File(PathBuf::from(path)),
            _ => HeaderSource::Text(text.to_owned()),
        }
    }

    /// The value as it is now. The environment is the caller's to give; files are read here, so this
    /// is not for the hot path.
    pub fn resolve(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Secret, CredentialError> {
        match self {
            HeaderSource::Text(text) => Ok(Secret::new(text)),
            HeaderSource::Env(name) => {
                env(name).map(Secret).ok_or_else(|| CredentialError::NoVariable(name.clone()))
            }
            HeaderSource::File(path) => {
                let read = open_secret_file(path).and_then(|file| {
                    let mut text = String::new();
                    file.take(MAX_SECRET_BYTES).read_to_string(&mut text).map(|_| text)
                });
                let failed = |source| CredentialError::File { path: path.clone(), source };
                read.map(|text| Secret::new(text.trim_end_matches(['\r', '\n']))).map_err(failed)
            }
        }
    }
}

/// A header the operator may set, if this is the name of one.
pub fn header_name(name: &str) -> Result<HeaderName, CredentialError> {
    let header = HeaderName::try_from(name)
        .map_err(|_| CredentialError::Name(name.chars().take(64).collect()))?;
    match RESERVED.contains(&header.as_str()) {
        true => Err(CredentialError::Reserved(header)),
        false => Ok(header),
    }
}

/// The configured headers of an upstream as they are now, marked sensitive.
pub fn headers(
    configured: &[(String, HeaderSource)],
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<HeaderMap, CredentialError> {
    let mut headers = HeaderMap::new();
    for (name, source) in configured {
        let name = header_name(name)?;
        let secret = source.resolve(env)?;
        let plain = Some(secret.expose()).filter(|text| text.is_ascii());
        let value = plain.and_then(|text| HeaderValue::try_from(text).ok());
        let mut value = value.ok_or_else(|| CredentialError::Value(name.clone()))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests;
