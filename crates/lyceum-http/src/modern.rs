//! Requests of 2026-07-28: stateless, one POST each, cancelled by hanging up.

use std::sync::Arc;
use std::task::Poll;

use http::{HeaderName, StatusCode};
use lyceum_wire::{
    Field, Member, Message, ModernRequest, Refusal, Request, RoutingHeaders, check_modern,
    check_modern_notification,
};

use crate::answer::{self, AnswerBody};
use crate::call::{Answer, Call, PostedCall, PostedIn, Slow};
use crate::context::{Context, Outlet};
use crate::endpoint::Shared;
use crate::fields::Line;
use crate::handler::Handler;
use crate::outlet::{First, PostOutlet};
use crate::pipeline::{Arrival, End, Next, Reply, plain_error, refused};
use crate::stream::EventStream;
use crate::too_many::TooMany;

impl<H: Handler> Shared<H> {
    /// Takes a message that claims to be modern.
    pub(crate) fn modern(
        self: &Arc<Self>,
        mut arrival: Arrival<'_>,
        message: Message,
        routing: &RoutingHeaders<'_>,
    ) -> Result<Next, Reply> {
        arrival.trace.era = "modern";
        let request = match message {
            Message::Request(request) => request,
            Message::Notification(notification) => {
                // Accepted and dropped: request ids of other clients must not be cancellable.
                return match check_modern_notification(&notification, routing, self.served) {
                    Ok(()) => Err(answer::empty(StatusCode::ACCEPTED)),
                    Err(refusal) => Err(refused(&refusal)),
                };
            }
            Message::Response(_) | Message::Batch(_) => {
                let text = "send one request or notification";
                return Err(plain_error(StatusCode::BAD_REQUEST, text));
            }
        };
        let modern = check_modern(&request, routing, self.served).map_err(|no| refused(&no))?;
        let verdict = self.negotiate(&mut arrival, request.method.as_bytes())?;
        self.check_param_headers(&request, &arrival).map_err(|no| refused(&no))?;
        let dropped = self.counters.dropped.clone();
        let payer = self.stream_payer(arrival.principal.clone(), arrival.peer);
        let stream_bytes = self.limits.stream_bytes;
        let outlet = Arc::new(PostOutlet::new(verdict, stream_bytes, payer, None, dropped));
        let (id, posted) =
            (request.id.clone(), PostedIn::Modern { principal: arrival.principal.clone() });
        let (principal, peer) = (arrival.principal, arrival.peer);
        let cx = self.modern_context(&request, &modern, principal, peer, Arc::clone(&outlet) as _);
        let call = self.start(request, cx);
        Ok(Next::Call(PostedCall { id, call, outlet, decision: verdict.decision, posted }))
    }

    fn modern_context(
        &self,
        request: &Request,
        modern: &ModernRequest,
        principal: Option<crate::context::Principal>,
        peer: Option<std::net::IpAddr>,
        outlet: Arc<dyn Outlet>,
    ) -> Context {
        Context {
            revision: modern.revision,
            served: self.served,
            capabilities: modern.capabilities,
            log_level: modern.log_level,
            progress_token: request.params.progress_token(),
            principal,
            peer,
            budgets: Arc::clone(&self.budgets),
            endpoint: Arc::clone(&self.name),
            session_key: None,
            session: None,
            sealer: Arc::clone(&self.sealer),
            outlet,
        }
    }

    /// The headers that mirror a tool's arguments must say what the arguments say.
    fn check_param_headers(&self, request: &Request, arrival: &Arrival<'_>) -> Result<(), Refusal> {
        if request.method != "tools/call" {
            return Ok(());
        }
        let Some(annotated) = self.handler.param_headers(request) else { return Ok(()) };
        let header = |name: &str| match HeaderName::from_bytes(name.as_bytes()) {
            Ok(name) => Line::of(arrival.fields.all, &name).into(),
            Err(_) => Field::Absent,
        };
        annotated
            .check(request.params.get(Member::Arguments), header)
            .map_err(|error| Refusal::bad_request(error, Some(request.id.clone())))
    }

    /// Runs a call inside its response: when the client goes away, so does the call. `polled` is
    /// what the first poll brought.
    pub(crate) async fn run_inline(&self, posted: PostedCall, polled: Poll<Answer>) -> End {
        let PostedCall { id, call, outlet, decision, posted } = posted;
        let _responding = outlet.responding();
        let (first, rest) = match polled {
            Poll::Ready(answer) => (outlet.answered(answer), None),
            Poll::Pending => {
                let mut call = match self.counted(call, &posted) {
                    Ok(call) => Slow::new(call),
                    Err(too_many) => return End::Reply(too_many.reply(Some(&id))),
                };
                (
                    outlet.first(&self.timers, self.limits.keep_alive, |cx| call.poll(cx)).await,
                    call.take(),
                )
            }
        };
        let stream = match first {
            First::Answered(answer) => return End::answered(answer, decision),
            First::Streaming(stream) => stream,
        };
        let mut events = EventStream::new(stream.outbox.resume(), self.limits.keep_alive);
        if let Some(call) = rest {
            let running = Box::pin(async move { call.await.message });
            events = events.driving(running, stream.outbox);
        }
        End::Reply(self.stream_reply(events))
    }

    /// Counts a call that takes time as its caller's, as long as it runs.
    fn counted(&self, call: Call, posted: &PostedIn) -> Result<Call, TooMany> {
        let PostedIn::Modern { principal: Some(principal) } = posted else { return Ok(call) };
        let held = self.sessions.calls_of.hold(Some(principal))?;
        Ok(Box::pin(async move {
            let _held = held;
            call.await
        }))
    }

    pub(crate) fn stream_reply(&self, events: EventStream) -> Reply {
        let events = events.holding(self.counters.stream_opened());
        answer::event_stream(AnswerBody::events(events))
    }
}
