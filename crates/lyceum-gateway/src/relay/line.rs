//! [`Line`]: between an upstream at work and whoever waits for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

use bytes::Bytes;
use lyceum_http::client::{ClientHandler, ServerNotification, ServerRequest};
use lyceum_http::{Caller, Context};
use lyceum_wire::{LogLevel, Object, Revision, RpcError, Writer};
use tokio::sync::oneshot;

use super::{asking, tasks};
use crate::upstream::Upstream;

/// Questions of one call that wait to be put to its client.
const MAX_ASKS: usize = 32;

/// The way from an upstream's call to its client. A held call has several clients' requests, one
/// after the other, and sometimes none.
#[derive(Debug)]
pub(crate) struct Line {
    upstream: Arc<Upstream>,
    client: Mutex<Client>,
    /// Where questions go that the client is asked by `input_required`.
    asks: Option<Mutex<Asks>>,
    /// The task the call waits for, as the client knows it.
    task: Option<String>,
}

/// Whose call it is.
#[derive(Debug)]
enum Client {
    /// A request of the client's waits for it.
    Here(Context),
    /// None does at the moment.
    Gone(Caller),
}

/// Questions that wait to be put to the client. Most calls ask none, so this makes room for none.
#[derive(Debug, Default)]
struct Asks {
    waiting: VecDeque<Ask>,
    waker: Option<Waker>,
    /// Nobody will put them any more.
    is_over: bool,
}

/// A question of an upstream's that waits for its answer.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) method: String,
    pub(crate) params: Bytes,
    pub(crate) answer: oneshot::Sender<Result<Bytes, RpcError>>,
}

impl Line {
    /// A line whose client is there until the end; `task` is what it knows the task by that the
    /// call waits for.
    pub(crate) fn direct(cx: Context, upstream: &Arc<Upstream>, task: Option<String>) -> Arc<Line> {
        let (upstream, client) = (Arc::clone(upstream), Mutex::new(Client::Here(cx)));
        Arc::new(Line { upstream, client, asks: None, task })
    }

    /// A line that gathers questions.
    pub(crate) fn holding(cx: Context, upstream: &Arc<Upstream>) -> Arc<Line> {
        let (upstream, client) = (Arc::clone(upstream), Mutex::new(Client::Here(cx)));
        Arc::new(Line { upstream, client, asks: Some(Mutex::default()), task: None })
    }

