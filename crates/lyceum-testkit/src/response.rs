//! A response as it stood on the wire.

use serde_json::Value;

use crate::events::{Event, parse_events};

/// Status line and header lines.
#[derive(Debug, Clone)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// The header lines, names in lower case, in order.
    pub headers: Vec<(String, String)>,
}

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

/// A whole response.
#[derive(Debug, Clone)]
pub struct Response {
    /// Status and headers.
    pub head: Head,
    /// The body, unchunked.
    pub body: Vec<u8>,
}

impl Head {
    /// Reads the text before the empty line.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.split("\r\n");
        let mut first = lines.next()?.splitn(3, ' ');
        if !first.next()?.starts_with("HTTP/1.") {
            return None;
        }
        let status = first.next()?.parse().ok()?;
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers = lines.filter(|line| !line.is_empty()).map(header).collect::<Option<_>>()?;
        Some(Self { status, headers })
    }

    /// The first value of a header.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }

    pub(crate) fn framing(&self) -> Framing {
        if self.status == 204 || self.status == 304 || self.status < 200 {
            return Framing::Length(0);
        }
        if self.get("transfer-encoding").is_some_and(|value| value.ends_with("chunked")) {
            return Framing::Chunked;
        }
        match self.get("content-length").and_then(|length| length.parse().ok()) {
            Some(length) => Framing::Length(length),
            None => Framing::UntilClose,
        }
    }
}

impl Response {
    /// The status code.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The body as text.
    ///
    /// # Panics
    /// When it is not UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("answers are UTF-8")
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// The body as events.
    pub fn events(&self) -> Vec<Event> {
        parse_events(&self.body)
    }
}
