//! A door's rule: whether callers need a key, and whose keys open it.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use lyceum_http::{Authenticate, AuthenticateFuture, Lapse, Principal, Unauthorized};

use super::path_token::CameWith;
use super::{KeyRing, PathToken, Refusals};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Whom a door lets in.
#[derive(Debug, Clone)]
pub(crate) enum Admission {
    /// Any key.
    Any,
    /// The keys of these names, and nobody without one.
    Only(Vec<String>),
    /// Any key but those of these names.
    Except(Vec<String>),
    /// Whoever got here: the path they came by held this secret.
    PathToken(Arc<PathToken>),
}

/// A caller who was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// No key, or none that is good.
    Unauthenticated,
    /// A good key that is not for this door.
    Forbidden,
}

/// A guarded door.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    ring: Arc<KeyRing>,
    refusals: Arc<Refusals>,
    admission: Admission,
    /// Whether callers need a key even before the first one is made.
    always: bool,
    /// What the door is called in the audit trail.
    name: Arc<str>,
}

impl Gate {
    pub(crate) fn new(
        ring: Arc<KeyRing>,
        refusals: Arc<Refusals>,
        admission: Admission,
        always: bool,
        name: &str,
    ) -> Self {
        Self { ring, refusals, admission, always, name: name.into() }
    }

    /// Judges a request by its head; a refusal leaves a trace.
    pub(crate) fn enter(&self, headers: &HeaderMap) -> Result<Option<Principal>, Denied> {
        let (entered, caller) = self.judge(headers);
        entered.inspect_err(|denied| {
            let request_id = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or("");
            self.refusals.record(&self.name, &caller, *denied, request_id);
        })
    }

    /// Whether a request may enter, without leaving a trace.
    pub(crate) fn would_admit(&self, headers: &HeaderMap) -> bool {
        self.judge(headers).0.is_ok()
    }

    fn judge(&self, headers: &HeaderMap) -> (Result<Option<Principal>, Denied>, String) {
        let anyone = matches!(self.admission, Admission::Any | Admission::Except(_));
        if matches!(self.admission, Admission::PathToken(_)) {
            return (Ok(Some(Principal::new(format!("token:{}", self.name)))), String::new());
        }
        if anyone && !self.always && !self.ring.has_any() {
            return (Ok(None), String::new());
        }
        let Some(owner) = presented(headers).and_then(|key| self.ring.owner(key)) else {
            return (Err(Denied::Unauthenticated), String::new());
        };
        let welcome = match &self.admission {
            Admission::Any | Admission::PathToken(_) => true,
            Admission::Only(names) => names.contains(&owner),
            Admission::Except(names) => !names.contains(&owner),
        };
        match welcome {
            true => (Ok(Some(Principal::new(owner))), String::new()),
            false => (Err(Denied::Forbidden), owner),
        }
    }
}

impl Denied {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
        }
    }

    /// The code, in audit lines and in the HTTP API.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Unauthenticated => "UNAUTHENTICATED",
            Self::Forbidden => "FORBIDDEN",
        }
    }

    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Unauthenticated => {
                "send a valid API key as X-API-Key or as Authorization: Bearer"
            }
            Self::Forbidden => "this API key is not for this address; use one that is",
        }
    }

    pub(crate) fn challenge(self) -> Option<HeaderValue> {
        (self == Self::Unauthenticated).then(|| HeaderValue::from_static("Bearer"))
    }
}

impl Authenticate for Gate {
    fn authenticate<'a>(&'a self, head: &'a Parts) -> AuthenticateFuture<'a> {
        let entered = self.enter(&head.headers).map_err(|denied| Unauthorized {
            status: denied.status(),
            challenge: denied.challenge(),
            message: denied.message().into(),
        });
        Box::pin(std::future::ready(entered))
    }

    /// A revoked or expired key and a replaced token end the streams they opened.
    fn lapse(&self, head: &Parts) -> Option<Lapse> {
        if let Admission::PathToken(token) = &self.admission {
            let came_with = head.extensions.get::<CameWith>()?;
            return Some(Box::pin(Arc::clone(token).lapsed(*came_with)));
        }
        let presented = presented(&head.headers)?.to_owned();
        let guarded = self.ring.has_any();
        guarded.then(|| Box::pin(Arc::clone(&self.ring).lapsed(presented)) as Lapse)
    }
}

/// The key a request carries. Two different ones of a kind are none: which is meant?
fn presented(headers: &HeaderMap) -> Option<&str> {
    fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Option<&'a str>> {
        let mut lines = headers.get_all(name).iter();
        let first = lines.next()?;
        Some(first.to_str().ok().filter(|_| lines.next().is_none()))
    }
    if let Some(key) = only(headers, &API_KEY) {
        return key.map(str::trim);
    }
    let (scheme, key) = only(headers, &AUTHORIZATION)??.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}
