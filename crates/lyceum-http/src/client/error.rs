//! [`ClientError`]: why a server could not be reached, or why a call did not end with a result.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use lyceum_wire::{Revision, RpcError};

use crate::byte_budget::Exhausted;

/// What an HTTP stack may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call, or the connection itself, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server answered with a JSON-RPC error.
    #[error("the server answered with an error: {0}")]
    Rpc(RpcError),
    /// The server answered with an HTTP status that says no, and no JSON-RPC error.
    #[error("the server answered {0}")]
    Status(RefusedStatus),
    /// No connection could be made; nothing was sent.
    #[error("the server cannot be reached")]
    Unreachable(#[source] BoxError),
    /// The server wants credentials, and the HTTP stack could not get any ([`NoCredentials`]).
    #[error(transparent)]
    Credentials(BoxError),
    /// The connection ended before the request was sent.
    #[error("the connection had ended before the request was sent: {0}")]
    Unsent(String),
    /// The server hung up when it was asked what it speaks. Some old servers do that: start it
    /// again, and connect with legacy versions only.
    #[error("the server hung up on server/discover; start it again and ask for legacy versions")]
    EndedByProbe,
    /// The connection broke while a request was under way; the server may have acted on it.
    #[error("the connection broke before the answer")]
    Broken(#[source] BoxError),
    /// The stream ended, and could not be resumed, before the answer.
    #[error("the stream ended before the answer")]
    Interrupted,
    /// Nothing was heard from the server for this long.
    #[error("the server was silent for {0:?}")]
    Silent(Duration),
    /// The server sent more than this client takes.
    #[error("{what} is larger than {limit} bytes, which is all it may have")]
    TooLarge {
        /// What was too large.
        what: &'static str,
        /// How large it may be.
        limit: usize,
    },
    /// There is no room for the answer in the client's [budget](super::ClientBuilder::budget).
    #[error("there is no room for the answer: {0}")]
    NoRoom(Exhausted),
    /// The server sent something that makes no sense.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// The two sides share no protocol version.
    #[error("no common protocol version, the server offers: {offered}")]
    NoCommonVersion {
        /// What the server offers, as it says it.
        offered: String,
    },
    /// The tool's definition is invalid, so it must not be called.
    #[error("tool \"{name}\" must not be called: {reason}")]
    InvalidTool {
        /// The tool.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The server asked for input again and again.
    #[error("the server asked for input more than {0} times")]
    TooManyRounds(usize),
    /// The handler could not answer an input request of the server.
    #[error("input request \"{key}\" was not answered: {error}")]
    Input {
        /// The key of the request.
        key: String,
        /// What the handler said.
        error: RpcError,
    },
    /// The caller's parameters cannot be sent.
    #[error("these params cannot be sent: {0}")]
    InvalidParams(String),
    /// The client is not set up right.
    #[error("the client cannot be built: {0}")]
    Setup(String),
    /// The revision that was negotiated does not have this.
    #[error("{what} does not exist in revision {revision}")]
    NotInRevision {
        /// What was asked for.
        what: &'static str,
        /// The revision in use.
        revision: Revision,
    },
    /// As many calls as may wait for an answer at once are waiting.
    #[error("{0} calls are waiting for an answer already, try again when one is done")]
    TooManyCalls(usize),
    /// The peer was closed.
    #[error("the connection was closed")]
    Closed,
}

impl ClientError {
    /// Whether the server cannot have seen the request, so that repeating it is safe.
    pub fn is_unsent(&self) -> bool {
        matches!(
            self,
            ClientError::Unreachable(_)
                | ClientError::Credentials(_)
                | ClientError::Unsent(_)
                | ClientError::Closed
                | ClientError::TooManyCalls(_)
                | ClientError::InvalidParams(_)
                | ClientError::InvalidTool { .. }
                | ClientError::NotInRevision { .. }
        )
    }

    /// The JSON-RPC error, if the server answered with one.
    pub fn rpc(&self) -> Option<&RpcError> {
        match self {
            ClientError::Rpc(error) => Some(error),
            _ => None,
        }
    }

    pub(crate) fn protocol(message: impl Into<String>) -> ClientError {
        ClientError::Protocol(message.into())
    }
}

/// What an HTTP stack that cares for credentials fails with when it has none to offer: the server
/// has not acted on the request.
#[derive(Debug, thiserror::Error)]
#[error("there are no credentials for the server")]
pub struct NoCredentials(#[source] pub BoxError);

/// An HTTP refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedStatus {
    /// The status.
    pub status: StatusCode,
    /// `WWW-Authenticate`, if the server wants credentials.
    pub challenge: Option<String>,
    /// `Location`, if the server points elsewhere. It is not followed.
    pub location: Option<String>,
    /// How the body starts.
    pub excerpt: String,
}

impl fmt::Display for RefusedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP {}", self.status)?;
        if let Some(location) = &self.location {
            // The rest of it may be a secret, such as a signature.
            let place = location.split(['?', '#']).next().unwrap_or_default();
            let host = place.split("://").nth(1).unwrap_or(place);
            let has_user = host.split('/').next().is_some_and(|host| host.contains('@'));
            let place = if has_user { "another place" } else { place };
            write!(f, " to {place} (redirects are not followed, use that URL if it is right)")?;
        }
        if let Some(challenge) = &self.challenge {
            write!(f, ", it wants credentials: {challenge}")?;
        }
        if !self.excerpt.is_empty() {
            write!(f, ": {}", self.excerpt)?;
        }
        Ok(())
    }
}

impl From<Exhausted> for ClientError {
    fn from(exhausted: Exhausted) -> ClientError {
        ClientError::NoRoom(exhausted)
    }
}
