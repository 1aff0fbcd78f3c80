//! HTTP+SSE, the transport of 2024-11-05: one endpoint for the stream, one for messages.
//!
//! Every answer, question and notification travels on the one stream; a POST only says that its
//! message arrived. Closing the stream ends the session.

use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use lyceum_wire::{
    ClientCapabilities, Era, ErrorCode, LogLevel, Message, Revision, RpcError, encode,
};
use tower_service::Service;

use super::hand_over::{PARAMETER, parameter, stream_id};
use super::post::cancelled_id;
use super::running::RunningCall;
use super::session::Session;
use super::token::SessionToken;
use crate::answer::{self, AnswerBody};
use crate::call::Answer;
use crate::caller::{self, CallerId};
use crate::context::{Context, Delivery, Outlet, OutletFuture, Principal};
use crate::endpoint::{ResponseFuture, Shared};
use crate::fields::Fields;
use crate::handler::Handler;
use crate::outbox::Outbox;
use crate::pipeline::{Reply, SESSION, Trace, plain_error};
use crate::request_id::request_id;
use crate::sse::{self, Event};
use crate::stream::EventStream;

/// The code that Knox's clients know for "initialize first".
const NOT_INITIALIZED: ErrorCode = ErrorCode(-32002);

/// The two services of an HTTP+SSE endpoint, as one: GET opens a stream, POST takes messages.
pub struct HttpSse<H> {
    pub(crate) shared: Arc<Shared<H>>,
    messages: Arc<str>,
}

impl<H: Handler> HttpSse<H> {
    pub(crate) fn new(shared: Arc<Shared<H>>, messages: Arc<str>) -> Self {
        Self { shared, messages }
    }

    /// Where messages are posted to.
    pub fn messages_path(&self) -> &str {
        &self.messages
    }
}

impl<H> Clone for HttpSse<H> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), messages: Arc::clone(&self.messages) }
    }
}

impl<H> fmt::Debug for HttpSse<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSse").field("messages", &self.messages).finish_non_exhaustive()
    }
}

impl<H, B> Service<Request<B>> for HttpSse<H>
where
    H: Handler,
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> ResponseFuture {
        if self.hands_over()
            && request.method() == Method::POST
            && stream_id(request.headers(), request.uri()).is_none()
        {
            // Nowhere to answer but here: Knox's clients get JSON then, whatever they accept.
            request.headers_mut().remove(ACCEPT);
            return Box::pin(Arc::clone(&self.shared).answer(request));
        }
        let (this, peer) = (self.clone(), caller::peer());
        Box::pin(async move { Ok(this.answer(request, peer).await) })
    }
}

impl<H: Handler> HttpSse<H> {
    async fn answer<B>(&self, request: Request<B>, peer: Option<IpAddr>) -> Reply
    where
        B: Body<Data = Bytes> + Send,
    {
        let (head, body) = request.into_parts();
        let shared = &self.shared;
        let mut reply = match shared.admit(&head, &Fields::of(&head.headers)) {
            Err(refused) => crate::pipeline::refuse(&refused),
            Ok(origin) => {
                let mut reply = self.walk(&head, body, peer).await.unwrap_or_else(|reply| reply);
                if let Some(origin) = origin {
                    crate::cors::answer_headers(origin, reply.headers_mut());
                }
                reply
            }
        };
        let trace = Trace { era: "http+sse", rule: "http+sse" };
        shared.finish(&head, request_id(&head.headers), &trace, &mut reply);
        reply
    }

    async fn walk<B>(&self, head: &Parts, body: B, peer: Option<IpAddr>) -> Result<Reply, Reply>
    where
        B: Body<Data = Bytes> + Send,
    {
        if head.method == Method::OPTIONS {
            return Ok(self.shared.preflight(head));
        }
        let principal = self.shared.authenticated(head).await?;
        let posts = head.uri.path() == &*self.messages;
        match head.method {
            Method::GET if !posts => self.open(principal, peer),
            Method::POST if posts => self.message(head, body, principal, peer).await,
            _ => {
                let allow = if posts { "POST" } else { "GET" };
                let text = format!("Method Not Allowed: use {allow}");
                let mut reply = plain_error(StatusCode::METHOD_NOT_ALLOWED, text);
                reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
                Err(reply)
            }
        }
    }

    /// Whether its streams are those of the main endpoint too, in the manner of the Knox proxy.
    fn hands_over(&self) -> bool {
        self.shared.hand_over.as_deref() == Some(&*self.messages)
    }

