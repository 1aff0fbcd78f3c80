//! Who sends: the Origin check, for requests that a web page makes a browser send.
//!
//! Only browsers send Origin, so its absence is fine. Says nothing about the addressee: see `host`.

use http::{HeaderMap, HeaderValue, header};

use super::host::Authority;
use super::{BadEntry, Refused, quoted};
use crate::fields::Line;

/// The origins whose pages may call an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OriginPolicy {
    /// Beside the loopback origins, which are always allowed.
    allowed: Vec<Box<str>>,
}

impl OriginPolicy {
    /// Allows pages served from `http` and `https` at `localhost`, `127.0.0.1` and `[::1]` on any
    /// port, and nobody else.
    pub fn loopback() -> OriginPolicy {
        OriginPolicy::default()
    }

    /// Allows `origin` too, written as browsers send it: `https://app.example.com`, with a port only
    /// if it is not the scheme's own.
    pub fn allow(&mut self, origin: &str) -> Result<(), BadEntry> {
        let origin = origin.to_ascii_lowercase();
        match split_origin(&origin) {
            Some((scheme, _)) => {
                let own_port = if scheme == "https" { ":443" } else { ":80" };
                let serialized = origin.strip_suffix(own_port).unwrap_or(&origin);
                self.allowed.push(serialized.into());
                Ok(())
            }
            None => {
                let expected = "an origin such as https://app.example.com";
                Err(BadEntry { entry: origin, expected })
            }
        }
    }

    /// Whether it allows pages of this very machine only.
    pub fn is_loopback_only(&self) -> bool {
        let is_loopback = |origin: &str| {
            split_origin(origin).is_some_and(|(_, authority)| authority.is_loopback())
        };
        self.allowed.iter().all(|origin| is_loopback(origin))
    }

    fn allows(&self, origin: &str) -> bool {
        match split_origin(origin) {
            Some((_, authority)) if authority.is_loopback() => true,
            Some(_) => self.allowed.iter().any(|allowed| origin.eq_ignore_ascii_case(allowed)),
            None => false,
        }
    }
}

/// Refuses a request sent by a page of an origin that is not allowed. Gives back the origin, for the
/// CORS headers of the answer; `None` when there is none.
pub fn check_origin<'a>(
    headers: &'a HeaderMap,
    policy: &OriginPolicy,
) -> Result<Option<&'a HeaderValue>, Refused> {
    check_origin_line(Line::of(headers, &header::ORIGIN), policy)
}

/// [`check_origin`], given how the Origin header arrived.
pub(crate) fn check_origin_line<'a>(
    line: Line<'a>,
    policy: &OriginPolicy,
) -> Result<Option<&'a HeaderValue>, Refused> {
    let origin = match line {
        Line::Absent => return Ok(None),
        Line::Once(origin) => origin,
        Line::Repeated => {
            return Err(Refused::new(403, "more than one Origin header; send at most one"));
        }
    };
    match origin.to_str() {
        Ok(text) if policy.allows(text) => Ok(Some(origin)),
        _ => {
            let origin = quoted(origin.as_bytes());
            let message =
                format!("origin {origin} may not call this endpoint; add it to `origins`");
            Err(Refused::new(403, message))
        }
    }
}

/// Takes `scheme://host[:port]` apart; `None` for anything else, such as `null`.
fn split_origin(origin: &str) -> Option<(&'static str, Authority<'_>)> {
    let (scheme, authority) = origin.split_once("://")?;
    let scheme = ["http", "https"].into_iter().find(|name| scheme.eq_ignore_ascii_case(name))?;
    Some((scheme, Authority::parse(authority.as_bytes())?))
}
