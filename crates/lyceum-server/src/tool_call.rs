//! Answers `tools/call`: the hot path.
//!
//! A small call costs the box of the function's future, whatever the function allocates, and the
//! buffer of the result.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use lyceum_http::{Context, Outcome};
use lyceum_wire::{Era, Member, Request, Revision, RpcError};
use serde::Deserialize;

use crate::call::Call;
use crate::error::{Capability, Fault, ToolError};
use crate::legacy;
use crate::refused;
use crate::server::Server;
use crate::since;
use crate::tasks::{self, Owner, Task, TaskCell, run};
use crate::tool::{Running, TaskSupport, Tool};
use crate::tool_result::ToolResult;

/// How a call is to run.
enum Mode {
    /// Until its answer, and no longer.
    Direct,
    /// In the background once its function says so.
    OnDemand,
    /// In the background, to be kept this long.
    Task(Option<Duration>),
}

/// What a 2025-11-25 client may say about the task it wants.
#[derive(Default, Deserialize)]
struct TaskParams {
    ttl: Option<u64>,
}

/// A `tools/call` under way. An enum and not an `async fn`, which would move the request and its
/// context once more for every step before the function runs.
pub(crate) enum Calling<'a> {
    /// The function runs; its end is the answer.
    Running { server: &'a Server, running: Running, revision: Revision },
    /// The answer is there already.
    Settled(Option<Result<Outcome, RpcError>>),
    /// What takes more than running a function, or is another method altogether.
    Boxed(Pin<Box<dyn Future<Output = Result<Outcome, RpcError>> + Send + 'a>>),
}

/// Answers `tools/call`.
pub(crate) fn call(server: &Server, request: Request, cx: Context) -> Calling<'_> {
    start(server, request, cx).unwrap_or_else(|error| Calling::Settled(Some(Err(error))))
}

fn start(server: &Server, request: Request, cx: Context) -> Result<Calling<'_>, RpcError> {
    let name = request.params.text(Member::Name);
    let name = name.ok_or_else(|| RpcError::invalid_params("name must say which tool"))?;
    let tools = server.0.tools.load();
    let revision = cx.revision;
    let Some(tool) = tools.get(&name) else {
        let name = name.into_owned();
        let running = refused::unknown_tool(Call::new(server.clone(), request, cx)?, name);
        return Ok(Calling::Running { server, running, revision });
    };
    drop(name);
    let settled = |ending| {
        let outcome = settle(server, ending, revision);
        Ok(Calling::Settled(Some(outcome)))
    };
    match mode(server, tool, &request, &cx) {
        Ok(Mode::Direct) => {
            let running = tool.start(Call::new(server.clone(), request, cx)?);
            let running = running.unwrap_or_else(|invalid| {
                refused::invalid_arguments(invalid, tool.name(), revision)
            });
            Ok(Calling::Running { server, running, revision })
        }
        Ok(Mode::OnDemand) => {
            let tool = Arc::clone(tool);
            Ok(Calling::Boxed(Box::pin(async move { on_demand(server, &tool, request, cx).await })))
        }
        Ok(Mode::Task(ttl)) => start_task(server, tool, request, cx, ttl),
        Err(error) => settled(Err(error)),
    }
}

impl Future for Calling<'_> {
    type Output = Result<Outcome, RpcError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Calling::Running { server, running, revision } => {
                let ending = std::task::ready!(running.as_mut().poll(cx));
                if !ending.as_ref().is_ok_and(ToolResult::is_large) {
                    return Poll::Ready(settle(server, ending, *revision));
                }
                *self = Calling::Boxed(Box::pin(settle_elsewhere(server, ending, *revision)));
                self.poll(cx)
            }
            Calling::Settled(outcome) => {
                Poll::Ready(outcome.take().expect("not polled after it was ready"))
            }
            Calling::Boxed(outcome) => outcome.as_mut().poll(cx),
        }
    }
}

