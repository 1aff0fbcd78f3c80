//! [`Bridge`]: tasks of an upstream for clients of the other era.
//!
//! | | 2025-11-25 upstream | modern upstream |
//! |---|---|---|
//! | **2025-11-25 client** | passed on | `tasks/result` looks at the task until it is over, and puts its questions to the client |
//! | **modern client** | `tasks/get` fetches the result with the status; questions are what waiting for the result brings | passed on |

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use lyceum_http::Context;
use lyceum_http::client::{CallOptions, CallParams, ClientError};
use lyceum_wire::{
    ClientCapabilities, Era, ErrorCode, Member, Object, Request, Revision, RpcError, Writer,
};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::followed::Key;
use super::shape::{self, Detail};
use super::{RESULT, TaskRef, id_in, renamed, task_id, with_own_result};
use crate::door::Door;
use crate::relay::held::{Calling, HeldCall, Step};
use crate::relay::line::Line;
use crate::relay::params::with_member;
use crate::relay::result::{Shape, passed_back};
use crate::relay::{asking, caller, error};
use crate::upstream::Connection;

/// How long a task that wants input may take to say which.
const ASKING: Duration = Duration::from_secs(1);

/// A task, whoever has it, and whoever asks about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bridge<'a> {
    pub(crate) door: &'a Door,
    pub(crate) task: &'a TaskRef,
    pub(crate) connection: &'a Arc<Connection>,
    pub(crate) cx: &'a Context,
}

/// A result, or the error that stands in its place.
pub(crate) type Ending = Result<Bytes, RpcError>;

/// How a task is, in the words of the client's era and without an answer around it.
pub(crate) async fn look(door: &Door, task: &TaskRef, cx: &Context) -> Ending {
    let unavailable = |why: crate::upstream::Unavailable| {
        why.unknown_task().unwrap_or_else(|| RpcError::internal(why.to_string()))
    };
    let connection = task.upstream.connection_number(task.connection, cx).await;
    let connection = connection.map_err(unavailable)?;
    let looked = Bridge { door, task, connection: &connection, cx }.look().await;
    task.upstream.learn(&connection, looked.as_ref().map(|_| ()));
    looked.map_err(|error| match error {
        ClientError::Rpc(error) => error,
        error => RpcError::internal(crate::upstream::describe(&error)),
    })
}

/// Whether a modern upstream refuses a call because it would have to be followed as a task.
pub(crate) fn wants_extension(error: &ClientError) -> bool {
    let ClientError::Rpc(error) = error else { return false };
    let data = error.data.clone().unwrap_or_default();
    let required = Object::parse(&data).ok().and_then(|data| data.get("requiredCapabilities"));
    let required = required.and_then(|raw| ClientCapabilities::parse(raw.as_bytes()));
    error.code == ErrorCode::MISSING_CLIENT_CAPABILITY
        && required.is_some_and(|needs| needs.has(ClientCapabilities::TASKS_EXTENSION))
}

