//! The live part of a legacy session: what a sealed session id cannot carry.
//!
//! An entry exists only while something needs it (a stream, a pending question, a subscription, a
//! log level) and is swept when idle. The identity of a session lives in its token alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use lyceum_wire::{ClientCapabilities, ErrorCode, Id, LogLevel, Revision, RpcError};
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant, timeout};

use super::subscriptions::{SubscriptionBudget, Subscriptions};
use crate::context::Delivery;
use crate::outbox::Outbox;
use crate::too_many::TooMany;

/// Questions to the client one session may have open.
pub const MAX_QUESTIONS: usize = 256;

/// A client's answer to a server request: raw `result`, or raw `error`.
pub(crate) type Reply = Result<Bytes, Bytes>;

/// Live state of one legacy session (or of one stdio connection).
#[derive(Debug)]
pub struct Session {
    pub(crate) key: [u8; 16],
    /// Whether it was used since it was last swept.
    used: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    revision: Revision,
    settled: bool,
    capabilities: ClientCapabilities,
    log_level: LogLevel,
    subscriptions: Subscriptions,
    questions: FxHashMap<u64, oneshot::Sender<Reply>>,
    last_question: u64,
    calls: FxHashMap<u64, RunningCall>,
    last_call: u64,
    standalone: Option<Arc<Outbox>>,
    streams: FxHashMap<u64, Arc<Outbox>>,
    draining: bool,
    closed: bool,
    idle_since: Instant,
}

/// A call under way. Clients that give two calls the same id get two.
#[derive(Debug)]
struct RunningCall {
    /// `None` for a notification.
    id: Option<Id>,
    stopped: bool,
    /// Who is to be told that it was stopped.
    waiter: Option<Waker>,
}

impl RunningCall {
    fn stop(&mut self) {
        self.stopped = true;
        if let Some(waiter) = self.waiter.take() {
            waiter.wake();
        }
    }
}

impl State {
    fn end_if_drained(&self) {
        if self.draining
            && self.calls.is_empty()
            && let Some(standalone) = &self.standalone
        {
            standalone.finish();
        }
    }
}

impl Session {
    /// A session for a connection that has no token, such as stdio; `standalone` carries what is
    /// not part of any call.
    pub fn detached(revision: Revision, standalone: Arc<Outbox>) -> Self {
        let capabilities = ClientCapabilities::default();
        let session = Self::new([0; 16], revision, capabilities, Arc::default());
        session.lock().standalone = Some(standalone);
        session
    }

    pub(super) fn new(
        key: [u8; 16],
        revision: Revision,
        capabilities: ClientCapabilities,
        subscribed: Arc<SubscriptionBudget>,
    ) -> Self {
        let state = State {
            revision,
            settled: false,
            capabilities,
            log_level: LogLevel::Info,
            subscriptions: Subscriptions::new(subscribed),
            questions: FxHashMap::default(),
            last_question: 0,
            calls: FxHashMap::default(),
            last_call: 0,
            standalone: None,
            streams: FxHashMap::default(),
            draining: false,
            closed: false,
            idle_since: Instant::now(),
        };
        Self { key, used: AtomicBool::new(true), state: Mutex::new(state) }
    }

    /// What tells it from other sessions.
    pub fn key(&self) -> [u8; 16] {
        self.key
    }

    /// The negotiated revision.
    pub fn revision(&self) -> Revision {
        self.lock().revision
    }

    /// What the client said it can do.
    pub fn capabilities(&self) -> ClientCapabilities {
        self.lock().capabilities
    }

    /// Records what `initialize` settled, for connections whose id does not carry it.
    pub fn settle(&self, revision: Revision, capabilities: ClientCapabilities) {
        let mut state = self.lock();
        state.revision = revision;
        state.settled = true;
        state.capabilities = capabilities;
    }

    /// Whether `initialize` settled anything here.
    pub(crate) fn is_settled(&self) -> bool {
        self.lock().settled
    }

    /// The least severe log message the client wants.
    pub fn log_level(&self) -> LogLevel {
        self.lock().log_level
    }