    /// The next question it has gathered.
    pub(crate) fn poll_ask(&self, cx: &mut TaskContext<'_>) -> Poll<Ask> {
        let Some(asks) = &self.asks else { return Poll::Pending };
        let mut asks = lock(asks);
        if let Some(ask) = asks.waiting.pop_front() {
            return Poll::Ready(ask);
        }
        if !asks.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            asks.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Nobody takes questions any more; those that wait are not answered.
    pub(crate) fn close(&self) {
        // Dropped here and not under the lock, because that wakes those who asked.
        drop(self.asks.as_ref().map(Line::over));
    }

    /// Takes no more questions; gives back those that wait.
    fn over(asks: &Mutex<Asks>) -> VecDeque<Ask> {
        let mut asks = lock(asks);
        asks.is_over = true;
        std::mem::take(&mut asks.waiting)
    }

    fn gather(asks: &Mutex<Asks>, ask: Ask) -> Result<(), RpcError> {
        let mut asks = lock(asks);
        if asks.is_over {
            return Err(RpcError::internal("the client is gone"));
        }
        if asks.waiting.len() >= MAX_ASKS {
            return Err(RpcError::internal("too many questions at once"));
        }
        asks.waiting.push_back(ask);
        if let Some(waker) = asks.waker.take() {
            waker.wake();
        }
        Ok(())
    }

    /// Another request of the client's waits from now on.
    pub(crate) fn attach(&self, cx: Context) {
        *lock(&self.client) = Client::Here(cx);
    }

    /// No request of the client's waits any more.
    pub(crate) fn detach(&self) {
        let mut client = lock(&self.client);
        if let Client::Here(cx) = &*client {
            *client = Client::Gone(cx.caller());
        }
    }

    /// Puts a question of the upstream's to the client.
    pub(crate) async fn ask(&self, method: String, params: Bytes) -> Result<Bytes, RpcError> {
        let Some((needed, _)) = asking::needed(&method, &params) else {
            return Err(RpcError::method_not_found(&method));
        };
        if let Some(asks) = &self.asks {
            let (answer, answered) = oneshot::channel();
            let gone = |_| RpcError::internal("the client did not answer");
            Line::gather(asks, Ask { method, params, answer })?;
            return answered.await.map_err(gone)?;
        }
        let Some(client) = self.client() else {
            return Err(RpcError::internal("the client is gone"));
        };
        if !client.capabilities.has(needed) {
            let problem = format!("the client cannot answer {method}");
            return Err(RpcError::invalid_request(problem));
        }
        let mut params = asking::legacy(&method, &params);
        if let Some(task) = &self.task {
            params = tasks::related(&params, task);
        }
        client.ask(&method, &params).await
    }

    fn client(&self) -> Option<Context> {
        match &*lock(&self.client) {
            Client::Here(cx) => Some(cx.clone()),
            Client::Gone(_) => None,
        }
    }

    fn caller(&self) -> Caller {
        match &*lock(&self.client) {
            Client::Here(cx) => cx.caller(),
            Client::Gone(caller) => caller.clone(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers and hears the upstream on behalf of the client.
impl ClientHandler for Line {
    async fn request(&self, request: ServerRequest) -> Result<Bytes, RpcError> {
        self.ask(request.method, request.params.unwrap_or_default()).await
    }

    async fn notification(&self, notification: ServerNotification) {
        let (method, params) = (notification.method.as_str(), notification.params);
        let told: fn(&Bytes, &Context) -> Option<Bytes> = match method {
            "notifications/progress" => progress,
            "notifications/message" => |raw, client| is_wanted(raw, client).then(|| raw.clone()),
            "notifications/elicitation/complete" => {
                |raw, client| (client.revision == Revision::V2025_11_25).then(|| raw.clone())
            }
            // Some servers tell of changes on the stream of whatever call is under way.
            _ => return self.upstream.hear(method, params.as_deref(), &self.caller()),
        };
        let (Some(client), Some(params)) = (self.client(), params) else { return };
        if let Some(params) = told(&params, &client) {
            client.notify(method, &params).await;
        }
    }
}

/// Progress with the client's own token.
fn progress(raw: &Bytes, client: &Context) -> Option<Bytes> {
    let token = client.progress_token.as_ref()?;
    let mut out = Writer::new();
    for (name, value) in Object::parse(raw).ok()?.iter() {
        match name {
            "progressToken" => out.raw(name, token),
            _ => out.raw(name, value),
        }
    }
    Some(out.finish())
}

/// Whether a log message matters enough to the client.
fn is_wanted(raw: &Bytes, client: &Context) -> bool {
    let level = Object::parse(raw).ok().and_then(|params| params.text("level"));
    let level = level.as_deref().and_then(LogLevel::parse);
    matches!((level, client.log_level), (Some(level), Some(least)) if level >= least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_gathered_as_long_as_somebody_takes_them() {
        let asks = Mutex::default();
        let ask = || {
            let (answer, answered) = oneshot::channel();
            let ask = Ask { method: "ping".to_owned(), params: Bytes::new(), answer };
            (Line::gather(&asks, ask), answered)
        };
        let mut waiting: Vec<_> = (0..MAX_ASKS).map(|_| ask()).collect();
        assert!(waiting.iter().all(|(gathered, _)| gathered.is_ok()));
        assert_eq!(ask().0.unwrap_err().message, "too many questions at once");
        drop(Line::over(&asks));
        assert!(waiting.remove(0).1.try_recv().is_err(), "it will not be answered");
        assert_eq!(ask().0.unwrap_err().message, "the client is gone");
    }
}