impl Bridge<'_> {
    /// Answers a request about the task, which is of the other era than the client.
    pub(crate) async fn answer(&self, request: &Request) -> Result<Ending, ClientError> {
        let is_modern = self.cx.era() == Era::Modern;
        if is_modern && !self.cx.capabilities.has(ClientCapabilities::TASKS_EXTENSION) {
            let required = asking::capabilities(ClientCapabilities::TASKS_EXTENSION);
            return Ok(Err(RpcError::missing_capability(&required)));
        }
        match request.method.as_str() {
            "tasks/get" => self.look().await.map(Ok),
            "tasks/update" if is_modern => self.update(request).await,
            "tasks/cancel" if is_modern => self.acknowledge_cancel().await,
            "tasks/cancel" if self.knows_tasks() => self.cancel().await,
            "tasks/result" if self.knows_tasks() => {
                let (cx, public) = (self.cx.clone(), self.task.public.clone());
                let line = Line::direct(cx, &self.task.upstream, Some(public));
                self.result(&line).await
            }
            method => Ok(Err(RpcError::method_not_found(method))),
        }
    }

    fn knows_tasks(&self) -> bool {
        self.cx.revision == Revision::V2025_11_25
    }

    /// How the task is, in the words of the client's era.
    async fn look(&self) -> Result<Bytes, ClientError> {
        let public = &self.task.public;
        match (self.cx.era(), self.connection.era) {
            (Era::Legacy, Era::Legacy) => Ok(renamed(&self.call("tasks/get").await?, public)),
            (Era::Legacy, Era::Modern) => {
                Ok(shape::to_core(&self.call("tasks/get").await?, public))
            }
            (Era::Modern, Era::Legacy) => self.extension().await,
            (Era::Modern, Era::Modern) => {
                let task = renamed(&self.call("tasks/get").await?, public);
                Ok(shape::bare(&with_own_result(&task, &self.shape())))
            }
        }
    }

    /// A task of a legacy upstream, with what the extension says besides its status.
    async fn extension(&self) -> Result<Bytes, ClientError> {
        let mut core = self.call("tasks/get").await?;
        let mut detail = self.detail(&core).await?;
        if detail.is_none() {
            // It ended while we looked.
            core = self.call("tasks/get").await?;
            detail = self.detail(&core).await?;
        }
        let detail = detail.unwrap_or(Detail::Nothing);
        Ok(shape::to_extension(&core, &self.task.public, &detail).finish())
    }

    async fn detail(&self, core: &Bytes) -> Result<Option<Detail>, ClientError> {
        match shape::status_of(core).as_str() {
            "completed" | "failed" => {
                self.door.gateway.followed().end(&self.key());
                self.ending().await.map(Some)
            }
            "input_required" => self.questions().await,
            _ => Ok(Some(Detail::Nothing)),
        }
    }

    async fn ending(&self) -> Result<Detail, ClientError> {
        match self.call("tasks/result").await {
            Ok(result) => Ok(Detail::Result(passed_back(&result, &self.shape()))),
            Err(ClientError::Rpc(error)) => {
                let uris = self.task.upstream.uris();
                let (client, upstream) = (self.cx.era(), self.connection.era);
                let error = error::passed_back(error, "tools/call", None, client, upstream, uris);
                Ok(Detail::Error(error))
            }
            Err(error) => Err(error),
        }
    }

    /// What the task asks; None if it is over.
    async fn questions(&self) -> Result<Option<Detail>, ClientError> {
        let (followed, key) = (self.door.gateway.followed(), self.key());
        let follower = followed.follow(&key, self.cx, || self.follow());
        let follower = follower.map_err(ClientError::Rpc)?;
        let mut call = follower.lock().await;
        // Whoever looked just before may have seen it end.
        if !followed.has(&key, &follower) {
            return Ok(None);
        }
        match timeout(ASKING, call.step()).await {
            Ok(Step::Ended(_)) => {
                followed.end(&key);
                Ok(None)
            }
            Ok(Step::Asked) => {
                // The upstream is told what this client cannot be asked, and goes on.
                while call.missing_capability(self.cx.capabilities).is_err() {}
                let requests = call.requests();
                let is_asked = !requests.is_empty();
                Ok(Some(if is_asked { Detail::Asks(requests) } else { Detail::Nothing }))
            }
            Err(_) => Ok(Some(Detail::Nothing)),
        }
    }

    /// Waits for the result in the background, and gathers what the task asks.
    fn follow(&self) -> HeldCall {
        let line = Line::holding(self.cx.clone(), &self.task.upstream);
        let options = self.options().shared_handler(Arc::clone(&line)).silence(RESULT);
        let (connection, params) = (Arc::clone(self.connection), self.task.params());
        let in_use = connection.enter();
        let held_on = Arc::clone(&connection);
        let calling: Calling = Box::pin(async move {
            let _in_use = in_use;
            connection.peer.call_with("tasks/result", params, &options).await
        });
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut call = HeldCall::new(calling, line, held_on)
            .numbered_from(usize::try_from(now.as_millis()).unwrap_or_default());
        call.detach();
        call
    }

    /// Takes a modern client's answers to what a legacy upstream's task asked.
    async fn update(&self, request: &Request) -> Result<Ending, ClientError> {
        let responses = request.params.get(Member::InputResponses).unwrap_or_default();
        let Some(responses) = Object::parse(responses).ok().filter(|_| !responses.is_empty())
        else {
            return Ok(Err(RpcError::invalid_params("inputResponses must be an object")));
        };
        match self.door.gateway.followed().get(&self.key()) {
            Some(follower) => follower.lock().await.answer(&responses),
            // Answers to what was not asked are nobody's, but the task must exist.
            None => drop(self.call("tasks/get").await?),
        }
        Ok(Ok(Bytes::from_static(b"{}")))
    }

    /// Cancels for a modern client, to whom it makes no difference if the task is over.
    async fn acknowledge_cancel(&self) -> Result<Ending, ClientError> {
        self.door.gateway.followed().end(&self.key());
        if let Err(error) = self.call("tasks/cancel").await {
            let is_over = match error.rpc().map(|error| error.code) {
                Some(ErrorCode::INVALID_PARAMS) => {
                    shape::is_over(&shape::status_of(&self.call("tasks/get").await?))
                }
                _ => false,
            };
            if !is_over {
                return Err(error);
            }
        }
        Ok(Ok(Bytes::from_static(b"{}")))
    }

    /// Cancels for a legacy client, who wants to see the task, and may not cancel what is over.
    async fn cancel(&self) -> Result<Ending, ClientError> {
        let before = self.look().await?;
        if shape::is_over(&shape::status_of(&before)) {
            return Ok(Err(RpcError::invalid_params("Cannot cancel a task that has ended")));
        }
        self.call("tasks/cancel").await?;
        self.look().await.map(Ok)
    }

    /// Looks at a modern upstream's task until it is over, and puts its questions to the client.
    async fn result(&self, line: &Arc<Line>) -> Result<Ending, ClientError> {
        let mut answered = HashSet::new();
        loop {
            let task = self.call("tasks/get").await?;
            let members = Object::parse(&task).unwrap_or_default();
            let member = |name: &str| members.get(name).unwrap_or_default().as_bytes();
            match shape::status_of(&task).as_str() {
                "completed" => {
                    let nothing = || RpcError::internal("the task ended without a result");
                    let result =
                        members.get("result").map(|raw| Bytes::copy_from_slice(raw.as_bytes()));
                    return Ok(result.ok_or_else(nothing));
                }
                "failed" => {
                    let unclear = || RpcError::internal("the task failed and does not say why");
                    return Ok(Err(RpcError::parse(member("error")).unwrap_or_else(unclear)));
                }
                "cancelled" => return Ok(Err(RpcError::internal("The task was cancelled"))),
                "input_required" => {
                    let asked = Object::parse(member("inputRequests")).unwrap_or_default();
                    if let Err(refused) = self.put(&asked, &mut answered, line).await? {
                        // Without an answer the task would wait for ever.
                        self.call("tasks/cancel").await?;
                        return Ok(Err(refused));
                    }
                }
                _ => {}
            }
            let pause = shape::pause(&task);
            self.task.upstream.task_changed(&self.task.own, pause).await;
        }
    }

    /// Sees a task of any upstream's to its end, on behalf of a client that does not know of it.
    /// What it asks goes over the line, which `options` name too.
    pub(crate) async fn awaited(
        &self,
        line: &Arc<Line>,
        options: CallOptions,
    ) -> Result<Ending, ClientError> {
        let unwatched = Unwatched::new(self);
        let (peer, options) = (&self.connection.peer, options.silence(RESULT));
        let ended = match self.connection.era {
            Era::Modern => self.result(line).await,
            Era::Legacy => {
                peer.call_with("tasks/result", self.task.params(), &options).await.map(Ok)
            }
        };
        unwatched.over();
        ended
    }

    /// Puts what a task asks to a legacy client, one by one.
    async fn put(
        &self,
        asked: &Object<'_>,
        answered: &mut HashSet<String>,
        line: &Arc<Line>,
    ) -> Result<Result<(), RpcError>, ClientError> {
        let mut responses = Writer::new();
        let before = answered.len();
        for (key, request) in asked.iter() {
            if !answered.insert(key.to_owned()) {
                continue;
            }
            let request = Object::parse(request.as_bytes()).unwrap_or_default();
            let params = request.get("params").unwrap_or_default().as_bytes();
            let method = request.text("method").unwrap_or_default();
            match line.ask(method, Bytes::copy_from_slice(params)).await {
                Ok(answer) => responses.raw(key, answer),
                Err(error) => return Ok(Err(error)),
            }
        }
        if answered.len() > before {
            let params = with_member(&self.task.params(), "inputResponses", &responses.finish());
            let peer = &self.connection.peer;
            peer.call_with("tasks/update", params, &self.options()).await?;
        }
        Ok(Ok(()))
    }

    async fn call(&self, method: &str) -> Result<Bytes, ClientError> {
        let peer = &self.connection.peer;
        peer.call_with(method, self.task.params(), &self.options()).await
    }

    fn options(&self) -> CallOptions {
        let options = CallOptions::new().silence(self.task.upstream.config.call_timeout);
        let mut options = options.charge_to(self.cx.caller_id());
        if let Some(caller) = caller(self.cx) {
            options = options.caller(caller);
        }
        match self.connection.era {
            Era::Legacy => options,
            Era::Modern => {
                let has = self.cx.capabilities | ClientCapabilities::TASKS_EXTENSION;
                options.capabilities(asking::capabilities(has))
            }
        }
    }

    fn shape(&self) -> Shape<'_> {
        Shape {
            method: "tools/call",
            client: self.cx.era(),
            upstream: self.connection.era,
            uris: self.task.upstream.uris(),
            info: self.door.server().brief_info(),
        }
    }

    fn key(&self) -> Key {
        (self.connection.number, self.task.own.clone())
    }
}

