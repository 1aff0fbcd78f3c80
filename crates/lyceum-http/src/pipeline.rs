//! A request's way through an endpoint, in order: guards, authentication, negotiation, parsing,
//! classification, then one of the two eras.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::Body;
use lyceum_wire::{
    Era, ErrorCode, Message, ParseError, Refusal, Route, RoutingHeaders, RpcError, classify,
};
use lyceum_work::MAX_PARSED_INLINE;

use crate::accept::Acceptance;
use crate::answer::{self, AnswerBody};
use crate::authenticate::Unauthorized;
use crate::body::{self, BodyError};
use crate::call::{Answer, Answered, PostedCall};
use crate::caller::{self, CallerId};
use crate::context::Principal;
use crate::cors;
use crate::dialect::{ContentTypeRule, Decision, Verdict, decide_post};
use crate::endpoint::Shared;
use crate::explain::decision_header;
use crate::fields::{Fields, Known};
use crate::guard::{self, ContentType, Refused};
use crate::handler::Handler;
use crate::request_id::{REQUEST_ID, request_id_or_next};
use crate::too_many::TooMany;

pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const DECISION: HeaderName = HeaderName::from_static("lyceum-decision");

const UNAUTHORIZED: ErrorCode = ErrorCode(-32000);

/// A response on its way out.
pub(crate) type Reply = Response<AnswerBody>;

/// What is known about a request once it passed the guards.
pub(crate) struct Arrival<'a> {
    pub(crate) uri: &'a Uri,
    pub(crate) fields: &'a Fields<'a>,
    pub(crate) principal: Option<Principal>,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) acceptance: Acceptance,
    pub(crate) trace: &'a mut Trace,
}

/// What is left to do once a message was routed.
pub(crate) enum Next {
    /// Nothing but to send this.
    Reply(Reply),
    /// A call is to be run: the common case.
    Call(PostedCall),
    /// Something rarer, that takes time.
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
}

/// How a request's walk ended.
pub(crate) enum End {
    Reply(Reply),
    /// With an answer before which nothing was streamed, yet to be framed: the common case.
    Answered(Answered),
}

impl End {
    pub(crate) fn answered(answer: Answer, decision: Decision) -> Self {
        Self::Answered(Answered { answer, decision, echo: None })
    }

    /// The response. Its headers may be put into the map of its request's.
    pub(crate) fn into_reply(self, headers: &mut HeaderMap) -> Reply {
        match self {
            Self::Reply(reply) => reply,
            Self::Answered(answered) => answered.reply(recycled(headers)),
        }
    }

    /// Names the session in the response, if there is one.
    pub(crate) fn in_session(&mut self, id: Option<HeaderValue>) {
        match (self, id) {
            (Self::Reply(reply), Some(id)) => drop(reply.headers_mut().insert(SESSION, id)),
            (Self::Reply(_), None) => {}
            (Self::Answered(answered), id) => answered.echo = id,
        }
    }
}

/// How the answer came about, for the log and the `Lyceum-Decision` header.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) era: &'static str,
    pub(crate) rule: &'static str,
}

impl<H: Handler> Shared<H> {
    /// Answers one request.
    ///
    /// The request is taken apart here and not in the future, which would keep room for the whole as
    /// well as for its parts.
    pub(crate) fn answer<B>(
        self: Arc<Self>,
        request: Request<B>,
    ) -> impl Future<Output = Result<Reply, Infallible>> + Send
    where
        B: Body<Data = Bytes> + Send,
    {
        let (mut head, body) = request.into_parts();
        let peer = caller::peer();
        async move {
            // Pinned here and lent out, because each function it moved through would copy it.
            let body = pin!(body);
            let mut trace = Trace { era: "none", rule: "guard" };
            let fields = Fields::of(&head.headers);
            let admitted = self.admit(&head, &fields);
            let end = match &admitted {
                Err(refused) => End::Reply(refuse(refused)),
                Ok(_) => self.walk(&head, &fields, body, peer, &mut trace).await,
            };
            let request_id = request_id_or_next(fields.first(Known::RequestId));
            let origin = admitted.ok().flatten().cloned();
            let mut reply = end.into_reply(&mut head.headers);
            if let Some(origin) = &origin {
                cors::answer_headers(origin, reply.headers_mut());
            }
            self.finish(&head, request_id, &trace, &mut reply);
            Ok(reply)
        }
    }

