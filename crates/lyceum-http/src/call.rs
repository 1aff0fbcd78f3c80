//! A handler's call as a future that always ends in an answer, panics included.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue, StatusCode};
use lyceum_wire::{Era, ErrorCode, Id, Notification, Request, RpcError, encode};

use crate::answer;
use crate::byte_budget::UNCOUNTED_BYTES;
use crate::caller::CallerId;
use crate::context::{Context, Principal};
use crate::dialect::{Decision, Policy};
use crate::endpoint::Shared;
use crate::handler::Handler;
use crate::legacy::RunningCall;
use crate::outlet::PostOutlet;
use crate::pipeline::{End, Reply, SESSION};
use crate::too_many::TooMany;

/// An answer, framed as JSON-RPC, and the status it has when it is a response of its own.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) message: Bytes,
    /// Whether it is a result rather than an error.
    pub(crate) succeeded: bool,
}

/// A running call.
pub(crate) type Call = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A call that was polled once and takes time.
pub(crate) struct Slow {
    /// `None` once it is over.
    call: Option<Call>,
    /// It was polled in this very turn, and needs not be polled again.
    was_polled: bool,
}

impl Slow {
    pub(crate) fn new(call: Call) -> Self {
        Self { call: Some(call), was_polled: true }
    }

    /// Its answer, once.
    pub(crate) fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<Answer> {
        if std::mem::take(&mut self.was_polled) {
            return Poll::Pending;
        }
        let Some(call) = &mut self.call else { return Poll::Pending };
        let answer = std::task::ready!(call.as_mut().poll(cx));
        self.call = None;
        Poll::Ready(answer)
    }

    /// The call, unless it is over.
    pub(crate) fn take(&mut self) -> Option<Call> {
        self.call.take()
    }
}

/// A call that arrived in a POST of its own.
pub(crate) struct PostedCall {
    pub(crate) id: Id,
    pub(crate) call: Call,
    pub(crate) outlet: Arc<PostOutlet>,
    pub(crate) decision: Decision,
    pub(crate) posted: PostedIn,
}

/// The era of a posted call, and what only that era needs.
pub(crate) enum PostedIn {
    Modern {
        principal: Option<Principal>,
    },
    Legacy {
        /// The session id to repeat in the response.
        echo: Option<HeaderValue>,
    },
}

/// An answer before which nothing was streamed.
pub(crate) struct Answered {
    pub(crate) answer: Answer,
    pub(crate) decision: Decision,
    /// The session id to repeat in the response.
    pub(crate) echo: Option<HeaderValue>,
}

impl Answered {
    /// The response, its headers put into `headers`.
    pub(crate) fn reply(self, headers: HeaderMap) -> Reply {
        let mut reply = respond(headers, self.answer, self.decision);
        if let Some(session) = self.echo {
            reply.headers_mut().insert(SESSION, session);
        }
        reply
    }
}

impl<H: Handler> Shared<H> {
    /// Runs a call to its response. Most calls answer at once and are done here; what becomes of
    /// the others depends on the era.
    #[expect(clippy::manual_async_fn, reason = "an async fn would keep room for the call twice")]
    pub(crate) fn run(
        self: &Arc<Self>,
        mut posted: PostedCall,
    ) -> impl Future<Output = End> + Send {
        async move {
            let answer = poll_once(&mut posted.call).await;
            let (is_modern, session) = match &mut posted.posted {
                PostedIn::Modern { .. } => (true, None),
                PostedIn::Legacy { echo } => (false, echo.take()),
            };
            let mut end = match answer {
                Poll::Ready(answer) if posted.outlet.stays_whole() => {
                    End::answered(answer, posted.decision)
                }
                // Boxed, so that the many quick calls do not pay for the size of the slow ones.
                answer if is_modern => Box::pin(self.run_inline(posted, answer)).await,
                answer => Box::pin(self.run_attached(posted, answer)).await,
            };
            end.in_session(session);
            end
        }
    }

    /// Starts a call. Nothing runs until it is polled.
    pub(crate) fn start(self: &Arc<Self>, request: Request, cx: Context) -> Call {
        let shared = Arc::clone(self);
        Box::pin(async move {
            let era = cx.era();
            let id = request.id.clone();
            let is_tool_call = request.method == "tools/call";
            let (principal, peer) = (cx.principal.clone(), cx.peer);
            let started = catch_unwind(AssertUnwindSafe(|| shared.handler.call(request, cx)));
            let ended = match started {
                Ok(call) => Guarded { call: std::pin::pin!(call) }.await,
                Err(_) => Err(Panicked),
            };
            let result = ended.unwrap_or_else(|Panicked| {
                shared.counters.panics.increment(1);
                Err(RpcError::internal("the server failed while handling this request"))
            });
            match result {
                Ok(outcome) => {
                    let is_charged = outcome.is_charged();
                    let message = outcome.into_response(&id);
                    if message.len() <= UNCOUNTED_BYTES || is_charged {
                        return Answer::whole(message);
                    }
                    let caller = CallerId::new(principal, peer);
                    // Boxed, so that small answers do not pay for its size.
                    Box::pin(shared.charged(message, &id, caller, era)).await
                }
                Err(error) if era == Era::Legacy => {
                    Answer::error(&id, &in_dialect(error, is_tool_call, shared.policy), era)
                }
                Err(error) => Answer::error(&id, &error, era),
            }
        })
    }

