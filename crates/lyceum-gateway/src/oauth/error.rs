//! [`OAuthError`]: why there is no token, in words for the operator. Never quotes a secret.

use lyceum_http::client::{BoxError, DialError};

use crate::credentials::CredentialError;

/// Why no token could be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthError {
    /// A URL that must not be asked, whoever named it.
    #[error("{url} is not asked: {why}")]
    Refused { url: String, why: &'static str },
    /// The URL leads into a private network.
    #[error("{url} is not asked; add its host to the upstream's trusted hosts if it is right")]
    NotPublic {
        url: String,
        #[source]
        source: DialError,
    },
    /// The other side did not answer.
    #[error("{url} did not answer")]
    Unreachable {
        url: String,
        #[source]
        source: DialError,
    },
    /// The other side answered with nonsense or a refusal.
    #[error("{url} answered {what}")]
    Answer { url: String, what: String },
    /// The metadata is about another server.
    #[error("the metadata is about \"{resource}\", not about {server}; check the upstream's URL")]
    ResourceMismatch { resource: String, server: String },
    /// The metadata is of another authorization server.
    #[error("the metadata of {expected} says it is of \"{found}\"; it is not used")]
    IssuerMismatch { expected: String, found: String },
    /// The protected resource names nobody who gives out tokens.
    #[error("{0} names no authorization server that can be used")]
    NoAuthorizationServer(String),
    /// The authorization server cannot protect the code on its way.
    #[error("{0} does not support PKCE with S256, which is required")]
    NoPkce(String),
    /// The authorization server lacks an endpoint.
    #[error("{issuer} has no {what}")]
    NoEndpoint { issuer: String, what: &'static str },
    /// There is no way to introduce ourselves.
    #[error("{0} registers no clients by itself; register one there and configure its client_id")]
    NoRegistration(String),
    /// The configured credentials are for somebody else.
    #[error(
        "the configured credentials are for {expected}, but the server now names {found}; \
         configure the issuer if that is right"
    )]
    ForeignIssuer { expected: String, found: String },
    /// The client and the authorization server know no common way to authenticate the client.
    #[error("{0} takes none of the ways this client can prove who it is")]
    NoClientAuthentication(String),
    /// Only a person can go on.
    #[error("upstream {upstream} wants somebody to log in: lyceum upstreams login {upstream}")]
    LoginNeeded { upstream: String },
    /// The person, or the way to the person, failed.
    #[error("the login was not finished")]
    Login(#[source] BoxError),
    /// The redirect that ends a login cannot be trusted.
    #[error("the login ended in a redirect that is not used: {0}")]
    Redirect(&'static str),
    /// The authorization server said no.
    #[error("{issuer} refused: {reason}")]
    Denied { issuer: String, reason: String },
    /// The grant the request was based on is used up, revoked or foreign.
    #[error("{issuer} does not accept {what}: {reason}")]
    Stale { issuer: String, what: Stale, reason: String },
    /// Asking again would be asking for the same.
    #[error("the server wants scopes that were asked for already: {0}")]
    SameScopes(String),
    /// The client is not set up right.
    #[error("OAuth is not set up right: {0}")]
    Setup(String),
    /// A configured secret is not there.
    #[error("a configured secret cannot be read")]
    Credential(#[from] CredentialError),
    /// Tokens cannot be kept.
    #[error("tokens cannot be kept in {path}")]
    Store {
        path: String,
        #[source]
        source: std::io::Error,
    },
}

/// What an authorization server stopped accepting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stale {
    /// The refresh token or code.
    Grant,
    /// The client itself.
    Client,
}

impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stale::Grant => "the grant any more",
            Stale::Client => "the client, whose id or secret may be wrong",
        })
    }
}

/// Words of strangers, fit for one line of a log.
pub(super) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}