    /// Judges Host, Origin and Sec-Fetch-Site; returns the origin to name in CORS headers.
    pub(crate) fn admit<'a>(
        &self,
        head: &Parts,
        fields: &Fields<'a>,
    ) -> Result<Option<&'a HeaderValue>, Refused> {
        guard::check_host_line(&head.uri, fields.line(Known::Host), &self.hosts)?;
        let origin = guard::check_origin_line(fields.line(Known::Origin), &self.origins)?;
        let site = fields.line(Known::FetchSite);
        guard::check_fetch_site_line(&head.method, origin.is_some(), site)?;
        Ok(origin)
    }

    /// Says who is calling.
    pub(crate) async fn authenticated(&self, head: &Parts) -> Result<Option<Principal>, Reply> {
        match &self.authenticate {
            None => Ok(None),
            Some(authenticate) => {
                authenticate.authenticate(head).await.map_err(|no| unauthorized(&no))
            }
        }
    }

    async fn walk<B>(
        self: &Arc<Self>,
        head: &Parts,
        fields: &Fields<'_>,
        body: Pin<&mut B>,
        peer: Option<IpAddr>,
        trace: &mut Trace,
    ) -> End
    where
        B: Body<Data = Bytes> + Send,
    {
        if head.method == Method::OPTIONS {
            return End::Reply(self.preflight(head));
        }
        let principal = match self.authenticated(head).await {
            Ok(principal) => principal,
            Err(reply) => return End::Reply(reply),
        };
        let acceptance = fields.acceptance();
        let mut arrival = Arrival { uri: &head.uri, fields, principal, peer, acceptance, trace };
        match head.method {
            Method::POST => {}
            Method::GET => return End::Reply(self.get(arrival)),
            Method::DELETE => return End::Reply(self.delete(&arrival)),
            _ => return End::Reply(self.method_not_allowed(fields)),
        }
        let verdict = match self.check_post(&mut arrival) {
            Ok(verdict) => verdict,
            Err(reply) => return End::Reply(reply),
        };
        let caller = || CallerId::new(arrival.principal.clone(), peer);
        let body = match body::read(body, &self.limits, &self.budgets.bodies, caller).await {
            Ok(body) => body,
            Err(error) => return End::Reply(unread(error)),
        };
        let message = match body.len() > MAX_PARSED_INLINE {
            // Boxed, so that small bodies do not pay for its size.
            true => Box::pin(parse_in_bulk(body)).await,
            false => Message::parse(&body),
        };
        let posted = match self.route(arrival, message, verdict) {
            Next::Reply(reply) => return End::Reply(reply),
            Next::Later(reply) => return End::Reply(reply.await),
            Next::Call(posted) => posted,
        };
        self.run(posted).await
    }

    pub(crate) fn preflight(&self, head: &Parts) -> Reply {
        let mut reply = answer::empty(StatusCode::NO_CONTENT);
        reply.headers_mut().insert(ALLOW, self.allowed(&Fields::of(&head.headers)));
        if let Ok(Some(origin)) = guard::check_origin(&head.headers, &self.origins) {
            cors::preflight_headers(origin, &head.headers, reply.headers_mut());
        }
        reply
    }

    /// What can be said before the body is read. The verdict is preliminary: the method is unknown.
    fn check_post(&self, arrival: &mut Arrival<'_>) -> Result<Verdict, Reply> {
        self.check_content(arrival.fields)?;
        self.counters.accepted(arrival.acceptance.mode());
        let verdict = decide_post(self.policy, &arrival.acceptance, "", self.sse);
        match verdict.decision {
            Decision::NotAcceptable => Err(self.not_acceptable(arrival.trace, verdict)),
            _ => Ok(verdict),
        }
    }

    /// Classifies a message. Nothing here waits, so that the future of a request stays small.
    fn route(
        self: &Arc<Self>,
        arrival: Arrival<'_>,
        message: Result<Message, ParseError>,
        verdict: Verdict,
    ) -> Next {
        let routing = arrival.fields.routing();
        let message = match message {
            Ok(message) => message,
            Err(error) => return Next::Reply(self.malformed(&routing, verdict, error.into())),
        };
        let next = match classify(&message, &routing, self.served) {
            Err(refusal) => Err(refused(&refusal)),
            Ok(Route::Modern) => self.modern(arrival, message, &routing),
            Ok(Route::Initialize) => {
                self.hand_over(arrival, message, verdict, |arrival, message| {
                    self.initialize(arrival, message)
                })
            }
            Ok(Route::Legacy { header }) => {
                self.hand_over(arrival, message, verdict, |arrival, message| {
                    self.legacy(arrival, message, header)
                })
            }
        };
        next.unwrap_or_else(Next::Reply)
    }

    fn check_content(&self, fields: &Fields<'_>) -> Result<(), Reply> {
        if fields.first(Known::ContentEncoding).is_some() {
            guard::check_content_encoding(fields.all).map_err(|refused| refuse(&refused))?;
        }
        let status = match self.policy.content_type {
            ContentTypeRule::AnyIfParses => return Ok(()),
            ContentTypeRule::Required415 => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ContentTypeRule::Required400 => StatusCode::BAD_REQUEST,
        };
        if guard::content_type(fields.line(Known::ContentType)) == ContentType::Json {
            return Ok(());
        }
        Err(plain_error(status, "send the request as Content-Type: application/json"))
    }

    /// A body that is not JSON-RPC. Some dialects' clients expect it to be answered in band.
    fn malformed(&self, routing: &RoutingHeaders<'_>, verdict: Verdict, refusal: Refusal) -> Reply {
        let status = match refusal.error.code {
            ErrorCode::PARSE_ERROR => self.policy.parse_error_status,
            _ => self.policy.invalid_request_status,
        };
        let in_band = status == 200 && !lyceum_wire::is_modern_get(&routing.version);
        match (in_band, verdict.decision) {
            (true, Decision::Sse) => answer::single_event(refusal.body()),
            (true, _) => answer::json(StatusCode::OK, refusal.body()),
            (false, _) => refused(&refusal),
        }
    }

    /// Decides how a request's answer is framed, and counts it.
    pub(crate) fn negotiate(
        &self,
        arrival: &mut Arrival<'_>,
        method: &[u8],
    ) -> Result<Verdict, Reply> {
        let verdict = decide_post(self.policy, &arrival.acceptance, method, self.sse);
        self.counters.decided(verdict.decision);
        arrival.trace.rule = verdict.rule;
        tracing::debug!(
            accept.mode = arrival.acceptance.mode().as_str(),
            dialect = self.dialect.as_str(),
            era = arrival.trace.era,
            decision = ?verdict.decision,
            rule = verdict.rule,
            method = %method.escape_ascii(),
            "negotiated"
        );
        match verdict.decision {
            Decision::NotAcceptable => Err(self.not_acceptable(arrival.trace, verdict)),
            _ => Ok(verdict),
        }
    }

    pub(crate) fn not_acceptable(&self, trace: &mut Trace, verdict: Verdict) -> Reply {
        if trace.rule != verdict.rule {
            trace.rule = verdict.rule;
            self.counters.decided(verdict.decision);
        }
        let code = ErrorCode(self.policy.not_acceptable_code);
        let message = "Not Acceptable: accept application/json and text/event-stream";
        answer::error(StatusCode::NOT_ACCEPTABLE, None, &RpcError::new(code, message))
    }

    pub(crate) fn method_not_allowed(&self, fields: &Fields<'_>) -> Reply {
        let allow = self.allowed(fields);
        let text = format!("Method Not Allowed: use {}", allow.to_str().unwrap_or("POST"));
        let mut reply = plain_error(StatusCode::METHOD_NOT_ALLOWED, text);
        reply.headers_mut().insert(ALLOW, allow);
        reply
    }

    fn allowed(&self, fields: &Fields<'_>) -> HeaderValue {
        let modern = lyceum_wire::is_modern_get(&fields.line(Known::Version).into());
        if modern || !self.served.serves(Era::Legacy) || !self.policy.mints_session {
            return HeaderValue::from_static("POST");
        }
        HeaderValue::from_static("GET, POST, DELETE")
    }

    /// Adds what every response carries.
    pub(crate) fn finish(
        &self,
        head: &Parts,
        request_id: HeaderValue,
        trace: &Trace,
        reply: &mut Reply,
    ) {
        reply.headers_mut().insert(REQUEST_ID, request_id);
        if let Some(authenticate) = &self.authenticate {
            reply.body_mut().end_at(|| authenticate.lapse(head));
        }
        if self.explain {
            let status = reply.status();
            let answer = match status.is_success() {
                true if answer::is_event_stream(reply) => "sse",
                true => "json",
                false => status.as_str(),
            };
            let text = decision_header(trace.era, self.dialect, trace.rule, answer);
            if let Ok(value) = HeaderValue::try_from(text) {
                reply.headers_mut().insert(DECISION, value);
            }
        }
    }
}