    /// Sets the level asked for by `logging/setLevel`.
    pub fn set_log_level(&self, level: LogLevel) {
        self.lock().log_level = level;
    }

    /// Subscribes to a resource; `false` when the session holds [`MAX_SUBSCRIPTIONS`] or
    /// [`MAX_SUBSCRIPTION_BYTES`] of them, or all sessions together hold too many bytes.
    ///
    /// [`MAX_SUBSCRIPTIONS`]: crate::MAX_SUBSCRIPTIONS
    /// [`MAX_SUBSCRIPTION_BYTES`]: crate::MAX_SUBSCRIPTION_BYTES
    pub fn subscribe(&self, uri: &str) -> bool {
        self.lock().subscriptions.add(uri)
    }

    /// Ends a subscription, if there is one.
    pub fn unsubscribe(&self, uri: &str) {
        self.lock().subscriptions.remove(uri);
    }

    /// Whether the client subscribed to `uri`.
    pub fn is_subscribed(&self, uri: &str) -> bool {
        self.lock().subscriptions.contains(uri)
    }

    /// Puts a whole JSON-RPC message on the standalone stream.
    ///
    /// [`Delivery::Dropped`] when the client never opened one, or reads too slowly.
    pub fn notify(&self, message: Bytes) -> Delivery {
        let standalone = self.lock().standalone.clone();
        match standalone {
            Some(outbox) if outbox.try_push(message) => Delivery::Queued,
            _ => Delivery::Dropped,
        }
    }

    /// Asks the client: `send` puts the request with the given id on its way, and the raw JSON of
    /// the client's result comes back.
    ///
    /// # Errors
    /// When the client answers with an error, does not answer within `limit`, or goes away.
    pub async fn ask<F>(
        &self,
        method: &str,
        limit: Duration,
        send: impl FnOnce(&Id) -> F,
    ) -> Result<Bytes, RpcError>
    where
        F: Future<Output = ()>,
    {
        let Some(question) = self.open_question() else {
            return Err(RpcError::internal(format!("too many open questions to send {method}")));
        };
        let (id, answer) = (Id::number(question.id), question.answer);
        let _open = question.open;
        let answer = timeout(limit, async {
            send(&id).await;
            answer.await
        });
        match answer.await {
            Ok(Ok(Ok(result))) => Ok(result),
            Ok(Ok(Err(error))) => Err(client_error(method, &error)),
            Ok(Err(_)) => {
                Err(RpcError::internal(format!("the session ended before {method} was answered")))
            }
            Err(_) => {
                Err(RpcError::internal(format!("the client did not answer {method} in time")))
            }
        }
    }

