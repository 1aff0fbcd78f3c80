//! The authentication hook: turns a request's head into a principal before its body is read.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use http::request::Parts;
use http::{HeaderValue, StatusCode};

use crate::context::Principal;

/// What [`Authenticate`] returns.
pub type AuthenticateFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Option<Principal>, Unauthorized>> + Send + 'a>>;

/// What [`Authenticate::lapse`] returns.
pub type Lapse = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Says who is calling.
///
/// Called for every request of every method, after Host and Origin were judged and before any byte
/// of the body is read. `Ok(None)` lets the caller in anonymously.
pub trait Authenticate: Send + Sync + 'static {
    /// Judges the head of one request.
    fn authenticate<'a>(&'a self, head: &'a Parts) -> AuthenticateFuture<'a>;

    /// Completes when a caller who was let in would no longer be; its event streams end then. Asked
    /// for every event stream. `None`, the default, means never.
    fn lapse(&self, head: &Parts) -> Option<Lapse> {
        let _ = head;
        None
    }
}

/// A caller who was not let in.
#[derive(Debug, Clone)]
pub struct Unauthorized {
    /// 401, 403 or 400.
    pub status: StatusCode,
    /// The `WWW-Authenticate` challenge.
    pub challenge: Option<HeaderValue>,
    /// What the caller should do.
    pub message: Cow<'static, str>,
}

impl Unauthorized {
    /// The usual answer to missing or wrong credentials.
    pub fn bearer(message: impl Into<Cow<'static, str>>) -> Self {
        let challenge = Some(HeaderValue::from_static("Bearer"));
        Self { status: StatusCode::UNAUTHORIZED, challenge, message: message.into() }
    }
}