/// How this caller's call of this tool is to run.
fn mode(server: &Server, tool: &Tool, request: &Request, cx: &Context) -> Result<Mode, ToolError> {
    let support = tool.task_support();
    let asked = request.params.get(Member::Task);
    let needs_task = || ToolError::missing_capability(Capability::Tasks);
    if cx.era() == Era::Modern {
        let follows = cx.capabilities.has(Capability::Tasks.bit());
        return match (support, follows) {
            (TaskSupport::Required, false) => Err(needs_task()),
            (TaskSupport::Forbidden, _) | (_, false) => Ok(Mode::Direct),
            (TaskSupport::OnDemand, true) => Ok(Mode::OnDemand),
            (TaskSupport::Optional | TaskSupport::Required, true) => Ok(Mode::Task(None)),
        };
    }
    if cx.revision != since::CORE_TASKS {
        return if support == TaskSupport::Required { Err(needs_task()) } else { Ok(Mode::Direct) };
    }
    let refuse = |how| {
        let problem = format!("{} {how} as a task", tool.name());
        ToolError::rpc(RpcError::new(lyceum_wire::ErrorCode::METHOD_NOT_FOUND, problem))
    };
    match (support, asked) {
        (TaskSupport::Required, None) => Err(refuse("must be called")),
        (TaskSupport::Forbidden, Some(_)) if server.offer().core_tasks => {
            Err(refuse("cannot be called"))
        }
        (TaskSupport::Forbidden, _) | (_, None) => Ok(Mode::Direct),
        (_, Some(params)) => {
            let params: TaskParams = serde_json::from_slice(params)
                .map_err(|error| RpcError::invalid_params(format!("Invalid task: {error}")))?;
            Ok(Mode::Task(params.ttl.map(Duration::from_millis)))
        }
    }
}

/// Runs the function here until it ends or becomes a task.
async fn on_demand(
    server: &Server,
    tool: &Tool,
    request: Request,
    cx: Context,
) -> Result<Outcome, RpcError> {
    let revision = cx.revision;
    let cell = TaskCell::default();
    let call = Call::new(server.clone(), request, cx)?.with_task(Arc::clone(&cell));
    let mut running = match tool.start(call) {
        Ok(running) => running,
        Err(invalid) => {
            let refused = refused::invalid_arguments(invalid, tool.name(), revision).await;
            return settle(server, refused, revision);
        }
    };
    let ended = std::future::poll_fn(|cx| match running.as_mut().poll(cx) {
        Poll::Ready(ending) => Poll::Ready(Some(ending)),
        Poll::Pending if cell.get().is_some() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    match (ended.await, cell.get()) {
        (None, Some(task)) => {
            run(server, running, Arc::clone(task), revision);
            Ok(created(server, task, revision))
        }
        (ending, _) => {
            let ending = ending.expect("without a task the function has ended");
            settle(server, ending, revision)
        }
    }
}

/// Starts the function in the background.
fn start_task<'a>(
    server: &'a Server,
    tool: &Tool,
    request: Request,
    cx: Context,
    ttl: Option<Duration>,
) -> Result<Calling<'a>, RpcError> {
    let revision = cx.revision;
    let owner = Owner::of(&cx);
    let cell = TaskCell::default();
    let call = Call::new(server.clone(), request, cx)?.with_task(Arc::clone(&cell));
    let running = match tool.start(call) {
        Ok(running) => running,
        Err(invalid) => {
            let running = refused::invalid_arguments(invalid, tool.name(), revision);
            return Ok(Calling::Running { server, running, revision });
        }
    };
    let task = server.0.tasks.create(owner, ttl)?;
    let task = cell.get_or_init(|| task);
    run(server, running, Arc::clone(task), revision);
    Ok(Calling::Settled(Some(Ok(created(server, task, revision)))))
}

fn created(server: &Server, task: &Task, revision: Revision) -> Outcome {
    match revision.era() {
        Era::Modern => tasks::created(server, task),
        Era::Legacy => legacy::task_created(task),
    }
}

/// The result the client gets for how the function ended.
fn settle(
    server: &Server,
    ended: Result<ToolResult, ToolError>,
    revision: Revision,
) -> Result<Outcome, RpcError> {
    let identity = &server.0.identity;
    match ended {
        Ok(result) => Ok(result.into_outcome(revision, identity)),
        Err(error) => match error.fault(revision.era()) {
            Fault::Told(result) => Ok(result.into_outcome(revision, identity)),
            Fault::Interrupted(interruption) => Ok(Outcome::json(interruption.encode(identity))),
            Fault::Rpc(error) => Err(error),
        },
    }
}

/// The same on a thread on which nothing else waits.
async fn settle_elsewhere(
    server: &Server,
    ended: Result<ToolResult, ToolError>,
    revision: Revision,
) -> Result<Outcome, RpcError> {
    let server = server.clone();
    let settling = lyceum_work::run_bulk(move || settle(&server, ended, revision));
    settling.await.unwrap_or_else(|_| Err(RpcError::internal("the result could not be written")))
}
