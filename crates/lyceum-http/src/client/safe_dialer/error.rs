//! [`DialError`]: why nothing was fetched, in words for whoever gave the address.

use std::time::Duration;

use http::StatusCode;

use crate::client::BoxError;

/// Why an address was not fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The URL cannot be used.
    #[error("{url:?} cannot be fetched: {why}")]
    BadUrl {
        /// The URL, shortened; empty if it holds a secret.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The host is not on the public internet.
    #[error("{host} is {why}; only public addresses are fetched")]
    NotPublic {
        /// The host as the URL names it.
        host: String,
        /// What kind of address it has.
        why: &'static str,
    },
    /// An https page points to an http one.
    #[error(
        "an https address redirects to {to:?}, which is not protected; give that address if it is right"
    )]
    Downgrade {
        /// Where the redirect leads.
        to: String,
    },
    /// One redirect follows another.
    #[error("more than {0} redirects; give the address they end at")]
    TooManyRedirects(usize),
    /// The name has no address, or nobody accepts connections there.
    #[error("{host} cannot be reached")]
    Unreachable {
        /// The host as the URL names it.
        host: String,
        /// What the network said.
        #[source]
        source: BoxError,
    },
    /// The connection broke, or what came is not HTTP.
    #[error("the answer of {host} broke off")]
    Broken {
        /// The host as the URL names it.
        host: String,
        /// What went wrong.
        #[source]
        source: BoxError,
    },
    /// The server said no.
    #[error("the server answered HTTP {0}")]
    Status(StatusCode),
    /// The answer is compressed, although nobody asked for that.
    #[error("the answer is encoded as {0:?}, which was not asked for")]
    Encoded(String),
    /// The answer is too large.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// It took too long.
    #[error("no complete answer within {0:?}")]
    TimedOut(Duration),
    /// This machine cannot do TLS.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

impl DialError {
    /// Whether the same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            DialError::Unreachable { .. } | DialError::Broken { .. } | DialError::TimedOut(_) => {
                true
            }
            DialError::Status(status) => {
                status.is_server_error()
                    || matches!(
                        *status,
                        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT
                    )
            }
            _ => false,
        }
    }

    pub(super) fn bad_url(url: &str, why: &str) -> DialError {
        DialError::BadUrl { url: url.chars().take(200).collect(), why: why.to_owned() }
    }
}