    /// Opens a session: its first event says where to post.
    pub(super) fn open(
        &self,
        principal: Option<Principal>,
        peer: Option<IpAddr>,
    ) -> Result<Reply, Reply> {
        let shared = &self.shared;
        if !shared.sse {
            return Err(plain_error(StatusCode::NOT_FOUND, "event streams are turned off here"));
        }
        let token = SessionToken::mint(Revision::V2024_11_05, ClientCapabilities::default());
        let session = shared
            .sessions
            .live(&token, principal.as_ref())
            .map_err(|too_many| too_many.reply(None))?;
        let payer = shared.stream_payer(principal.clone(), peer);
        let outbox =
            session.standalone(|| Outbox::new(shared.limits.stream_bytes).charged_to(payer));
        shared.handler.stream_opened(&session);
        let id = token.seal(&shared.sealer, &self.binding(principal.as_ref()));
        let named = if self.hands_over() { PARAMETER } else { "session_id" };
        let address = format!("{}?{named}={id}", self.messages);
        let mut first = Vec::with_capacity(address.len() + 32);
        let mut event = |name, data: &str| {
            let data = data.as_bytes();
            sse::encode(&mut first, &Event { name, id: None, retry: None, data });
        };
        if self.hands_over() {
            event("connected", &id);
        }
        event("endpoint", &address);
        let ends = EndsSession { shared: Arc::clone(shared), key: token.key };
        let events = EventStream::new(outbox.resume(), shared.limits.keep_alive)
            .starting_with(first.into())
            .holding((ends, shared.counters.stream_opened()));
        Ok(answer::event_stream(AnswerBody::events(events)))
    }

    /// Takes one message; whatever comes of it goes to the stream.
    async fn message<B>(
        &self,
        head: &Parts,
        body: B,
        principal: Option<Principal>,
        peer: Option<IpAddr>,
    ) -> Result<Reply, Reply>
    where
        B: Body<Data = Bytes> + Send,
    {
        let (session, id) = self.session_of(head, principal.as_ref())?;
        crate::guard::check_content_encoding(&head.headers)
            .map_err(|refused| crate::pipeline::refuse(&refused))?;
        let caller = || CallerId::new(principal.clone(), peer);
        let bodies = &self.shared.budgets.bodies;
        let body = crate::body::read(body, &self.shared.limits, bodies, caller)
            .await
            .map_err(crate::pipeline::unread)?;
        let message = Message::parse(&body)
            .map_err(|error| crate::pipeline::refused(&lyceum_wire::Refusal::from(error)))?;
        let mut reply = self.take(message, session, principal, peer).await?;
        if let Some(id) = id.filter(|_| self.hands_over()) {
            reply.headers_mut().insert(SESSION, id);
        }
        Ok(reply)
    }

    /// Does what a message of `session` asks for.
    pub(super) async fn take(
        &self,
        message: Message,
        session: Arc<Session>,
        principal: Option<Principal>,
        peer: Option<IpAddr>,
    ) -> Result<Reply, Reply> {
        match message {
            Message::Request(request) => self.request(request, session, principal, peer)?,
            Message::Notification(notification) => {
                if notification.method == "notifications/cancelled" {
                    if let Some(id) = cancelled_id(&notification) {
                        session.cancel(&id);
                    }
                } else {
                    let (sessions, held) = (&self.shared.sessions, Arc::clone(&session));
                    let cx = self.context(&session, principal.clone(), peer, None);
                    let admit =
                        || RunningCall::admit(sessions, principal.as_ref(), Some(held), None);
                    self.shared
                        .take_note(notification, cx, admit)
                        .await
                        .map_err(|too_many| too_many.reply(None))?;
                }
            }
            Message::Response(response) => {
                session.answer(&response.id, response.outcome);
            }
            Message::Batch(_) => {
                let text = "send one message per POST";
                return Err(plain_error(StatusCode::BAD_REQUEST, text));
            }
        }
        let mut reply = answer::empty(StatusCode::ACCEPTED);
        *reply.body_mut() = AnswerBody::whole("Accepted");
        Ok(reply)
    }

    fn request(
        &self,
        request: lyceum_wire::Request,
        session: Arc<Session>,
        principal: Option<Principal>,
        peer: Option<IpAddr>,
    ) -> Result<(), Reply> {
        let (id, held) = (request.id.clone(), Some(Arc::clone(&session)));
        let running =
            RunningCall::admit(&self.shared.sessions, principal.as_ref(), held, Some(id.clone()))
                .map_err(|too_many| too_many.reply(Some(&id)))?;
        let outlet = SessionOutlet::of(&session, self.shared.limits.question);
        // Until an answer has room its call counts as running, so that a client that does not read
        // cannot pile up answers.
        let answer = async move |answer: Answer| outlet.outbox.offer_answer(answer.message).await;
        if request.method == "initialize" {
            match self.shared.handshake(&request, None) {
                Ok(agreed) => session.settle(agreed.revision, agreed.capabilities),
                Err(error) => {
                    let refusal = Answer::error(&id, &error, Era::Legacy);
                    running.spawn(async move { answer(refusal).await });
                    return Ok(());
                }
            }
        }
        if self.hands_over() && !session.is_settled() && needs_handshake(&request.method) {
            let error = RpcError::new(NOT_INITIALIZED, "Server not initialized");
            let refusal = Answer::error(&id, &error, Era::Legacy);
            running.spawn(async move { answer(refusal).await });
            return Ok(());
        }
        let progress_token = request.params.progress_token();
        let cx = self.context(&session, principal, peer, progress_token);
        let call = self.shared.start(request, cx);
        running.spawn(async move { answer(call.await).await });
        Ok(())
    }

