//! Messages of a legacy client after its handshake, in a session or outside any.
//!
//! A disconnect is not a cancellation here: a call outlives its connection (`attached.rs`).

use std::sync::Arc;
use std::task::Poll;

use http::{HeaderValue, StatusCode};
use lyceum_wire::{
    ClientCapabilities, Id, LogLevel, Member, Message, Notification, Request, Response, Revision,
};

use super::attached::Attached;
use super::origin::Origin;
use super::session::Session;
use super::token::SessionToken;
use crate::answer;
use crate::call::{Answer, PostedCall, PostedIn};
use crate::context::{Context, Outlet, Principal};
use crate::dialect::{Decision, Verdict};
use crate::endpoint::Shared;
use crate::fields::{Fields, Known, Line};
use crate::handler::Handler;
use crate::outlet::{First, PostOutlet};
use crate::pipeline::{Arrival, End, Next, Reply, SESSION, plain_error};
use crate::sse::{self, Event};
use crate::stream::{EventStream, event_id};
use crate::too_many::TooMany;

const LEGACY_HAS_ORIGIN: &str = "legacy outlets are made with an origin";

impl<H: Handler> Shared<H> {
    /// Takes a legacy message; `header` is the revision its version header names.
    pub(crate) fn legacy(
        self: &Arc<Self>,
        mut arrival: Arrival<'_>,
        message: Message,
        header: Option<Revision>,
    ) -> Result<Next, Reply> {
        arrival.trace.era = "legacy";
        let echo =
            arrival.fields.first(Known::Session).filter(|_| self.policy.mints_session).cloned();
        let origin = self.origin(&arrival, echo.is_some(), header)?;
        let next = match message {
            Message::Request(request) => {
                return self.legacy_request(&mut arrival, request, origin, echo);
            }
            Message::Response(response) => Next::Reply(self.legacy_response(response, &origin)),
            Message::Notification(notification) => {
                let status = self.policy.notification_status(&notification.method);
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::ACCEPTED);
                let (shared, principal) = (Arc::clone(self), arrival.principal);
                Next::Later(Box::pin(async move {
                    match shared.legacy_notification(notification, &origin, principal).await {
                        Ok(()) => answer::empty(status),
                        Err(too_many) => too_many.reply(None),
                    }
                }))
            }
            Message::Batch(batch) => self.legacy_batch(&mut arrival, batch, origin)?,
        };
        Ok(echoing(next, echo))
    }

    /// The session a message belongs to, or the terms on which it is served without one.
    fn origin(
        &self,
        arrival: &Arrival<'_>,
        in_session: bool,
        header: Option<Revision>,
    ) -> Result<Origin, Reply> {
        let (token, session) = if in_session {
            match self.session_of(arrival) {
                Ok((token, session)) => (Some(token), session),
                Err(_) if self.policy.echoes_session => (None, None),
                Err(reply) => return Err(reply),
            }
        } else if self.policy.sessions_required {
            return Err(missing_session());
        } else {
            (None, None)
        };
        let stateless = header.unwrap_or(Revision::V2025_03_26);
        Ok(Origin {
            revision: token.map_or(stateless, |token| token.revision),
            token,
            session,
            principal: arrival.principal.clone(),
            peer: arrival.peer,
            sessions: Arc::clone(&self.sessions),
        })
    }

    /// Opens the session id a request carries, and finds the session's live state if it has any.
    /// Foreign, expired, ended and invented ids all get the same answer.
    pub(super) fn session_of(
        &self,
        arrival: &Arrival<'_>,
    ) -> Result<(SessionToken, Option<Arc<Session>>), Reply> {
        let id = one_session_header(arrival.fields)?;
        let principal = arrival.principal.as_ref();
        let open = || SessionToken::open(&self.sealer, &self.binding(principal), id.as_bytes());
        self.sessions
            .opened
            .get_or_open(id.as_bytes(), principal, open)
            .filter(|token| !token.is_expired(self.limits.session_lifetime))
            .and_then(|token| Some((token, self.sessions.find(&token).ok()?)))
            .ok_or_else(|| {
                plain_error(StatusCode::NOT_FOUND, "Session not found: send initialize again")
            })
    }

    fn legacy_request(
        self: &Arc<Self>,
        arrival: &mut Arrival<'_>,
        request: Request,
        origin: Origin,
        echo: Option<HeaderValue>,
    ) -> Result<Next, Reply> {
        let verdict = self.negotiate(arrival, request.method.as_bytes())?;
        let id = request.id.clone();
        let session = origin.session_for(&request).map_err(|too_many| too_many.reply(Some(&id)))?;
        let outlet = self.outlet(verdict, origin);
        let origin = outlet.origin().expect(LEGACY_HAS_ORIGIN);
        let principal = arrival.principal.take();
        let cx =
            self.legacy_context(&request, origin, session, principal, Arc::clone(&outlet) as _);
        let call = self.start(request, cx);
        let posted = PostedIn::Legacy { echo };
        Ok(Next::Call(PostedCall { id, call, outlet, decision: verdict.decision, posted }))
    }

    /// Runs a call that takes time. `polled` is what the first poll brought.
    pub(crate) async fn run_attached(&self, posted: PostedCall, polled: Poll<Answer>) -> End {
        let PostedCall { id, call, outlet, decision, .. } = posted;
        let origin = outlet.origin().expect(LEGACY_HAS_ORIGIN);
        let _responding = outlet.responding();
        let first = match polled {
            Poll::Ready(answer) => outlet.answered(answer),
            Poll::Pending => match origin.admit(Some(id.clone())) {
                Ok(running) => {
                    let mut call = Attached::new(id, call, running, &outlet);
                    outlet.first(&self.timers, self.limits.keep_alive, |cx| call.poll(cx)).await
                }
                Err(too_many) => return End::Reply(too_many.reply(Some(&id))),
            },
        };
        self.begin(first, origin.revision, &outlet, decision)
    }

    /// The response that begins so.
    pub(super) fn begin(
        &self,
        first: First,
        revision: Revision,
        outlet: &PostOutlet,
        decision: Decision,
    ) -> End {
        let stream = match first {
            First::Answered(answer) => return End::answered(answer, decision),
            First::Streaming(stream) => stream,
        };
        let mut events = EventStream::new(stream.outbox.resume(), self.limits.keep_alive);
        if let Some(number) = stream.number {
            events = self.resumable(events, number, 0, revision);
        }
        if outlet.is_released() {
            stream.outbox.detach();
        }
        End::Reply(self.stream_reply(events))
    }

    /// Numbers a stream's events, and primes it for clients that know how to come back.
    pub(super) fn resumable(
        &self,
        events: EventStream,
        number: u64,
        after: u64,
        revision: Revision,
    ) -> EventStream {
        let events = events.numbered(number);
        if revision < Revision::V2025_11_25 {
            // Older SDKs parse the empty data of a priming event as JSON, and fail.
            return events;
        }
        let id = event_id(number, after);
        let retry = u32::try_from(self.limits.retry.as_millis()).ok();
        let mut frame = Vec::with_capacity(64);
        sse::encode(&mut frame, &Event { name: "message", id: Some(&id), retry, data: b"" });
        events.starting_with(frame.into())
    }

    pub(super) fn outlet(&self, verdict: Verdict, origin: Origin) -> Arc<PostOutlet> {
        let dropped = self.counters.dropped.clone();
        let payer = self.stream_payer(origin.principal.clone(), origin.peer);
        let stream_bytes = self.limits.stream_bytes;
        Arc::new(PostOutlet::new(verdict, stream_bytes, payer, Some(origin), dropped))
    }

    pub(super) fn legacy_context(
        &self,
        request: &Request,
        origin: &Origin,
        session: Option<Arc<Session>>,
        principal: Option<Principal>,
        outlet: Arc<dyn Outlet>,
    ) -> Context {
        let progress_token = request.params.progress_token();
        self.context(origin, session, progress_token, principal, outlet)
    }

    fn context(
        &self,
        origin: &Origin,
        session: Option<Arc<Session>>,
        progress_token: Option<bytes::Bytes>,
        principal: Option<Principal>,
        outlet: Arc<dyn Outlet>,
    ) -> Context {
        let none = ClientCapabilities::default();
        Context {
            revision: origin.revision,
            served: self.served,
            capabilities: origin.token.as_ref().map_or(none, |token| token.capabilities),
            log_level: Some(session.as_ref().map_or(LogLevel::Info, |session| session.log_level())),
            progress_token,
            principal,
            peer: origin.peer,
            budgets: Arc::clone(&self.budgets),
            endpoint: Arc::clone(&self.name),
            session_key: origin.token.as_ref().map(|token| token.key),
            session,
            sealer: Arc::clone(&self.sealer),
            outlet,
        }
    }

    pub(super) async fn legacy_notification(
        self: &Arc<Self>,
        notification: Notification,
        origin: &Origin,
        principal: Option<Principal>,
    ) -> Result<(), TooMany> {
        if notification.method == "notifications/cancelled" {
            if let (Some(session), Some(id)) = (&origin.session, cancelled_id(&notification)) {
                session.cancel(&id);
            }
            return Ok(());
        }
        let nowhere = Verdict { decision: Decision::Json, rule: "notification", can_stream: false };
        let outlet = self.outlet(nowhere, origin.clone());
        let session = origin.session.clone();
        let cx = self.context(origin, session, None, principal, outlet);
        self.take_note(notification, cx, || origin.admit(None)).await
    }

    pub(super) fn legacy_response(&self, response: Response, origin: &Origin) -> Reply {
        if origin.token.is_none() {
            return missing_session();
        }
        if let Some(session) = &origin.session {
            // An answer nobody waits for any more is dropped; the client did nothing wrong.
            session.answer(&response.id, response.outcome);
        }
        answer::empty(StatusCode::ACCEPTED)
    }
}

/// Names the session in a reply that is yet to come.
fn echoing(next: Next, echo: Option<HeaderValue>) -> Next {
    let Some(session) = echo else { return next };
    let named = |mut reply: Reply| {
        reply.headers_mut().insert(SESSION, session);
        reply
    };
    match next {
        Next::Reply(reply) => Next::Reply(named(reply)),
        Next::Later(later) => Next::Later(Box::pin(async move { named(later.await) })),
        Next::Call(call) => Next::Call(call),
    }
}

pub(super) fn cancelled_id(notification: &Notification) -> Option<Id> {
    Id::from_token(notification.params.slice(Member::RequestId)?)
}

fn one_session_header<'a>(fields: &Fields<'a>) -> Result<&'a HeaderValue, Reply> {
    match fields.line(Known::Session) {
        Line::Once(id) => Ok(id),
        Line::Absent => Err(missing_session()),
        Line::Repeated => {
            Err(plain_error(StatusCode::BAD_REQUEST, "send the Mcp-Session-Id header once"))
        }
    }
}

pub(super) fn missing_session() -> Reply {
    plain_error(
        StatusCode::BAD_REQUEST,
        "Mcp-Session-Id is missing: send initialize first and repeat the id it returns",
    )
}
