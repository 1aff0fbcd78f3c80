//! Tasks as the core of 2025-11-25 has them: asked for by the client, followed by `tasks/result`.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use lyceum_http::{Context, Outcome};
use lyceum_wire::{Request, RpcError};

use crate::json::{Object, array, object};
use crate::page::{self, List};
use crate::server::Server;
use crate::tasks::{Claim, Ending, Naming, Owner, Task, named};

/// Answers the methods of core tasks.
pub(super) async fn call(
    server: &Server,
    request: &Request,
    cx: &Context,
) -> Result<Outcome, RpcError> {
    let owner = Owner::of(cx);
    match request.method.as_str() {
        "tasks/get" => Ok(shown(&*named(&server.0.tasks, request, &owner)?)),
        "tasks/cancel" => cancel(&*named(&server.0.tasks, request, &owner)?),
        "tasks/result" => result(&*named(&server.0.tasks, request, &owner)?, cx).await,
        "tasks/list" => list(server, request, cx, &owner),
        method => Err(RpcError::method_not_found(method)),
    }
}

/// The answer to a call that has become a task.
pub(crate) fn created(task: &Task) -> Outcome {
    Outcome::json(object(|result| {
        let mut member = Object::open(result.member("task"));
        task.write(Naming::Core, &mut member);
        member.close();
    }))
}

fn shown(task: &Task) -> Outcome {
    Outcome::json(object(|result| task.write(Naming::Core, result)))
}

fn cancel(task: &Task) -> Result<Outcome, RpcError> {
    if task.end(Ending::Cancelled, Some("The task was cancelled by request.".to_owned())) {
        return Ok(shown(task));
    }
    Err(RpcError::invalid_params("Cannot cancel a task that has ended"))
}

fn list(
    server: &Server,
    request: &Request,
    cx: &Context,
    owner: &Owner,
) -> Result<Outcome, RpcError> {
    let after = page::start(List::Tasks, request, cx)?;
    let mut tasks = server.0.tasks.list(owner, after);
    let more = tasks.len() > server.0.page_size;
    tasks.truncate(server.0.page_size);
    let last = tasks.last().filter(|_| more);
    let next = last.map(|task| page::cursor(List::Tasks, task.number(), cx));
    Ok(Outcome::json(object(|result| {
        array(result.member("tasks"), &tasks, |out, task: &Arc<Task>| {
            let mut item = Object::open(out);
            task.write(Naming::Core, &mut item);
            item.close();
        });
        result.optional("nextCursor", next.as_ref());
    })))
}

/// Waits for the ending, and meanwhile puts to the client what the task asks, all of it at once.
async fn result(task: &Task, cx: &Context) -> Result<Outcome, RpcError> {
    let mut changed = task.watch();
    let mut open = Vec::new();
    loop {
        match task.ending() {
            Some(Ending::Result { result, .. }) => return Ok(Outcome::json(result)),
            Some(Ending::Error(error)) => return Err(error),
            Some(Ending::Cancelled) => return Err(RpcError::internal("The task was cancelled")),
            None => {}
        }
        while let Some(claim) = task.claim() {
            open.push(Box::pin(put(claim, task, cx)));
        }
        let mut change = pin!(changed.changed());
        poll_fn(|cx| {
            open.retain_mut(|put| put.as_mut().poll(cx).is_pending());
            // Every answer is a change. The task outlives its watchers, so this cannot fail.
            change.as_mut().poll(cx).map(drop)
        })
        .await;
    }
}

async fn put(claim: Claim<'_>, task: &Task, cx: &Context) {
    let params = claim.ask.params(cx.revision, Some(task.id()));
    let answer = cx.ask(claim.ask.method(), &params).await;
    claim.answered(answer.and_then(|answer| {
        let invalid = |_| RpcError::internal("the client's answer is not valid");
        serde_json::from_slice(&answer).map_err(invalid)
    }));
}
