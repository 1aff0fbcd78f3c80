//! [`Held`]: calls of legacy upstreams that wait until a modern client has answered a question.
//!
//! A modern client is asked by ending its request; the upstream's call goes on meanwhile. The client
//! comes back with a sealed handle. Held calls are few, and none is held for ever.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use lyceum_http::client::ClientError;
use lyceum_http::{Context, random};
use lyceum_wire::{ClientCapabilities, Object, RpcError};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep, sleep_until};

use super::line::{Ask, Line};
use super::{asking, caller};
use crate::upstream::{Connection, Holding, Upstream};

/// How long a call may wait for its client, from its first question on and in all its rounds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// How long to wait for a further question before the client is asked.
const GATHER: Duration = Duration::from_millis(20);
/// Calls held at once, by everybody and by one client.
pub(crate) const MAX_HELD: usize = 1024;
pub(crate) const MAX_HELD_BY_CALLER: usize = 64;

/// A call under way.
pub(crate) type Calling = Pin<Box<dyn Future<Output = Result<Bytes, ClientError>> + Send>>;

/// The calls that wait.
#[derive(Debug, Default)]
pub(crate) struct Held(Mutex<HashMap<u128, Waiting>>);

#[derive(Debug)]
struct Waiting {
    call: HeldCall,
    /// Whose it is, if anybody's.
    caller: Option<u128>,
    /// Forgets the call when the client takes too long.
    timer: AbortHandle,
}

/// A call that may have to wait.
pub(crate) struct HeldCall {
    running: Running,
    /// Questions that are open, by the key the client knows them by.
    open: Vec<(String, Ask)>,
    n_asked: usize,
    line: Arc<Line>,
    connection: Arc<Connection>,
    /// While it waits, or has waited, for its client.
    holding: Option<Holding>,
    /// When it has waited long enough, once it has waited at all.
    deadline: Option<Instant>,
}

enum Running {
    /// Driven by the client's request. Dropping it cancels the call.
    Inline(Calling),
    /// Driven by a task of its own, while nobody waits.
    Alone(Alone),
}

/// A task that ends with its owner.
struct Alone(JoinHandle<Result<Bytes, ClientError>>);

/// What happened next.
pub(crate) enum Step {
    Ended(Result<Bytes, ClientError>),
    /// There are open questions.
    Asked,
}

impl HeldCall {
    pub(crate) fn new(calling: Calling, line: Arc<Line>, connection: Arc<Connection>) -> HeldCall {
        let (running, open) = (Running::Inline(calling), Vec::new());
        HeldCall { running, open, n_asked: 0, line, connection, holding: None, deadline: None }
    }

