//! Runs a tool's function in the background and brings its task to an end, whatever happens.

use std::sync::Arc;
use std::time::Duration;

use lyceum_http::{Context, Outcome};
use lyceum_wire::{Era, Object, Revision, RpcError, Writer, excerpt};

use super::RELATED_TASK;
use super::store::Owner;
use super::task::{Ending, Task};
use crate::changes::Change;
use crate::error::{Fault, ToolError};
use crate::legacy;
use crate::server::Server;
use crate::tool::Running;
use crate::tool_result::ToolResult;

/// What is said when a result cannot be kept.
const NO_ROOM: &str = "the server keeps too many task results to keep this one";

/// Lets a function go on until its task ends.
pub(crate) fn run(server: &Server, running: Running, task: Arc<Task>, revision: Revision) {
    let unfinished = Unfinished { server: server.clone(), task: Arc::clone(&task) };
    let work = tokio::spawn(async move {
        let ended = running.await;
        unfinished.finish(ended, revision);
    });
    task.started(work.abort_handle());
}

/// Makes a task of 2025-11-25 of a result that is there already.
pub(crate) fn keep_ended(
    server: &Server,
    result: &[u8],
    cx: &Context,
    ttl: Option<Duration>,
) -> Result<Outcome, RpcError> {
    let members = Object::parse(result).unwrap_or_default();
    let task = server.0.tasks.create(Owner::of(cx), ttl)?;
    let mut out = Writer::new();
    let mut meta = Writer::new();
    for (name, value) in members.iter() {
        match name {
            "_meta" => {
                for (name, value) in Object::parse(value.as_bytes()).unwrap_or_default().iter() {
                    meta.raw(name, value);
                }
            }
            _ => out.raw(name, value),
        }
    }
    meta.object(RELATED_TASK, |related| related.text("taskId", task.id()));
    out.raw("_meta", meta.finish());
    let failed = members.get("isError") == Some("true");
    let ending = match server.0.tasks.keep(out.into_vec()) {
        Some(result) => Ending::Result { result, failed },
        None => Ending::Error(RpcError::internal(NO_ROOM)),
    };
    task.end(ending, None);
    Ok(legacy::task_created(&task))
}

/// A task at work. Should its function panic, dropping this still ends it.
struct Unfinished {
    server: Server,
    task: Arc<Task>,
}

impl Unfinished {
    fn finish(self, ended: Result<ToolResult, ToolError>, revision: Revision) {
        let ending = match resolve(ended, revision.era()) {
            Ok(result) => self.keep(result, revision),
            Err(error) => Ending::Error(error),
        };
        self.end(ending);
    }

    fn keep(&self, mut result: ToolResult, revision: Revision) -> Ending {
        if revision.era() == Era::Legacy {
            // 2025-11-25 wants the results of tasks to name their task.
            result = result.meta(RELATED_TASK, serde_json::json!({ "taskId": self.task.id() }));
        }
        let failed = result.is_failed();
        let result = result.encode(revision, &self.server.0.identity);
        match self.server.0.tasks.keep(result) {
            Some(result) => Ending::Result { result, failed },
            None => Ending::Error(RpcError::internal(NO_ROOM)),
        }
    }

    fn end(&self, ending: Ending) {
        let message = match &ending {
            Ending::Error(error) => Some(excerpt(&error.message).into_owned()),
            _ => None,
        };
        if self.task.end(ending, message) {
            self.server.0.changes.tell(&Change::Task(self.task.id().to_owned()));
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.end(Ending::Error(RpcError::internal("the tool stopped unexpectedly")));
    }
}

/// A result, possibly of a failure, or the error that stands in its place.
fn resolve(ended: Result<ToolResult, ToolError>, era: Era) -> Result<ToolResult, RpcError> {
    match ended.map_err(|error| error.fault(era)) {
        Ok(result) | Err(Fault::Told(result)) => Ok(result),
        Err(Fault::Rpc(error)) => Err(error),
        Err(Fault::Interrupted(_)) => Err(RpcError::internal("a task cannot start another round")),
    }
}
