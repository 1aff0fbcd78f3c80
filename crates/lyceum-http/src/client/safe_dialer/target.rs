//! Where a URL points: read as browsers read it, so that an odd spelling cannot hide a host.

use std::net::IpAddr;

use url::{Host, Url};

use super::error::DialError;

/// Names that mean this machine, whatever a resolver says about them (RFC 6761).
const LOCAL_NAME: &str = "localhost";

/// A URL that was taken apart.
#[derive(Debug, Clone)]
pub(super) struct Target {
    url: Url,
    host: Name,
    port: u16,
}

/// The host of a URL.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Name {
    /// A name to resolve, without the dot that may end it.
    Domain(String),
    Address(IpAddr),
}

impl Target {
    pub(super) fn parse(text: &str) -> Result<Target, DialError> {
        let url = Url::parse(text).map_err(|error| DialError::bad_url(text, &error.to_string()))?;
        Target::of(url)
    }

    /// Where a redirect leads that was answered to a request for this target.
    pub(super) fn redirected(&self, location: &str) -> Result<Target, DialError> {
        let url = self.url.join(location);
        let url = url.map_err(|error| DialError::bad_url("", &format!("a redirect: {error}")))?;
        // The query of a redirect may hold secrets of the server that sent it, so errors leave it out.
        let shown = || {
            let mut shown = url.clone();
            shown.set_query(None);
            shown.set_fragment(None);
            shown.to_string()
        };
        if self.is_https() && url.scheme() == "http" {
            let has_user = !url.username().is_empty() || url.password().is_some();
            let to = if has_user { String::new() } else { shown() };
            return Err(DialError::Downgrade { to });
        }
        let shown = shown();
        Target::of(url).map_err(|error| match error {
            DialError::BadUrl { url, why } if !url.is_empty() => DialError::bad_url(&shown, &why),
            error => error,
        })
    }

    fn of(mut url: Url) -> Result<Target, DialError> {
        let bad = |why| Err(DialError::bad_url(url.as_str(), why));
        if !matches!(url.scheme(), "http" | "https") {
            return bad("only http and https are fetched");
        }
        if !url.username().is_empty() || url.password().is_some() {
            // The message must not repeat the password.
            return Err(DialError::bad_url("", "leave user and password out"));
        }
        let host = match url.host() {
            Some(Host::Domain(domain)) => {
                Name::Domain(domain.strip_suffix('.').unwrap_or(domain).to_owned())
            }
            Some(Host::Ipv4(address)) => Name::Address(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Name::Address(IpAddr::V6(address)),
            None => return bad("it names no host"),
        };
        if host == Name::Domain(String::new()) {
            return bad("it names no host");
        }
        let Some(port) = url.port_or_known_default().filter(|port| *port != 0) else {
            return bad("there is no port 0");
        };
        url.set_fragment(None);
        Ok(Target { url, host, port })
    }

    pub(super) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    pub(super) fn url(&self) -> &str {
        self.url.as_str()
    }

    pub(super) fn host(&self) -> &Name {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The value of the `Host` header: the port only if the scheme does not imply it.
    pub(super) fn authority(&self) -> &str {
        self.url.authority()
    }

    /// What stands in the request line.
    pub(super) fn path_and_query(&self) -> String {
        match self.url.query() {
            Some(query) => format!("{}?{query}", self.url.path()),
            None => self.url.path().to_owned(),
        }
    }
}

impl Name {
    /// Whether the name itself says that it means this machine.
    pub(super) fn is_local(&self) -> bool {
        let Name::Domain(domain) = self else { return false };
        let before = domain.strip_suffix(LOCAL_NAME);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Name::Domain(domain) => f.write_str(domain),
            Name::Address(address) => write!(f, "{address}"),
        }
    }
}
