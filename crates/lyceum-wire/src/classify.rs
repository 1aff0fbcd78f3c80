//! Which era a message belongs to: the decision procedure for one URL that serves every revision.
//!
//! A pure function of the body, three headers and what the endpoint serves. The modern checks that
//! follow are in `modern`; sessions are the transport's business.

use std::borrow::Cow;

use bytes::Bytes;

use crate::encode;
use crate::error::{ParseError, RpcError};
use crate::id::Id;
use crate::message::{Message, Request};
use crate::mirror::trim;
use crate::params::{Member, Params};
use crate::revision::{Era, Revision, RevisionSet};
use crate::text::Text;

/// How a header arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// Not at all.
    Absent,
    /// Once, with this value.
    Value(&'a [u8]),
    /// More than once, which is refused: nobody knows which one a proxy went by.
    Repeated,
}

/// The headers that repeat parts of the body so that proxies can route without reading it.
#[derive(Clone, Copy, Debug)]
pub struct RoutingHeaders<'a> {
    /// `MCP-Protocol-Version`.
    pub version: Field<'a>,
    /// `Mcp-Method`.
    pub method: Field<'a>,
    /// `Mcp-Name`.
    pub name: Field<'a>,
}

impl RoutingHeaders<'_> {
    /// No routing headers, as on stdio or from an old client.
    pub const NONE: RoutingHeaders<'static> =
        RoutingHeaders { version: Field::Absent, method: Field::Absent, name: Field::Absent };
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the stateless checks, then the handler.
    Modern,
    /// The legacy handshake.
    Initialize,
    /// To its session, or to stateless handling of old clients.
    Legacy {
        /// The legacy revision the version header names, if any.
        header: Option<Revision>,
    },
}

/// A request turned away before any handler saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The error.
    pub error: RpcError,
    /// The request's id, when there is one to answer to.
    pub id: Option<Id>,
}

impl Refusal {
    /// Status 400 with this error.
    pub fn bad_request(error: RpcError, id: Option<Id>) -> Refusal {
        Refusal { status: 400, error, id }
    }

    /// The JSON-RPC error response.
    pub fn body(&self) -> Bytes {
        encode::error(self.id.as_ref(), &self.error)
    }
}

impl From<ParseError> for Refusal {
    fn from(mut error: ParseError) -> Refusal {
        let id = error.id.take();
        Refusal::bad_request(error.into(), id)
    }
}

/// What the version header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Absent,
    Legacy(Revision),
    /// The modern revision, or one nobody knows: both are answered by the modern rules.
    ModernOrUnknown,
}

impl Version {
    fn of(field: &Field<'_>) -> Version {
        match field {
            Field::Absent => Version::Absent,
            Field::Repeated => Version::ModernOrUnknown,
            Field::Value(value) => match Revision::parse_bytes(trim(value)) {
                Some(revision) if revision.era() == Era::Legacy => Version::Legacy(revision),
                _ => Version::ModernOrUnknown,
            },
        }
    }

    fn route(self) -> Route {
        match self {
            Version::Legacy(revision) => Route::Legacy { header: Some(revision) },
            _ => Route::Legacy { header: None },
        }
    }
}

/// Decides where a message goes, or why it goes nowhere.
pub fn classify(
    message: &Message,
    headers: &RoutingHeaders<'_>,
    served: RevisionSet,
) -> Result<Route, Refusal> {
    if headers.version == Field::Repeated {
        let error = RpcError::header_mismatch("MCP-Protocol-Version was sent more than once");
        return Err(Refusal::bad_request(error, message.request_id().cloned()));
    }
    let version = Version::of(&headers.version);
    match message {
        Message::Batch(messages) => classify_batch(messages, version, served),
        Message::Response(_) if version == Version::ModernOrUnknown => {
            Err(invalid("responses cannot be sent to a stateless server"))
        }
        Message::Response(_) if !served.serves(Era::Legacy) => {
            Err(invalid("responses cannot be sent to a stateless server"))
        }
        Message::Response(_) => Ok(version.route()),
        Message::Request(request) => {
            classify_call(&request.method, &request.params, version, headers, served)
                .map_err(|error| Refusal::bad_request(error, Some(request.id.clone())))
                .and_then(|route| refuse_old_handshake(route, request, served))
        }
        Message::Notification(notification) => {
            classify_call(&notification.method, &notification.params, version, headers, served)
                .map_err(|error| Refusal::bad_request(error, None))
        }
    }
}