    /// Numbers its questions from here on, so that no key is used twice where several calls ask on
    /// behalf of one task.
    pub(crate) fn numbered_from(mut self, n_asked: usize) -> HeldCall {
        self.n_asked = n_asked;
        self
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Goes on until the call ends or asks something.
    pub(crate) async fn step(&mut self) -> Step {
        loop {
            let gathering = !self.open.is_empty();
            tokio::select! {
                biased;
                ended = self.running.ended() => return Step::Ended(ended),
                ask = poll_fn(|cx| self.line.poll_ask(cx)) => self.put(ask),
                // Questions that are asked together arrive one by one. In a block, because a timer
                // would be made even where none is waited for.
                () = async { Box::pin(sleep(GATHER)).await }, if gathering => return Step::Asked,
            }
        }
    }

    fn put(&mut self, ask: Ask) {
        self.n_asked += 1;
        let kind = ask.method.split('/').next().unwrap_or_default();
        self.open.push((format!("{kind}-{}", self.n_asked), ask));
    }

    /// Says no to what the client cannot be asked. There is no use in going on then.
    pub(crate) fn missing_capability(&mut self, has: ClientCapabilities) -> Result<(), RpcError> {
        let lacks = |ask: &Ask| {
            let needed = asking::needed(&ask.method, &ask.params);
            needed.filter(|(bits, _)| !has.has(*bits)).map(|(_, required)| required)
        };
        let Some(place) = self.open.iter().position(|(_, ask)| lacks(ask).is_some()) else {
            return Ok(());
        };
        let (_, ask) = self.open.swap_remove(place);
        let missing = RpcError::missing_capability(lacks(&ask).unwrap_or(b"{}"));
        let problem = format!("the client cannot answer {}", ask.method);
        // The upstream may be gone.
        let _ = ask.answer.send(Err(RpcError::invalid_request(problem)));
        Err(missing)
    }

    /// The open questions as `inputRequests`.
    pub(crate) fn requests(&self) -> Vec<(String, Bytes)> {
        let requests = self.open.iter();
        requests.map(|(key, ask)| (key.clone(), asking::modern(&ask.method, &ask.params))).collect()
    }

    /// Hands the client's answers to the upstream. Questions without one stay open.
    pub(crate) fn answer(&mut self, responses: &Object<'_>) {
        let open = std::mem::take(&mut self.open);
        for (key, ask) in open {
            match responses.get(&key).filter(|answer| answer.starts_with('{')) {
                // The upstream may be gone; its call says so.
                Some(answer) => {
                    drop(ask.answer.send(Ok(Bytes::copy_from_slice(answer.as_bytes()))))
                }
                None => self.open.push((key, ask)),
            }
        }
    }

    /// A request of the client's waits for it again.
    pub(crate) fn attach(&self, cx: Context) {
        self.line.attach(cx);
    }

    /// Lets it run by itself.
    pub(crate) fn detach(&mut self) {
        self.line.detach();
        self.holding.get_or_insert_with(|| self.connection.hold());
        if let Running::Inline(calling) = &mut self.running {
            let calling = std::mem::replace(calling, Box::pin(std::future::pending()));
            self.running = Running::Alone(Alone(tokio::spawn(calling)));
        }
    }
}

impl Drop for HeldCall {
    fn drop(&mut self) {
        self.line.close();
    }
}

impl Running {
    async fn ended(&mut self) -> Result<Bytes, ClientError> {
        match self {
            Running::Inline(calling) => calling.await,
            Running::Alone(Alone(task)) => match task.await {
                Ok(ended) => ended,
                Err(panic) => Err(ClientError::Broken(panic.into())),
            },
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Held {
    /// Keeps a call until its client comes back with the handle.
    pub(crate) fn keep(
        self: &Arc<Self>,
        mut call: HeldCall,
        upstream: &Upstream,
        cx: &Context,
    ) -> Result<u128, RpcError> {
        let caller = caller(cx);
        let mut held = self.lock();
        let is_theirs = |waiting: &&Waiting| caller.is_some() && waiting.caller == caller;
        let of_caller = held.values().filter(is_theirs).count();
        if held.len() >= MAX_HELD || of_caller >= MAX_HELD_BY_CALLER {
            let problem =
                "too many calls wait for their client's answers; answer or drop some first";
            return Err(RpcError::internal(problem));
        }
        // Calls begin to wait under this lock only, so no two of them take the last place.
        if !upstream.may_wait_on(&call.connection, &cx.caller()) {
            return Err(RpcError::internal(format!(
                "as many calls of {} wait for their clients' answers as may; \
                 try again later, or have its max_connections raised",
                upstream.config.name
            )));
        }
        call.detach();
        let deadline = *call.deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
        if deadline <= Instant::now() {
            return Err(RpcError::internal(
                "the call has waited too long for its client's answers; make it again",
            ));
        }
        let id = u128::from_be_bytes(random());
        let this = Arc::downgrade(self);
        let timer = tokio::spawn(forget(this, id, deadline)).abort_handle();
        held.insert(id, Waiting { call, caller, timer });
        Ok(id)
    }

    /// The call behind a handle, if it still waits.
    pub(crate) fn take(&self, id: u128) -> Option<HeldCall> {
        let waiting = self.lock().remove(&id)?;
        waiting.timer.abort();
        Some(waiting.call)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u128, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn forget(held: Weak<Held>, id: u128, deadline: Instant) {
    sleep_until(deadline).await;
    if let Some(held) = held.upgrade() {
        let forgotten = held.lock().remove(&id);
        drop(forgotten);
    }
}

impl std::fmt::Debug for HeldCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldCall").field("open", &self.open.len()).finish_non_exhaustive()
    }
}