    fn context(
        &self,
        session: &Arc<Session>,
        principal: Option<Principal>,
        peer: Option<IpAddr>,
        progress_token: Option<Bytes>,
    ) -> Context {
        Context {
            revision: session.revision(),
            served: self.shared.served,
            capabilities: session.capabilities(),
            log_level: Some(session.log_level().max(LogLevel::Debug)),
            progress_token,
            principal,
            peer,
            budgets: Arc::clone(&self.shared.budgets),
            endpoint: Arc::clone(&self.shared.name),
            session_key: Some(session.key),
            session: Some(Arc::clone(session)),
            sealer: Arc::clone(&self.shared.sealer),
            outlet: Arc::new(SessionOutlet::of(session, self.shared.limits.question)),
        }
    }

    /// The session a message is for, and its id as it was sent.
    fn session_of(
        &self,
        head: &Parts,
        principal: Option<&Principal>,
    ) -> Result<(Arc<Session>, Option<HeaderValue>), Reply> {
        let id = match self.hands_over() {
            true => stream_id(&head.headers, &head.uri),
            false => parameter(&head.uri, &["session_id", "sessionId"]).map(str::as_bytes),
        };
        let id = id.ok_or_else(|| {
            let text = "session_id is missing: post to the address the endpoint event named";
            plain_error(StatusCode::BAD_REQUEST, text)
        })?;
        if !self.hands_over() && !SessionToken::is_well_formed(id) {
            let text = "session_id is malformed: post to the address the endpoint event named";
            return Err(plain_error(StatusCode::BAD_REQUEST, text));
        }
        let session = self.open_session(id, principal).ok_or_else(|| {
            plain_error(StatusCode::NOT_FOUND, "Session not found: open the stream again")
        })?;
        Ok((session, HeaderValue::from_bytes(id).ok()))
    }

    /// The session of an open stream.
    pub(super) fn open_session(
        &self,
        id: &[u8],
        principal: Option<&Principal>,
    ) -> Option<Arc<Session>> {
        let token = SessionToken::open(&self.shared.sealer, &self.binding(principal), id)?;
        self.shared.sessions.get(token.key)
    }

    /// Bound to the messages path too, so that such an id is worthless on the main endpoint.
    fn binding<'a>(&'a self, principal: Option<&'a Principal>) -> [&'a [u8]; 3] {
        let [name, principal] = self.shared.binding(principal);
        [name, principal, self.messages.as_bytes()]
    }
}

/// Whether Knox's clients may ask for it only after `initialize`.
fn needs_handshake(method: &str) -> bool {
    ["tools/", "resources/"].iter().any(|family| method.starts_with(family))
}

/// Ends the session with its stream.
struct EndsSession<H: Handler> {
    shared: Arc<Shared<H>>,
    key: [u8; 16],
}

impl<H: Handler> Drop for EndsSession<H> {
    fn drop(&mut self) {
        self.shared.sessions.remove(self.key);
        self.shared.handler.session_ended(self.key);
    }
}

/// An outlet whose messages share the session's one stream.
struct SessionOutlet {
    session: Arc<Session>,
    outbox: Arc<Outbox>,
    patience: tokio::time::Duration,
}

impl SessionOutlet {
    fn of(session: &Arc<Session>, patience: tokio::time::Duration) -> Self {
        let outbox = session.standalone(|| Outbox::new(0));
        Self { session: Arc::clone(session), outbox, patience }
    }
}

impl Outlet for SessionOutlet {
    fn send(&self, message: Bytes) -> OutletFuture<'_, Delivery> {
        Box::pin(async move {
            self.outbox.push(message).await;
            Delivery::Queued
        })
    }

    fn ask<'a>(
        &'a self,
        method: &'a str,
        params: &'a [u8],
    ) -> OutletFuture<'a, Result<Bytes, RpcError>> {
        Box::pin(self.session.ask(method, self.patience, move |id| {
            let request = encode::request(id, method, Some(params));
            async move { self.outbox.push(request).await }
        }))
    }
}
