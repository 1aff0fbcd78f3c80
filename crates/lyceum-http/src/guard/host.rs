//! Whom a request addresses: the Host check against DNS rebinding.
//!
//! Looks at every place that names the addressee (the target's authority, the Host lines) and wants
//! them to agree. Says nothing about the sender: see `origin`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::{HeaderMap, Uri, header};

use super::{BadEntry, Refused, quoted};
use crate::fields::Line;

/// The hosts an endpoint answers for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPolicy {
    allowed: Vec<Entry>,
}

/// A host we answer for, on one port or on all.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Everyone,
    Host { name: HostName, port: Option<u16> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostName {
    /// A DNS name or an IPv4 address, in lower case.
    Text(Box<str>),
    V6(Ipv6Addr),
}

/// An authority without userinfo, taken apart but not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Authority<'a> {
    host: HostRef<'a>,
    pub(super) port: Option<u16>,
}

#[derive(Clone, Copy, Debug)]
enum HostRef<'a> {
    Text(&'a str),
    V6(Ipv6Addr),
}

impl HostPolicy {
    /// Answers for `localhost`, `127.0.0.1` and `[::1]` on any port, and for nobody else.
    pub fn loopback() -> HostPolicy {
        let text = |name: &str| HostName::Text(name.into());
        let names = [text("localhost"), text("127.0.0.1"), HostName::V6(Ipv6Addr::LOCALHOST)];
        let allowed = names.map(|name| Entry::Host { name, port: None });
        HostPolicy { allowed: allowed.into() }
    }

    /// Answers for loopback and for the address the server is bound to. A server bound to all
    /// addresses has no name of its own: its names must be configured with [`HostPolicy::allow`].
    pub fn for_bind(address: SocketAddr) -> HostPolicy {
        let mut policy = HostPolicy::loopback();
        let name = match address.ip() {
            ip if ip.is_unspecified() => return policy,
            IpAddr::V4(ip) => HostName::Text(ip.to_string().into()),
            IpAddr::V6(ip) => HostName::V6(ip),
        };
        policy.allowed.push(Entry::Host { name, port: None });
        policy
    }

    /// Answers for `entry` too: `host` on any port, `host:port` on that one, or `*` for every host,
    /// which is only safe where a proxy in front has checked the name already.
    pub fn allow(&mut self, entry: &str) -> Result<(), BadEntry> {
        if entry == "*" {
            self.allowed.push(Entry::Everyone);
            return Ok(());
        }
        let expected = "a host, host:port or *";
        let authority = Authority::parse(entry.as_bytes())
            .ok_or_else(|| BadEntry { entry: entry.to_owned(), expected })?;
        let name = match authority.host {
            HostRef::Text(name) => HostName::Text(name.to_ascii_lowercase().into()),
            HostRef::V6(ip) => HostName::V6(ip),
        };
        self.allowed.push(Entry::Host { name, port: authority.port });
        Ok(())
    }

    /// Whether it answers for names of this very machine only.
    pub fn is_loopback_only(&self) -> bool {
        self.allowed.iter().all(|entry| match entry {
            Entry::Everyone => false,
            Entry::Host { name: HostName::V6(ip), .. } => ip.is_loopback(),
            Entry::Host { name: HostName::Text(name), .. } => {
                let is_loopback = |ip: Ipv4Addr| ip.is_loopback();
                **name == *"localhost" || name.parse().is_ok_and(is_loopback)
            }
        })
    }

    /// Recognizes `name` or `name:port` as we would write it ourselves, which is how nearly every
    /// client writes it, without taking it apart. Says no too often, never yes too often.
    fn allows_as_written(&self, line: &[u8]) -> bool {
        let (name, port) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b"0"[..]),
        };
        let digits = port.iter().all(u8::is_ascii_digit);
        let number = |port: &[u8]| port.iter().fold(0, |n, digit| n * 10 + u32::from(digit - b'0'));
        let plain_port = matches!(port.len(), 1..=5) && digits && number(port) <= 65535;
        plain_port
            && self.allowed.iter().any(|entry| {
                matches!(entry, Entry::Host { name: HostName::Text(known), port: None }
                    if known.as_bytes() == name)
            })
    }

    fn allows(&self, authority: Authority<'_>) -> bool {
        self.allowed.iter().any(|entry| match entry {
            Entry::Everyone => true,
            Entry::Host { name, port } => {
                authority.host.is(name) && (port.is_none() || *port == authority.port)
            }
        })
    }
}

