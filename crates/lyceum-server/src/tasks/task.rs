//! One task: its status, the questions it waits for, its ending.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use lyceum_http::random;
use lyceum_wire::RpcError;
use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::store::Owner;
use super::timestamp::iso8601;
use crate::ask::Ask;
use crate::json::Object;

/// How long clients should wait between looks at a task.
const POLL_INTERVAL_MS: u64 = 500;
/// Questions one task may have open.
const MAX_INPUTS: usize = 64;

/// A call that goes on in the background.
#[derive(Debug)]
pub(crate) struct Task {
    id: String,
    number: u64,
    owner: Owner,
    created: SystemTime,
    expires: Instant,
    ttl: Duration,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    message: Option<String>,
    updated: SystemTime,
    inputs: BTreeMap<String, Input>,
    /// Keys of all questions ever asked: none is used twice.
    keys: HashSet<String>,
    ending: Option<Ending>,
    running: Option<AbortHandle>,
}

/// How a task ended.
#[derive(Debug, Clone)]
pub(crate) enum Ending {
    /// With a result, which may tell of a failure.
    Result { result: Bytes, failed: bool },
    /// With a JSON-RPC error.
    Error(RpcError),
    /// By the client's wish.
    Cancelled,
}

#[derive(Debug)]
struct Input {
    ask: Ask,
    answer: oneshot::Sender<Result<Box<RawValue>, RpcError>>,
    claimed: bool,
}

/// A question that one caller has undertaken to put to the client.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    task: &'a Task,
    key: String,
    pub(crate) ask: Ask,
}

/// Which names a task's members have: the extension renamed two.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Naming {
    Core,
    Extension,
}

/// Takes a question back when nobody waits for it any more.
struct Asking<'a> {
    task: &'a Task,
    key: &'a str,
}

impl Task {
    pub(super) fn new(owner: Owner, ttl: Duration, number: u64) -> Self {
        let id: [u8; 16] = random();
        let created = SystemTime::now();
        let state = State {
            message: None,
            updated: created,
            inputs: BTreeMap::new(),
            keys: HashSet::new(),
            ending: None,
            running: None,
        };
        Self {
            id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
            number,
            owner,
            created,
            expires: Instant::now() + ttl,
            ttl,
            state: Mutex::new(state),
            changed: watch::Sender::new(()),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn owner(&self) -> &Owner {
        &self.owner
    }

    pub(super) fn is_expired(&self) -> bool {
        Instant::now() >= self.expires
    }

    /// Notices every change from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(crate) fn ending(&self) -> Option<Ending> {
        self.lock().ending.clone()
    }

    /// Remembers how to stop the work.
    pub(crate) fn started(&self, running: AbortHandle) {
        let mut state = self.lock();
        if state.ending.is_some() {
            running.abort();
        } else {
            state.running = Some(running);
        }
    }

    /// Stops the work, whatever its state.
    pub(super) fn stop(&self) {
        if let Some(running) = self.lock().running.take() {
            running.abort();
        }
    }

    /// Ends the task, unless it has ended; returns whether it did.
    pub(crate) fn end(&self, ending: Ending, message: Option<String>) -> bool {
        let mut state = self.lock();
        if state.ending.is_some() {
            return false;
        }
        state.ending = Some(ending);
        state.message = message;
        state.inputs.clear();
        let running = state.running.take();
        self.touch(state);
        if let Some(running) = running {
            running.abort();
        }
        true
    }

    /// Says in words how the work goes.
    pub(crate) fn describe(&self, message: &str) {
        let mut state = self.lock();
        if state.ending.is_none() {
            state.message = Some(message.to_owned());
            self.touch(state);
        }
    }

    /// Asks the client through whichever way it looks at the task. `asked` is called once the
    /// question can be seen.
    pub(crate) async fn ask(
        &self,
        ask: Ask,
        asked: impl FnOnce(),
    ) -> Result<Box<RawValue>, RpcError> {
        let (sender, answer) = oneshot::channel();
        let key = {
            let mut state = self.lock();
            if state.inputs.len() >= MAX_INPUTS {
                return Err(RpcError::internal("the task asks too much at once"));
            }
            let key = state.new_key(ask.key());
            state.inputs.insert(key.clone(), Input { ask, answer: sender, claimed: false });
            self.touch(state);
            key
        };
        asked();
        let _asking = Asking { task: self, key: &key };
        answer.await.unwrap_or_else(|_| Err(RpcError::internal("the task has ended")))
    }

    /// Delivers an answer; `false` when nothing like it was asked.
    pub(crate) fn answer(&self, key: &str, answer: Box<RawValue>) -> bool {
        let mut state = self.lock();
        if !state.inputs.get(key).is_some_and(|input| input.ask.accepts(&answer)) {
            return false;
        }
        let input = state.inputs.remove(key);
        self.touch(state);
        input.is_some_and(|input| input.answer.send(Ok(answer)).is_ok())
    }

    /// A question nobody has put to the client yet.
    pub(crate) fn claim(&self) -> Option<Claim<'_>> {
        let mut state = self.lock();
        let (key, input) = state.inputs.iter_mut().find(|(_, input)| !input.claimed)?;
        input.claimed = true;
        Some(Claim { task: self, key: key.clone(), ask: input.ask.clone() })
    }

