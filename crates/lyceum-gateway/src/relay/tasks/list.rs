//! `tasks/list` of a legacy session: the server's own tasks, and those of upstreams it started.

use std::time::Duration;

use bytes::Bytes;
use lyceum_http::{Context, Handler, Outcome};
use lyceum_wire::{ErrorCode, Object, Request, RpcError, Writer, elements};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::TaskRef;
use super::bridge::look;
use crate::door::Door;

/// How long upstreams may take to say how their tasks are.
const LOOK: Duration = Duration::from_secs(5);

/// Lists the server's own tasks page by page, and those of upstreams on the last one.
pub(crate) async fn list(door: &Door, request: Request, cx: Context) -> Result<Outcome, RpcError> {
    let own = door.server().call(request, cx.clone()).await?;
    let Ok(members) = Object::parse(own.as_bytes()) else { return Ok(own) };
    if members.get("nextCursor").is_some() {
        return Ok(own);
    }
    let foreign = foreign(door, &cx).await;
    let listed = members.get("tasks").and_then(elements).unwrap_or_default();
    let mut tasks = vec![b'['];
    let own_tasks = listed.iter().map(|task| task.get().as_bytes());
    for (at, task) in own_tasks.chain(foreign.iter().map(|task| &task[..])).enumerate() {
        if at > 0 {
            tasks.push(b',');
        }
        tasks.extend_from_slice(task);
    }
    tasks.push(b']');
    let mut out = Writer::new();
    for (name, value) in members.iter().filter(|(name, _)| *name != "tasks") {
        out.raw(name, value);
    }
    out.raw("tasks", tasks);
    Ok(Outcome::json(out.finish()))
}

/// What the session started at upstreams, oldest first. What cannot be asked for is shown as it was
/// last seen.
async fn foreign(door: &Door, cx: &Context) -> Vec<Bytes> {
    let Some(session) = cx.session_key else { return Vec::new() };
    let entries = door.gateway.started().of(&session);
    let mut shown: Vec<Option<Bytes>> =
        entries.iter().map(|entry| Some(entry.seen.clone())).collect();
    let mut looking = JoinSet::new();
    for (at, entry) in entries.iter().enumerate() {
        let routes = door.state.routes.load();
        let Some(task) = TaskRef::find(&entry.public, cx, &routes) else {
            shown[at] = None;
            continue;
        };
        let (door, cx) = (door.clone(), cx.clone());
        looking.spawn(async move { (at, timeout(LOOK, look(&door, &task, &cx)).await) });
    }
    while let Some(looked) = looking.join_next().await {
        match looked {
            Ok((at, Ok(Ok(task)))) => shown[at] = Some(task),
            Ok((at, Ok(Err(error)))) if error.code == ErrorCode::INVALID_PARAMS => {
                door.gateway.started().forget(&entries[at].public);
                shown[at] = None;
            }
            _ => {}
        }
    }
    shown.into_iter().flatten().collect()
}
