//! Follows tasks of upstreams for a modern client's listening stream.

use bytes::Bytes;
use lyceum_http::{Context, Outcome};
use lyceum_server::ForeignNews;
use lyceum_wire::{ClientCapabilities, ErrorCode, Request, RpcError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::bridge::look;
use super::{TaskRef, shape};
use crate::door::Door;

/// Tasks of upstreams one stream may follow.
const MAX_WATCHED: usize = 64;
/// Changes that wait to be written.
const MAX_CHANGES: usize = 8;

/// Answers `subscriptions/listen`. The server runs the stream; tasks of upstreams are looked at as
/// long as it runs.
pub(crate) async fn watch(
    door: &Door,
    ids: Vec<String>,
    request: Request,
    cx: &Context,
) -> Result<Outcome, RpcError> {
    let tasks = wanted(door, &ids, cx);
    drop(ids);
    if tasks.is_empty() {
        return door.server().listen(request, cx, ForeignNews::default()).await;
    }
    let (told, changes) = mpsc::channel(MAX_CHANGES);
    let ids = tasks.iter().map(|task| task.public.clone()).collect();
    // They end with the stream.
    let mut watching = JoinSet::new();
    for task in tasks {
        watching.spawn(follow(door.clone(), task, cx.clone(), told.clone()));
    }
    drop(told);
    let news = ForeignNews { tasks: ids, changes: Some(changes) };
    door.server().listen(request, cx, news).await
}

/// The upstreams' tasks a client asks to hear about.
fn wanted(door: &Door, ids: &[String], cx: &Context) -> Vec<TaskRef> {
    // The server refuses clients that cannot follow tasks.
    if !cx.capabilities.has(ClientCapabilities::TASKS_EXTENSION) {
        return Vec::new();
    }
    let routes = door.state.routes.load();
    let found = ids.iter().filter_map(|id| TaskRef::find(id, cx, &routes));
    found.take(MAX_WATCHED).collect()
}

/// Tells how a task is, and again whenever that changes, until it is over.
async fn follow(door: Door, task: TaskRef, cx: Context, told: mpsc::Sender<Bytes>) {
    let mut last = Bytes::new();
    loop {
        // An upstream that is down may come back, and its tasks with it.
        let seen = match look(&door, &task, &cx).await {
            Ok(seen) => seen,
            Err(error) if error.code == ErrorCode::INVALID_PARAMS => return,
            Err(_) => last.clone(),
        };
        if seen != last && told.send(seen.clone()).await.is_err() {
            return;
        }
        if shape::is_over(&shape::status_of(&seen)) {
            return;
        }
        task.upstream.task_changed(&task.own, shape::pause(&seen)).await;
        last = seen;
    }
}