    /// Writes id, status and times.
    pub(crate) fn write(&self, naming: Naming, out: &mut Object<'_>) {
        let state = self.lock();
        let (ttl, poll) = match naming {
            Naming::Core => ("ttl", "pollInterval"),
            Naming::Extension => ("ttlMs", "pollIntervalMs"),
        };
        out.field("taskId", &self.id)
            .field("status", state.status(naming))
            .optional("statusMessage", state.message.as_ref())
            .field("createdAt", &iso8601(self.created))
            .field("lastUpdatedAt", &iso8601(state.updated))
            .field(ttl, &u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX))
            .field(poll, &POLL_INTERVAL_MS);
    }

    /// Writes what the extension shows besides: the ending, or what is waited for.
    pub(crate) fn write_details(&self, out: &mut Object<'_>) {
        let state = self.lock();
        match &state.ending {
            Some(Ending::Result { result, .. }) => drop(out.raw("result", result)),
            Some(Ending::Error(error)) => {
                let mut object = Object::open(out.member("error"));
                object.field("code", &error.code.0).field("message", &error.message);
                if let Some(data) = &error.data {
                    object.raw("data", data);
                }
                object.close();
            }
            Some(Ending::Cancelled) => {}
            None if state.inputs.is_empty() => {}
            None => {
                let mut requests = Object::open(out.member("inputRequests"));
                for (key, input) in &state.inputs {
                    input.ask.write(requests.member(key));
                }
                requests.close();
            }
        }
    }

    /// Notes a change and lets go of the lock before anybody is told.
    fn touch(&self, mut state: MutexGuard<'_, State>) {
        state.updated = SystemTime::now();
        drop(state);
        self.changed.send_replace(());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// 2025-11-25 counts a result that tells of a failure as failed, the extension does not.
    fn status(&self, naming: Naming) -> &'static str {
        match (&self.ending, naming) {
            (Some(Ending::Result { failed: true, .. }), Naming::Core) => "failed",
            (Some(Ending::Result { .. }), _) => "completed",
            (Some(Ending::Error(_)), _) => "failed",
            (Some(Ending::Cancelled), _) => "cancelled",
            (None, _) if self.inputs.is_empty() => "working",
            (None, _) => "input_required",
        }
    }

    fn new_key(&mut self, wanted: &str) -> String {
        let numbered = (2..).map(|n| format!("{wanted}-{n}"));
        let mut keys = std::iter::once(wanted.to_owned()).chain(numbered);
        let key = keys.find(|key| !self.keys.contains(key)).expect("numbers do not run out");
        self.keys.insert(key.clone());
        key
    }
}

impl Claim<'_> {
    /// Delivers what the client said.
    pub(crate) fn answered(self, answer: Result<Box<RawValue>, RpcError>) {
        let delivered = answer.map(|answer| self.task.answer(&self.key, answer));
        match delivered {
            Ok(true) => {}
            Ok(false) => self.fail(RpcError::internal("the client's answer is not valid")),
            Err(error) => self.fail(error),
        }
    }

    fn fail(&self, error: RpcError) {
        let mut state = self.task.lock();
        if let Some(input) = state.inputs.remove(&self.key) {
            self.task.touch(state);
            // Nobody listening any more is as good as told.
            let _ = input.answer.send(Err(error));
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.task.lock();
        if let Some(input) = state.inputs.get_mut(&self.key) {
            input.claimed = false;
            self.task.touch(state);
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut state = self.task.lock();
        if state.inputs.remove(self.key).is_some() {
            self.task.touch(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Asked<'a> = Pin<Box<dyn Future<Output = Result<Box<RawValue>, RpcError>> + 'a>>;

    fn task() -> Task {
        let owner = Owner { endpoint: "/mcp".into(), principal: None, session: None };
        Task::new(owner, Duration::from_secs(60), 1)
    }

    /// Asks, and lets the question be seen; `None` when there is no answer yet.
    fn asking(task: &Task) -> (Asked<'_>, Option<Result<Box<RawValue>, RpcError>>) {
        let mut asked: Asked<'_> = Box::pin(task.ask(Ask::roots("q"), || {}));
        let answer = answer(&mut asked);
        (asked, answer)
    }

    fn answer(asked: &mut Asked<'_>) -> Option<Result<Box<RawValue>, RpcError>> {
        match asked.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    #[test]
    fn open_questions_are_bounded() {
        let task = task();
        let mut open: Vec<_> = (0..MAX_INPUTS).map(|_| asking(&task)).collect();
        assert!(open.iter().all(|(_, answer)| answer.is_none()));
        assert!(matches!(asking(&task).1, Some(Err(_))));
        open.pop();
        assert!(asking(&task).1.is_none());
    }

    #[test]
    fn task_that_ended_has_no_open_questions() {
        let task = task();
        let (mut asked, unanswered) = asking(&task);
        assert!(unanswered.is_none());
        assert!(task.end(Ending::Cancelled, None));
        assert!(matches!(answer(&mut asked), Some(Err(_))), "whoever asked is told");
        assert!(task.claim().is_none(), "and nobody is asked any more");
    }
}