    fn open_question(&self) -> Option<Question<'_>> {
        let mut state = self.lock();
        if state.questions.len() >= MAX_QUESTIONS {
            return None;
        }
        state.last_question += 1;
        let id = state.last_question;
        let (sender, answer) = oneshot::channel();
        if !state.closed {
            state.questions.insert(id, sender);
        }
        Some(Question { id, answer, open: OpenQuestion { session: self, id } })
    }

    /// Delivers the client's answer; `false` when nobody asked, or nobody waits any more.
    pub fn answer(&self, id: &Id, reply: Result<Bytes, Bytes>) -> bool {
        let Ok(id) = id.as_str().parse() else { return false };
        let question = self.lock().questions.remove(&id);
        question.is_some_and(|sender| sender.send(reply).is_ok())
    }

    /// Makes room for a call, so that it can be cancelled by its id, unless `limit` of them are
    /// running. Returns the call's number. In a session that has ended, it is stopped at once.
    pub(super) fn call_started(&self, id: Option<Id>, limit: usize) -> Result<u64, TooMany> {
        let mut state = self.lock();
        if state.calls.len() >= limit {
            return Err(TooMany::CallsOfSession);
        }
        state.last_call += 1;
        let number = state.last_call;
        if !state.closed {
            state.calls.insert(number, RunningCall { id, stopped: false, waiter: None });
        }
        Ok(number)
    }

    /// Whether a call was stopped, or its session ended.
    pub(super) fn poll_stopped(&self, number: u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        let Some(call) = state.calls.get_mut(&number).filter(|call| !call.stopped) else {
            return Poll::Ready(());
        };
        match &mut call.waiter {
            Some(waiter) => waiter.clone_from(cx.waker()),
            None => call.waiter = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// Forgets a call that ended. Until now the session was in use.
    pub(super) fn call_ended(&self, number: u64) {
        self.touch();
        let mut state = self.lock();
        state.calls.remove(&number);
        state.end_if_drained();
    }

    /// Ends the standalone stream of a server that drains: at once, or with the last running call,
    /// whose answer may have to travel on it.
    pub(crate) fn drain(&self) {
        let mut state = self.lock();
        state.draining = true;
        state.end_if_drained();
    }

    /// Notes that the session is in use.
    pub(crate) fn touch(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Stops a running call, as asked by `notifications/cancelled`.
    pub fn cancel(&self, id: &Id) {
        let mut state = self.lock();
        let calls = state.calls.values_mut().filter(|call| call.id.as_ref() == Some(id));
        calls.for_each(RunningCall::stop);
    }

    /// The standalone stream, made if need be. In a session that has ended, it is over.
    pub(crate) fn standalone(&self, make: impl FnOnce() -> Outbox) -> Arc<Outbox> {
        let mut state = self.lock();
        if state.closed {
            let over = make();
            over.finish();
            return Arc::new(over);
        }
        Arc::clone(state.standalone.get_or_insert_with(|| Arc::new(make())))
    }

    /// Adds a call's stream; `false` when the session has `limit` unfinished ones already, or has
    /// ended.
    pub(crate) fn add_stream(&self, id: u64, stream: Arc<Outbox>, limit: usize) -> bool {
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        if state.streams.len() >= limit {
            let finished = |(_, stream): &(&u64, &Arc<Outbox>)| stream.is_finished();
            let oldest = state.streams.iter().filter(finished).min_by_key(|(_, s)| s.touched());
            let Some((&oldest, _)) = oldest else { return false };
            state.streams.remove(&oldest);
        }
        state.streams.insert(id, stream);
        true
    }

    pub(crate) fn stream(&self, id: u64) -> Option<Arc<Outbox>> {
        self.lock().streams.get(&id).cloned()
    }

    /// Ends everything: streams close, questions fail, calls stop.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.questions.clear();
        state.calls.drain().for_each(|(_, mut call)| call.stop());
        for (_, stream) in state.streams.drain() {
            stream.finish();
        }
        if let Some(standalone) = state.standalone.take() {
            standalone.finish();
        }
    }

    /// Drops streams idle for `ttl`; `true` when the whole session is idle.
    pub(crate) fn sweep(&self, ttl: Duration) -> bool {
        let mut state = self.lock();
        if self.used.swap(false, Ordering::Relaxed) {
            state.idle_since = Instant::now();
        }
        let live = |stream: &Arc<Outbox>| stream.is_attached() || stream.touched().elapsed() < ttl;
        state.streams.retain(|_, stream| live(stream) || !stream.is_finished());
        let idle = !state.standalone.as_ref().is_some_and(live);
        idle && state.streams.is_empty()
            && state.calls.is_empty()
            && state.idle_since.elapsed() >= ttl
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server's side of one open question.
struct Question<'a> {
    id: u64,
    answer: oneshot::Receiver<Reply>,
    open: OpenQuestion<'a>,
}

/// Forgets the question when nobody waits for its answer any more.
struct OpenQuestion<'a> {
    session: &'a Session,
    id: u64,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.session.lock().questions.remove(&self.id);
    }
}

/// The client's own error, passed on with its code when it has one.
fn client_error(method: &str, raw: &[u8]) -> RpcError {
    #[derive(serde::Deserialize)]
    struct Wire {
        code: i32,
        message: String,
    }
    match serde_json::from_slice::<Wire>(raw) {
        Ok(error) => RpcError::new(ErrorCode(error.code), error.message),
        Err(_) => RpcError::internal(format!("the client's answer to {method} is not valid")),
    }
}
