//! [`Dial`]: HTTP requests to places that metadata names.
//!
//! Metadata comes from strangers, so what it names is asked only by https and only on the public
//! internet. The upstream's own host and those the operator named are asked as they are: nothing is
//! learnt there that the operator did not point us at.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use lyceum_http::client::{DialError, Network, Policy, SafeDialer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::{Host, Url};

use super::error::{OAuthError, plain};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Metadata, registrations and tokens are small.
const MAX_ANSWER: usize = 256 << 10;
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends requests of an OAuth client.
#[derive(Clone, Debug)]
pub(super) struct Dial {
    trusted_hosts: Vec<Host>,
    anywhere: SafeDialer,
    public: SafeDialer,
}

impl Dial {
    /// A dial that trusts the host of `server` and the ones the operator named.
    pub(super) fn new(server: &Url, named: &[String]) -> Result<Dial, OAuthError> {
        let unfit = |host: &str| OAuthError::Setup(format!("\"{}\" is no host", plain(host)));
        let own = server.host().ok_or_else(|| unfit(server.as_str()))?.to_owned();
        let mut trusted_hosts = vec![own];
        for host in named {
            trusted_hosts.push(Host::parse(host).map_err(|_| unfit(host))?);
        }
        let dialer = |policy| SafeDialer::new(policy).max_body(MAX_ANSWER).total(PATIENCE);
        let (anywhere, public) = (dialer(Policy::Anywhere), dialer(Policy::PublicOnly));
        Ok(Dial { trusted_hosts, anywhere, public })
    }

    pub(super) fn network(self, network: impl Network + Clone) -> Dial {
        Dial {
            anywhere: self.anywhere.network(network.clone()),
            public: self.public.network(network),
            ..self
        }
    }

    /// The dialer for this URL, or why there is none.
    pub(super) fn judge(&self, url: &Url) -> Result<&SafeDialer, OAuthError> {
        let refused = |why| Err(OAuthError::Refused { url: shown(url), why });
        let Some(host) = url.host() else { return refused("it names no host") };
        let is_trusted = self.trusted_hosts.iter().any(|known| is_same(known, &host));
        match url.scheme() {
            "https" | "http" if is_trusted => Ok(&self.anywhere),
            "https" => Ok(&self.public),
            "http" => refused(
                "http is only used with the upstream's own host and hosts the operator trusts",
            ),
            _ => refused("it is not an https URL"),
        }
    }

    /// The JSON document at `url`; `None` if there is none.
    pub(super) async fn document<T: DeserializeOwned>(
        &self,
        url: &Url,
    ) -> Result<Option<T>, OAuthError> {
        let mut request = Request::new(Bytes::new());
        request.headers_mut().insert(ACCEPT, JSON);
        let response = self.send(url, request).await?;
        let status = response.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(answer(url, format!("HTTP {status}")));
        }
        // Many sites answer every path with some page.
        Ok(serde_json::from_slice(response.body()).ok().filter(|_| status.is_success()))
    }

    /// Posts a JSON document.
    pub(super) async fn post(
        &self,
        url: &Url,
        document: &impl Serialize,
    ) -> Result<Response<Bytes>, OAuthError> {
        let body = serde_json::to_vec(document).expect("our documents have text keys only");
        let mut request = Request::new(Bytes::from(body));
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(CONTENT_TYPE, JSON);
        request.headers_mut().insert(ACCEPT, JSON);
        self.send(url, request).await
    }

    /// Sends a request that was made for `url`.
    pub(super) async fn send(
        &self,
        url: &Url,
        mut request: Request<Bytes>,
    ) -> Result<Response<Bytes>, OAuthError> {
        let dialer = self.judge(url)?;
        *request.uri_mut() = Uri::try_from(url.as_str()).map_err(|_| OAuthError::Refused {
            url: shown(url),
            why: "it does not fit in a request",
        })?;
        dialer.send(request).await.map_err(|source| match source {
            DialError::NotPublic { .. } => OAuthError::NotPublic { url: shown(url), source },
            source => OAuthError::Unreachable { url: shown(url), source },
        })
    }
}

pub(super) fn answer(url: &Url, what: impl Into<String>) -> OAuthError {
    OAuthError::Answer { url: shown(url), what: what.into() }
}

/// A URL fit for a message: without its query, which may hold anything.
pub(super) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    plain(url.as_str())
}

fn is_same(known: &Host, host: &Host<&str>) -> bool {
    known == host || (is_loopback(known) && is_loopback(host))
}

/// All names of this machine are one host, whichever of them is written.
fn is_loopback<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(name) => name.as_ref().trim_end_matches('.') == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(server: &str, url: &str, expected: Result<bool, &str>) {
        let named = ["login.corp".to_owned()];
        let dial = Dial::new(&Url::parse(server).unwrap(), &named).unwrap();
        let url = Url::parse(url).unwrap();
        match (dial.judge(&url), expected) {
            (Ok(dialer), Ok(anywhere)) => {
                let is_anywhere = format!("{dialer:?}").contains("Anywhere");
                assert_eq!(is_anywhere, anywhere, "{server} {url}");
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("{server} {url}: {found:?}"),
        }
    }

    #[test]
    fn only_hosts_the_operator_named_may_be_private_or_plain() {
        check("https://mcp.test/mcp", "https://mcp.test:8443/x", Ok(true));
        check("http://mcp.test/mcp", "http://mcp.test/x", Ok(true));
        check("https://mcp.test/mcp", "http://login.corp/x", Ok(true));
        check("https://mcp.test/mcp", "https://as.test/x", Ok(false));
        check("https://mcp.test/mcp", "https://10.0.0.1/x", Ok(false));
        check("https://mcp.test/mcp", "https://sub.mcp.test/x", Ok(false));
        check("https://mcp.test/mcp", "http://as.test/x", Err("http is only used"));
        check("https://mcp.test/mcp", "file:///etc/passwd", Err("it names no host"));
        check("https://mcp.test/mcp", "ftp://mcp.test/", Err("not an https URL"));
    }

    #[test]
    fn a_machine_trusts_itself_under_every_name_and_nobody_else_does() {
        check("http://localhost:1/mcp", "http://127.0.0.1:2/", Ok(true));
        check("http://127.0.0.1:1/mcp", "http://[::1]:2/", Ok(true));
        check("https://mcp.test/mcp", "https://localhost/", Ok(false));
        check("https://mcp.test/mcp", "http://127.0.0.1/", Err("http is only used"));
    }

    #[test]
    fn messages_show_no_query() {
        let url = Url::parse("https://h/p?code=secret#f").unwrap();
        assert_eq!(shown(&url), "https://h/p");
    }
}
