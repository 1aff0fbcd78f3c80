//! The headers every request is judged by, found in one pass over all of them.
//!
//! Looking them up one by one would hash ten names for each request. Headers that only some requests
//! need are looked up where they are needed.

use http::header::ACCEPT;
use http::{HeaderMap, HeaderName, HeaderValue};
use lyceum_wire::{Field, RoutingHeaders};

use crate::accept::{Acceptance, parse_accept};

/// A header worth finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    Host,
    Origin,
    Accept,
    ContentType,
    ContentEncoding,
    RequestId,
    Session,
    Version,
    Method,
    Name,
    FetchSite,
}

const N_KNOWN: usize = Known::FetchSite as usize + 1;

impl Known {
    /// The header of this name. Lengths come first, because one jump then rules out nearly all.
    fn of(name: &str) -> Option<Known> {
        Some(match (name.len(), name) {
            (4, "host") => Known::Host,
            (6, "origin") => Known::Origin,
            (6, "accept") => Known::Accept,
            (8, "mcp-name") => Known::Name,
            (10, "mcp-method") => Known::Method,
            (12, "content-type") => Known::ContentType,
            (12, "x-request-id") => Known::RequestId,
            (14, "mcp-session-id") => Known::Session,
            (14, "sec-fetch-site") => Known::FetchSite,
            (16, "content-encoding") => Known::ContentEncoding,
            (20, "mcp-protocol-version") => Known::Version,
            _ => return None,
        })
    }
}

/// How a header arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Absent,
    Once(&'a HeaderValue),
    Repeated,
}

impl<'a> Line<'a> {
    /// Looks one header up.
    pub(crate) fn of(headers: &'a HeaderMap, name: &HeaderName) -> Line<'a> {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Line::Absent,
            (Some(value), None) => Line::Once(value),
            (Some(_), Some(_)) => Line::Repeated,
        }
    }
}

impl<'a> From<Line<'a>> for Field<'a> {
    fn from(line: Line<'a>) -> Field<'a> {
        match line {
            Line::Absent => Field::Absent,
            Line::Once(value) => Field::Value(value.as_bytes()),
            Line::Repeated => Field::Repeated,
        }
    }
}

/// The headers of one request.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    pub(crate) all: &'a HeaderMap,
    first: [Option<&'a HeaderValue>; N_KNOWN],
    /// One bit per header that was sent more than once.
    repeated: u16,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(headers: &'a HeaderMap) -> Self {
        let mut fields = Self { all: headers, first: [None; N_KNOWN], repeated: 0 };
        for (name, value) in headers {
            let Some(known) = Known::of(name.as_str()) else { continue };
            match &mut fields.first[known as usize] {
                Some(_) => fields.repeated |= 1 << known as u16,
                first => *first = Some(value),
            }
        }
        fields
    }

    /// How a header arrived.
    pub(crate) fn line(&self, known: Known) -> Line<'a> {
        match self.first(known) {
            None => Line::Absent,
            Some(_) if self.repeated & 1 << known as u16 != 0 => Line::Repeated,
            Some(value) => Line::Once(value),
        }
    }

    /// A header's first value, whether or not there are more.
    pub(crate) fn first(&self, known: Known) -> Option<&'a HeaderValue> {
        self.first[known as usize]
    }

    /// What the client takes.
    pub(crate) fn acceptance(&self) -> Acceptance {
        match self.line(Known::Accept) {
            Line::Absent => parse_accept([]),
            Line::Once(line) => parse_accept([line.as_bytes()]),
            Line::Repeated => {
                parse_accept(self.all.get_all(ACCEPT).iter().map(HeaderValue::as_bytes))
            }
        }
    }

    /// The headers that repeat parts of the body.
    pub(crate) fn routing(&self) -> RoutingHeaders<'a> {
        RoutingHeaders {
            version: self.line(Known::Version).into(),
            method: self.line(Known::Method).into(),
            name: self.line(Known::Name).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pass_finds_what_looking_up_finds() {
        let known = [
            ("host", Known::Host),
            ("origin", Known::Origin),
            ("accept", Known::Accept),
            ("content-type", Known::ContentType),
            ("content-encoding", Known::ContentEncoding),
            ("x-request-id", Known::RequestId),
            ("mcp-session-id", Known::Session),
            ("mcp-protocol-version", Known::Version),
            ("mcp-method", Known::Method),
            ("mcp-name", Known::Name),
            ("sec-fetch-site", Known::FetchSite),
        ];
        assert_eq!(known.len(), N_KNOWN);
        for (sent, _) in known {
            for times in 0..3 {
                let mut headers = HeaderMap::new();
                headers.append("user-agent", HeaderValue::from_static("test"));
                for at in 0..times {
                    headers.append(sent, HeaderValue::from(at));
                }
                let fields = Fields::of(&headers);
                for (name, known) in known {
                    let looked_up = Line::of(&headers, &HeaderName::from_static(name));
                    assert_eq!(fields.line(known), looked_up, "{name}, {sent} sent {times} times");
                    assert_eq!(fields.first(known), headers.get(name));
                }
            }
        }
    }
}
