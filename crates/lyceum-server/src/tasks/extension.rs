//! The tasks extension of the modern era: `tasks/get`, `tasks/update`, `tasks/cancel`.

use std::collections::BTreeMap;

use bytes::Bytes;
use lyceum_http::{Context, Outcome};
use lyceum_wire::{Era, Member, Request, RpcError, encode};
use serde_json::value::RawValue;

use super::store::Owner;
use super::task::{Ending, Naming, Task};
use crate::changes::Change;
use crate::error::Capability;
use crate::json::{Object, object};
use crate::server::Server;

/// What listening streams hear of tasks.
pub(crate) const NOTIFICATION: &str = "notifications/tasks";

/// Answers `tasks/get`.
pub(crate) fn get(server: &Server, request: &Request, cx: &Context) -> Result<Outcome, RpcError> {
    let task = task(server, request, cx)?;
    Ok(acknowledge(server, |result| {
        task.write(Naming::Extension, result);
        task.write_details(result);
    }))
}

/// Answers `tasks/update`: takes the client's answers to what the task asked.
pub(crate) fn update(
    server: &Server,
    request: &Request,
    cx: &Context,
) -> Result<Outcome, RpcError> {
    let task = task(server, request, cx)?;
    let responses = request.params.get(Member::InputResponses);
    let responses: Option<BTreeMap<String, Box<RawValue>>> =
        responses.and_then(|raw| serde_json::from_slice(raw).ok());
    let responses =
        responses.ok_or_else(|| RpcError::invalid_params("inputResponses must be an object"))?;
    for (key, answer) in responses {
        task.answer(&key, answer);
    }
    server.0.changes.tell(&Change::Task(task.id().to_owned()));
    Ok(acknowledge(server, |_| {}))
}

/// Answers `tasks/cancel`; cancelling what has ended changes nothing.
pub(crate) fn cancel(
    server: &Server,
    request: &Request,
    cx: &Context,
) -> Result<Outcome, RpcError> {
    let task = task(server, request, cx)?;
    if task.end(Ending::Cancelled, Some("Cancelled by the client.".to_owned())) {
        server.0.changes.tell(&Change::Task(task.id().to_owned()));
    }
    Ok(acknowledge(server, |_| {}))
}

/// The answer to a call that has become a task.
pub(crate) fn created(server: &Server, task: &Task) -> Outcome {
    result(server, "task", |result| task.write(Naming::Extension, result))
}

/// The message about a task of a listening stream; `meta` is its `_meta`.
pub(crate) fn notification(task: &Task, meta: &[u8]) -> Bytes {
    let params = object(|params| {
        task.write(Naming::Extension, params);
        task.write_details(params);
        params.raw("_meta", meta);
    });
    encode::notification(NOTIFICATION, Some(&params))
}

fn task(
    server: &Server,
    request: &Request,
    cx: &Context,
) -> Result<std::sync::Arc<Task>, RpcError> {
    if !server.offer().task_extension {
        return Err(RpcError::method_not_found(&request.method));
    }
    if !cx.capabilities.has(Capability::Tasks.bit()) {
        return Err(RpcError::missing_capability(Capability::Tasks.required()));
    }
    super::named(&server.0.tasks, request, &Owner::of(cx))
}

fn acknowledge(server: &Server, write: impl FnOnce(&mut Object<'_>)) -> Outcome {
    result(server, "complete", write)
}

fn result(server: &Server, kind: &str, write: impl FnOnce(&mut Object<'_>)) -> Outcome {
    Outcome::json(object(|result| {
        result.field("resultType", kind);
        write(result);
        server.0.identity.write_meta(result, Era::Modern, &Default::default());
    }))
}