/// Parses a large body on a thread for bulk work, so that other requests need not wait for it.
async fn parse_in_bulk(body: Bytes) -> Result<Message, ParseError> {
    let parsed = lyceum_work::run_bulk(move || Message::parse(&body)).await;
    parsed.unwrap_or_else(|_| {
        let message = "the server failed while reading this request".into();
        Err(ParseError { code: ErrorCode::INTERNAL_ERROR, message, id: None })
    })
}

/// A request's header map, emptied to hold the headers of its answer. hyper keeps the map of each
/// answer for the next request of the connection, so none has to be made or grown for either; but it
/// must not keep a very large one.
fn recycled(headers: &mut HeaderMap) -> HeaderMap {
    const ROOMY: usize = 32;
    let mut headers = std::mem::take(headers);
    if headers.capacity() > ROOMY {
        return HeaderMap::new();
    }
    headers.clear();
    headers
}

/// A refusal that has only a message to give.
pub(crate) fn plain_error(
    status: StatusCode,
    message: impl Into<std::borrow::Cow<'static, str>>,
) -> Reply {
    answer::error(status, None, &RpcError::invalid_request(message))
}

pub(crate) fn refuse(refused: &Refused) -> Reply {
    let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::BAD_REQUEST);
    plain_error(status, refused.message.clone())
}