/// Whether a GET or DELETE with this version header comes from a client that has no use for them
/// (answer 405); otherwise it is a session's.
pub fn is_modern_get(version: &Field<'_>) -> bool {
    Version::of(version) == Version::ModernOrUnknown
}

/// Whether the revision a session negotiated has batches.
pub fn batch_allowed(revision: Revision) -> bool {
    revision == Revision::V2025_03_26
}

fn classify_call(
    method: &Text,
    params: &Params,
    version: Version,
    headers: &RoutingHeaders<'_>,
    served: RevisionSet,
) -> Result<Route, RpcError> {
    let claims_modern =
        params.get(Member::MetaProtocolVersion).is_some() || version == Version::ModernOrUnknown;
    if claims_modern {
        if served.serves(Era::Modern) {
            return Ok(Route::Modern);
        }
        let requested = requested_version(params, headers);
        return Err(RpcError::unsupported_version(&requested, served));
    }
    if !served.serves(Era::Legacy) {
        return match version {
            Version::Legacy(revision) => {
                Err(RpcError::unsupported_version(revision.as_str(), served))
            }
            _ => Ok(Route::Modern),
        };
    }
    Ok(match method.as_bytes() {
        b"server/discover" | b"subscriptions/listen" if served.serves(Era::Modern) => Route::Modern,
        b"initialize" => Route::Initialize,
        _ => version.route(),
    })
}

/// On a modern-only endpoint an `initialize` learns which versions there are instead of which
/// metadata it lacks: that is what a client that can speak both goes by.
fn refuse_old_handshake(
    route: Route,
    request: &Request,
    served: RevisionSet,
) -> Result<Route, Refusal> {
    let params = &request.params;
    if route == Route::Modern
        && request.method == "initialize"
        && !served.serves(Era::Legacy)
        && params.get(Member::MetaProtocolVersion).is_none()
        && let Some(requested) = params.text(Member::ProtocolVersion)
    {
        let error = RpcError::unsupported_version(&requested, served);
        return Err(Refusal::bad_request(error, Some(request.id.clone())));
    }
    Ok(route)
}

fn classify_batch(
    messages: &[Result<Message, ParseError>],
    version: Version,
    served: RevisionSet,
) -> Result<Route, Refusal> {
    if version == Version::ModernOrUnknown || !served.serves(Era::Legacy) {
        return Err(invalid("batches exist only in revision 2025-03-26, send single messages"));
    }
    for message in messages.iter().flatten() {
        if message.method().is_some_and(|method| method == "initialize") {
            return Err(invalid("initialize cannot be part of a batch"));
        }
        let params = message.params();
        if params.is_some_and(|params| params.get(Member::MetaProtocolVersion).is_some()) {
            return Err(invalid("stateless requests cannot be batched, send single messages"));
        }
    }
    Ok(version.route())
}

/// The version a modern message asks for, as it wrote it.
fn requested_version<'a>(params: &'a Params, headers: &RoutingHeaders<'a>) -> Cow<'a, str> {
    match headers.version {
        Field::Value(value) => String::from_utf8_lossy(trim(value)),
        _ => params.text(Member::MetaProtocolVersion).unwrap_or_default(),
    }
}

fn invalid(message: &'static str) -> Refusal {
    Refusal::bad_request(RpcError::invalid_request(message), None)
}

#[cfg(test)]
mod tests;
