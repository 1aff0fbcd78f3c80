//! [`SafeDialer`]: plain HTTP requests to addresses that somebody else chose.
//!
//! A caller's URL must not become a way into the network this process stands in. So a name is
//! resolved once, every address it has is judged, and the connection goes to an address that was
//! judged, never to a second look-up. Redirects are followed by hand and judged anew. Nothing is
//! sent that could identify anyone: no cookies, no credentials. Sizes and times are bounded, and
//! nothing is unpacked.
//!
//! ```no_run
//! # async fn example() -> Result<(), lyceum_http::client::DialError> {
//! use lyceum_http::client::{Policy, SafeDialer};
//!
//! let page = SafeDialer::new(Policy::PublicOnly).fetch("https://example.com/").await?;
//! println!("{} bytes of {:?}", page.body.len(), page.content_type);
//! # Ok(())
//! # }
//! ```

mod address;
mod error;
mod exchange;
mod network;
mod target;
mod tls;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, Uri};
use tokio::time::timeout;

pub use error::DialError;
pub use network::{Network, NetworkFuture, SystemNetwork};

use exchange::Stream;
use target::{Name, Target};
use tls::Tls;

/// How many addresses of one name are tried.
const MAX_ATTEMPTS: usize = 4;
/// Documents first; whatever else there is can be looked at too.
const ACCEPT: HeaderValue =
    HeaderValue::from_static("text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.5");
const USER_AGENT: HeaderValue = HeaderValue::from_static("lyceum");

/// Where requests may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Only to the public internet: for addresses that callers give.
    PublicOnly,
    /// Anywhere: for addresses that the operator configured.
    Anywhere,
}

/// Makes HTTP requests under a [`Policy`].
#[derive(Clone)]
pub struct SafeDialer {
    policy: Policy,
    network: Arc<dyn Network>,
    tls: Tls,
    max_body: usize,
    total: Duration,
    max_redirects: usize,
}

/// What was found at an address.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fetched {
    /// The URL it was found at in the end, without a fragment.
    pub url: String,
    /// The `Content-Type` header as it was sent.
    pub content_type: Option<String>,
    /// The whole body.
    pub body: Bytes,
}

impl SafeDialer {
    /// A dialer with the usual bounds: 16 MiB, 30 seconds, 5 redirects.
    pub fn new(policy: Policy) -> SafeDialer {
        SafeDialer {
            policy,
            network: Arc::new(SystemNetwork),
            tls: Tls::default(),
            max_body: 16 << 20,
            total: Duration::from_secs(30),
            max_redirects: 5,
        }
    }

    /// Uses another network.
    #[must_use]
    pub fn network(mut self, network: impl Network) -> SafeDialer {
        self.network = Arc::new(network);
        self
    }

    /// The most bytes one answer may have.
    #[must_use]
    pub fn max_body(mut self, bytes: usize) -> SafeDialer {
        self.max_body = bytes;
        self
    }

    /// How long a request may take, from the look-up of the name to the last byte, redirects
    /// included.
    #[must_use]
    pub fn total(mut self, total: Duration) -> SafeDialer {
        self.total = total;
        self
    }

    /// Fetches what is at `url`, following redirects; an answer other than success is an error.
    pub async fn fetch(&self, url: &str) -> Result<Fetched, DialError> {
        self.within_time(self.follow(url)).await
    }

    /// Sends one request and returns the answer, whatever its status. Redirects are not followed. The
    /// URI must be absolute; the `Host` header is set here.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, DialError> {
        self.within_time(async {
            let target = Target::parse(&request.uri().to_string())?;
            self.exchange(&target, request).await
        })
        .await
    }

    async fn within_time<T>(
        &self,
        work: impl Future<Output = Result<T, DialError>>,
    ) -> Result<T, DialError> {
        timeout(self.total, work).await.unwrap_or(Err(DialError::TimedOut(self.total)))
    }

    async fn follow(&self, url: &str) -> Result<Fetched, DialError> {
        let mut target = Target::parse(url)?;
        for _ in 0..=self.max_redirects {
            let mut request = Request::new(Bytes::new());
            *request.method_mut() = Method::GET;
            request.headers_mut().insert(header::ACCEPT, ACCEPT);
            let response = self.exchange(&target, request).await?;
            let text = |name| {
                let value: &HeaderValue = response.headers().get(name)?;
                std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned)
            };
            let status = response.status();
            if matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
                let location = text(header::LOCATION).ok_or(DialError::Status(status))?;
                target = target.redirected(&location)?;
                continue;
            }
            if !status.is_success() {
                return Err(DialError::Status(status));
            }
            let content_type = text(header::CONTENT_TYPE);
            let url = target.url().to_owned();
            return Ok(Fetched { url, content_type, body: response.into_body() });
        }
        Err(DialError::TooManyRedirects(self.max_redirects))
    }

    async fn exchange(
        &self,
        target: &Target,
        mut request: Request<Bytes>,
    ) -> Result<Response<Bytes>, DialError> {
        let unfit = || DialError::bad_url(target.url(), "it does not fit in a request");
        let host = HeaderValue::try_from(target.authority()).map_err(|_| unfit())?;
        *request.uri_mut() = Uri::try_from(target.path_and_query()).map_err(|_| unfit())?;
        request.headers_mut().insert(header::HOST, host);
        request.headers_mut().entry(header::USER_AGENT).or_insert(USER_AGENT);
        let stream = self.open(target).await?;
        exchange::exchange(stream, request, target, self.max_body).await
    }

    /// A connection to an address of the target that was found harmless.
    async fn open(&self, target: &Target) -> Result<Box<dyn Stream>, DialError> {
        let unreachable = |source: std::io::Error| DialError::Unreachable {
            host: target.host().to_string(),
            source: source.into(),
        };
        let addresses = self.addresses(target).await?;
        let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
        for address in addresses.into_iter().take(MAX_ATTEMPTS) {
            // One silent address must not use up the time of the next.
            match timeout(self.total / 3, self.network.connect(address)).await {
                Ok(Ok(stream)) if target.is_https() => {
                    return self.tls.wrap(stream, target).await;
                }
                Ok(Ok(stream)) => return Ok(Box::new(stream)),
                Ok(Err(error)) => last = error,
                Err(_) => last = std::io::ErrorKind::TimedOut.into(),
            }
        }
        Err(unreachable(last))
    }

    /// Every address of the target, or a refusal if any of them is not allowed. A name with one
    /// public and one private address is refused too: nobody who means well has such names.
    async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, DialError> {
        let host = target.host();
        let refused = |why| DialError::NotPublic { host: host.to_string(), why };
        if self.policy == Policy::PublicOnly && host.is_local() {
            return Err(refused("a name of this machine"));
        }
        let addresses = match host {
            Name::Address(address) => vec![SocketAddr::new(*address, target.port())],
            Name::Domain(name) => {
                let found = self.network.resolve(name, target.port()).await;
                found.map_err(|source| DialError::Unreachable {
                    host: name.clone(),
                    source: source.into(),
                })?
            }
        };
        if self.policy == Policy::PublicOnly {
            let special = addresses.iter().find_map(|found| address::special(found.ip()));
            special.map_or(Ok(()), |why| Err(refused(why)))?;
        }
        Ok(addresses)
    }
}

impl std::fmt::Debug for SafeDialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SafeDialer").field("policy", &self.policy).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