impl Default for HostPolicy {
    fn default() -> Self {
        HostPolicy::loopback()
    }
}

/// Refuses a request that is not addressed to one of the policy's hosts.
///
/// A Host that is missing, repeated or malformed is a bad request (RFC 9112, 3.2); one we do not
/// answer for, or that differs from the request target, is misdirected.
pub fn check_host(uri: &Uri, headers: &HeaderMap, policy: &HostPolicy) -> Result<(), Refused> {
    check_host_line(uri, Line::of(headers, &header::HOST), policy)
}

/// [`check_host`], given how the Host header arrived.
pub(crate) fn check_host_line(
    uri: &Uri,
    line: Line<'_>,
    policy: &HostPolicy,
) -> Result<(), Refused> {
    let line = match line {
        Line::Absent => None,
        Line::Once(line) => Some(line),
        Line::Repeated => {
            return Err(Refused::new(400, "more than one Host header; send exactly one"));
        }
    };
    if let (Some(line), None) = (line, uri.authority())
        && policy.allows_as_written(line.as_bytes())
    {
        return Ok(());
    }
    // HTTP/2 carries the addressee in `:authority`, HTTP/1.1 in absolute-form targets may do so.
    let target = uri.authority().map(|authority| authority.as_str().as_bytes());
    let named = match (target, line.map(|line| line.as_bytes())) {
        (None, None) => return Err(Refused::new(400, "no Host header; send the host you address")),
        (Some(named), None) | (None, Some(named)) => named,
        (Some(target), Some(line)) if parse(target)? != parse(line)? => {
            let message = format!(
                "the request target names {} but Host names {}; send the same in both",
                quoted(target),
                quoted(line)
            );
            return Err(Refused::new(421, message));
        }
        (Some(_), Some(line)) => line,
    };
    if policy.allows(parse(named)?) {
        return Ok(());
    }
    let message = format!("host {} is not served here; add it to `hosts`", quoted(named));
    Err(Refused::new(421, message))
}

fn parse(named: &[u8]) -> Result<Authority<'_>, Refused> {
    Authority::parse(named).ok_or_else(|| {
        let message = format!("{} is not a host; send host or host:port", quoted(named));
        Refused::new(400, message)
    })
}

impl<'a> Authority<'a> {
    /// Reads `host`, `host:port`, `[v6]` or `[v6]:port`. Userinfo, an empty host and ports that are
    /// not plain numbers are refused: two readers could disagree about them.
    pub(super) fn parse(text: &'a [u8]) -> Option<Authority<'a>> {
        let text = std::str::from_utf8(text).ok()?;
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (ip, port) = rest.split_once(']')?;
            (HostRef::V6(ip.parse().ok()?), port)
        } else {
            let end = text.find(':').unwrap_or(text.len());
            let (name, port) = text.split_at(end);
            (HostRef::Text(is_reg_name(name).then_some(name)?), port)
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            _ => return None,
        };
        Some(Authority { host, port })
    }

    /// Whether the host is one of the names of this very machine.
    pub(super) fn is_loopback(&self) -> bool {
        match self.host {
            HostRef::Text(name) => name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1",
            HostRef::V6(ip) => ip == Ipv6Addr::LOCALHOST,
        }
    }
}

impl HostRef<'_> {
    fn is(self, name: &HostName) -> bool {
        match (self, name) {
            (HostRef::Text(text), HostName::Text(name)) => text.eq_ignore_ascii_case(name),
            (HostRef::V6(ip), HostName::V6(name)) => ip == *name,
            _ => false,
        }
    }
}

impl PartialEq for HostRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (HostRef::Text(one), HostRef::Text(other)) => one.eq_ignore_ascii_case(other),
            (HostRef::V6(one), HostRef::V6(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for HostRef<'_> {}

/// Letters, digits, `-`, `.` and `_`: what DNS names and IPv4 addresses are made of. A trailing dot
/// stays part of the name, so `127.0.0.1.` is not `127.0.0.1`.
fn is_reg_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !name.is_empty() && name.bytes().all(allowed)
}