/// Makes a call that starts a task its client will not know of. If the client leaves before the task
/// has a name, the task is cancelled once it has one.
pub(crate) async fn start(
    connection: &Arc<Connection>,
    method: String,
    params: CallParams<'static>,
    options: &CallOptions,
) -> Result<Bytes, ClientError> {
    let (tell, told) = oneshot::channel();
    let (connection, options) = (Arc::clone(connection), options.clone());
    tokio::spawn(async move {
        let started = connection.peer.call_params(&method, &params, &options).await;
        let Err(Ok(unheard)) = tell.send(started) else { return };
        if let Some(own) = id_in(&unheard) {
            // It may be over by now.
            let _ = connection.peer.call_with("tasks/cancel", task_id(&own), &options).await;
        }
    });
    told.await.unwrap_or(Err(ClientError::Interrupted))
}

/// A task its client does not know of. It is cancelled unless it is seen to its end.
#[derive(Debug)]
struct Unwatched {
    connection: Arc<Connection>,
    params: Bytes,
    options: CallOptions,
    is_over: bool,
}

impl Unwatched {
    fn new(bridge: &Bridge<'_>) -> Unwatched {
        let (connection, params) = (Arc::clone(bridge.connection), bridge.task.params());
        Unwatched { connection, params, options: bridge.options(), is_over: false }
    }

    fn over(mut self) {
        self.is_over = true;
    }
}

impl Drop for Unwatched {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_over {
            return;
        }
        let connection = Arc::clone(&self.connection);
        let (params, options) = (self.params.clone(), self.options.clone());
        runtime.spawn(async move {
            // It may be over by now.
            let _ = connection.peer.call_with("tasks/cancel", params, &options).await;
        });
    }
}