/// A body that was not read to its end. What is left of it must not be taken for the next request.
pub(crate) fn unread(error: BodyError) -> Reply {
    let mut reply = match error {
        // The client did nothing wrong, so the code is not that of an invalid request.
        BodyError::NoRoom(exhausted) => TooMany::Bytes(exhausted).reply(None),
        _ => plain_error(error.status(), error.to_string()),
    };
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}

pub(crate) fn refused(refusal: &Refusal) -> Reply {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    answer::json(status, refusal.body())
}

/// Not let in. The code is the one clients of agent-data know; the revisions prescribe none.
fn unauthorized(no: &Unauthorized) -> Reply {
    let error = RpcError::new(UNAUTHORIZED, no.message.clone());
    let mut reply = answer::error(no.status, None, &error);
    if let Some(challenge) = &no.challenge {
        reply.headers_mut().insert(WWW_AUTHENTICATE, challenge.clone());
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recycled_header_map_is_empty_and_not_large() {
        for (n_headers, is_kept) in [(5, true), (20, true), (100, false)] {
            let mut headers = HeaderMap::new();
            for at in 0..n_headers {
                let name = HeaderName::try_from(format!("x-{at}")).unwrap();
                headers.append(&name, HeaderValue::from_static("one"));
                headers.append(&name, HeaderValue::from_static("two"));
            }
            let room = headers.capacity();
            let recycled = recycled(&mut headers);
            assert!(recycled.is_empty() && headers.is_empty());
            assert_eq!(recycled.capacity(), if is_kept { room } else { 0 }, "{n_headers} headers");
        }
    }
}