    /// An answer whose bytes are charged to `caller` until it has taken them.
    async fn charged(&self, message: Bytes, id: &Id, caller: CallerId, era: Era) -> Answer {
        if message.len() > self.limits.answer_bytes {
            let limit = self.limits.answer_bytes;
            let text = format!("the answer is larger than {limit} bytes; ask for less at once");
            return Answer::error(id, &RpcError::internal(text), era);
        }
        match self.budgets.claim(&caller, message).await {
            Ok(message) => Answer::whole(message),
            Err(exhausted) => Answer::refused(id, TooMany::Bytes(exhausted)),
        }
    }

    /// Lets the handler take note of a notification, on a task of its own if that takes time and
    /// `admit` finds a place for it; otherwise the handler is stopped.
    pub(crate) async fn take_note(
        self: &Arc<Self>,
        notification: Notification,
        cx: Context,
        admit: impl FnOnce() -> Result<RunningCall, TooMany>,
    ) -> Result<(), TooMany> {
        let shared = Arc::clone(self);
        let mut noted: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            let started =
                catch_unwind(AssertUnwindSafe(|| shared.handler.notify(notification, cx)));
            let ended = match started {
                Ok(noted) => Guarded { call: std::pin::pin!(noted) }.await,
                Err(_) => Err(Panicked),
            };
            if ended.is_err() {
                shared.counters.panics.increment(1);
            }
        });
        if poll_once(&mut noted).await.is_pending() {
            admit()?.spawn(noted);
        }
        Ok(())
    }
}

impl Answer {
    /// An answer that is framed already.
    pub(crate) fn whole(message: Bytes) -> Self {
        Self { status: StatusCode::OK, message, succeeded: true }
    }

    /// The refusal of a call for want of room.
    pub(crate) fn refused(id: &Id, too_many: TooMany) -> Self {
        let message = encode::error(Some(id), &too_many.into());
        Self { status: too_many.status(), message, succeeded: false }
    }

    pub(crate) fn error(id: &Id, error: &RpcError, era: Era) -> Self {
        let status = match era {
            // A legacy client reads 404 as "session gone": its errors travel in band.
            Era::Legacy => StatusCode::OK,
            Era::Modern => modern_status(error.code),
        };
        Self { status, message: encode::error(Some(id), error), succeeded: false }
    }
}

/// Application errors such as an unknown tool are ordinary answers; only what concerns the protocol
/// itself has a status of its own.
fn modern_status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        ErrorCode::PARSE_ERROR
        | ErrorCode::INVALID_REQUEST
        | ErrorCode::HEADER_MISMATCH
        | ErrorCode::MISSING_CLIENT_CAPABILITY
        | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// Gives an error the form that the dialect's clients know: "no such tool" its code, and what is
/// said in `data`.
fn in_dialect(mut error: RpcError, is_tool_call: bool, policy: &Policy) -> RpcError {
    let unknown = ["Unknown tool: ", "Tool not allowed: "];
    if is_tool_call
        && error.code == ErrorCode::INVALID_PARAMS
        && unknown.iter().any(|prefix| error.message.starts_with(prefix))
    {
        error.code = ErrorCode(policy.unknown_tool.code());
    }
    if policy.explains_errors && error.data.is_none() {
        let text = match error.code {
            ErrorCode::METHOD_NOT_FOUND => error
                .message
                .strip_prefix("method not found")
                .map(|of| format!("Unknown method{of}")),
            ErrorCode::INTERNAL_ERROR => Some(format!("Server error: {}", error.message)),
            _ => None,
        };
        error.data = text.map(|text| {
            let mut data = Vec::with_capacity(text.len() + 2);
            encode::write_str(&mut data, &text);
            data.into()
        });
    }
    error
}

/// Polls a future once, with the caller's waker.
pub(crate) async fn poll_once<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// Frames an answer before which nothing was streamed. Its headers are put into `headers`.
pub(crate) fn respond(headers: HeaderMap, answer: Answer, decision: Decision) -> Reply {
    if decision == Decision::Sse && answer.status == StatusCode::OK {
        return answer::single_event_in(headers, answer.message);
    }
    let status = answer.status;
    let mut reply = answer::json_in(headers, status, answer.message);
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(1));
    }
    reply
}

/// Polls a future and turns a panic into an error, so that one request cannot end a connection
/// that others share.
struct Guarded<F> {
    call: F,
}

impl<F: Future + Unpin> Future for Guarded<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let call = Pin::new(&mut self.call);
        match catch_unwind(AssertUnwindSafe(|| call.poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    }
}

struct Panicked;
