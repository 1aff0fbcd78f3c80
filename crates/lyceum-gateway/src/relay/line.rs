//! [`Line`]: between an upstream at work and whoever waits for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use lyceum_http::Context;
use lyceum_http::client::{ClientHandler, ServerNotification, ServerRequest};
use lyceum_wire::{Era, LogLevel, Object, Revision, RpcError, Writer};
use tokio::sync::{mpsc, oneshot};

use super::{asking, tasks};
use crate::upstream::Upstream;

/// Questions of one call that wait to be put to its client.
const MAX_ASKS: usize = 32;

/// The way from an upstream's call to its client. A held call has several clients' requests, one
/// after the other, and sometimes none.
#[derive(Debug)]
pub(crate) struct Line {
    upstream: Arc<Upstream>,
    client: Mutex<Option<Context>>,
    /// Where questions go that the client is asked by `input_required`.
    asks: Option<mpsc::Sender<Ask>>,
    /// The task the call waits for, as the client knows it.
    task: Option<String>,
}

/// A question of an upstream's that waits for its answer.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) method: String,
    pub(crate) params: Bytes,
    pub(crate) answer: oneshot::Sender<Result<Bytes, RpcError>>,
}

/// Answers and hears an upstream on behalf of a client.
#[derive(Debug, Clone)]
pub(crate) struct Relaying(pub(crate) Arc<Line>);

impl Line {
    /// A line whose client is there until the end; `task` is what it knows the task by that the
    /// call waits for.
    pub(crate) fn direct(cx: Context, upstream: &Arc<Upstream>, task: Option<String>) -> Arc<Line> {
        let (upstream, client) = (Arc::clone(upstream), Mutex::new(Some(cx)));
        Arc::new(Line { upstream, client, asks: None, task })
    }

    /// A line that gathers questions.
    pub(crate) fn holding(
        cx: Context,
        upstream: &Arc<Upstream>,
    ) -> (Arc<Line>, mpsc::Receiver<Ask>) {
        let (asks, asked) = mpsc::channel(MAX_ASKS);
        let (upstream, client) = (Arc::clone(upstream), Mutex::new(Some(cx)));
        (Arc::new(Line { upstream, client, asks: Some(asks), task: None }), asked)
    }

    /// Another request of the client's waits from now on, or none.
    pub(crate) fn attach(&self, cx: Option<Context>) {
        *self.lock() = cx;
    }

    /// Puts a question of the upstream's to the client.
    pub(crate) async fn ask(&self, method: String, params: Bytes) -> Result<Bytes, RpcError> {
        let Some((needed, _)) = asking::needed(&method, &params) else {
            return Err(RpcError::method_not_found(&method));
        };
        if let Some(asks) = &self.asks {
            let (answer, answered) = oneshot::channel();
            let gone = |_| RpcError::internal("the client did not answer");
            let ask = Ask { method, params, answer };
            asks.send(ask).await.map_err(|_| RpcError::internal("the client is gone"))?;
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
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Context>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientHandler for Relaying {
    async fn request(&self, request: ServerRequest) -> Result<Bytes, RpcError> {
        self.0.ask(request.method, request.params.unwrap_or_default()).await
    }

    async fn notification(&self, notification: ServerNotification) {
        let (method, params) = (notification.method.as_str(), notification.params);
        let Some(client) = self.0.client() else { return };
        let params = match method {
            "notifications/progress" => params.and_then(|raw| progress(&raw, &client)),
            "notifications/message" => params.filter(|raw| is_wanted(raw, &client)),
            "notifications/elicitation/complete" => {
                params.filter(|_| client.revision == Revision::V2025_11_25)
            }
            _ => {
                // Some servers tell of changes on the stream of whatever call is under way.
                self.0.upstream.hear(method, params.as_deref());
                None
            }
        };
        if let Some(params) = params {
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
    // A legacy client that never said anything takes what comes.
    let least = client.log_level.or((client.era() == Era::Legacy).then_some(LogLevel::Debug));
    matches!((level, least), (Some(level), Some(least)) if level >= least)
}
