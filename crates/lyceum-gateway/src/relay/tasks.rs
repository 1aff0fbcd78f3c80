//! Tasks of upstreams: their ids in public are sealed, so that each leads back to its upstream and
//! is of use to its caller only.
//!
//! Within one era what is said about a task is passed on. Between the eras (`bridge`) it is said in
//! other words (`shape`), and a legacy upstream's task that asks something is waited for (`followed`).

mod bridge;
mod followed;
mod list;
mod shape;
mod started;
mod tasking;
mod watch;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use lyceum_http::{Context, Purpose};
use lyceum_wire::{Era, Member, Object, Request, Writer};
use memchr::memmem::Finder;

use super::params::with_member;
use super::result::{Shape, passed_back};
use crate::door::Door;
use crate::routes::Routes;
use crate::upstream::Upstream;
pub(crate) use bridge::{Bridge, start, wants_extension};
pub(crate) use followed::Followed;
pub(crate) use list::list;
use shape::Detail;
pub(crate) use started::Started;
pub(crate) use tasking::Tasking;
pub(crate) use watch::watch;

/// Where messages say which task they belong to.
pub(crate) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// How long the result of a task may be waited for in silence. Whoever waits may well wait again.
pub(crate) const RESULT: Duration = Duration::from_secs(60 * 60);

static TASK_ID: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"taskId\""));

/// A task of an upstream's.
#[derive(Debug, Clone)]
pub(crate) struct TaskRef {
    pub(crate) upstream: Arc<Upstream>,
    /// The number of the connection it was started on. A process knows its own tasks only.
    pub(crate) connection: u64,
    /// The upstream's own id.
    pub(crate) own: String,
    /// What the client calls it.
    pub(crate) public: String,
}

impl TaskRef {
    /// What an id leads to, if it is an upstream's and this caller's.
    pub(crate) fn find(id: &str, cx: &Context, routes: &Routes) -> Option<TaskRef> {
        let [endpoint, principal] = cx.binding();
        let binding = [b"gateway".as_slice(), endpoint, principal];
        let payload = cx.sealer.open(Purpose::Task, &binding, id.as_bytes())?;
        let payload = String::from_utf8(payload).ok()?;
        let mut parts = payload.splitn(3, '\0');
        let (upstream, number, own) = (parts.next()?, parts.next()?, parts.next()?);
        Some(TaskRef {
            upstream: routes.upstream(upstream)?,
            connection: u64::from_str_radix(number, 16).ok()?,
            own: own.to_owned(),
            public: id.to_owned(),
        })
    }

    /// A task an upstream has just started.
    pub(crate) fn new(upstream: &Arc<Upstream>, connection: u64, own: &str, cx: &Context) -> Self {
        let [endpoint, principal] = cx.binding();
        let binding = [b"gateway".as_slice(), endpoint, principal];
        let payload = format!("{}\0{connection:x}\0{own}", upstream.config.name);
        let public = cx.sealer.seal(Purpose::Task, &binding, payload.as_bytes());
        let (upstream, own) = (Arc::clone(upstream), own.to_owned());
        TaskRef { upstream, connection, own, public }
    }

    /// Params that name it, for the upstream.
    fn params(&self) -> Bytes {
        task_id(&self.own)
    }
}

/// An object that names a task.
pub(crate) fn task_id(id: &str) -> Bytes {
    let mut task = Writer::new();
    task.text("taskId", id);
    task.finish()
}

/// The id of an upstream's task as the result of a call has it: `task.taskId` before the modern
/// era, `taskId` in it.
pub(crate) fn id_in(result: &Bytes) -> Option<String> {
    // Most results are not about tasks, and looking is cheaper than reading.
    TASK_ID.find(result)?;
    let members = Object::of_checked(result);
    let task =
        members.get("task").and_then(|task| Object::of_checked(task.as_bytes()).text("taskId"));
    task.or_else(|| {
        let is_task = members.text("resultType").as_deref() == Some("task");
        members.text("taskId").filter(|_| is_task)
    })
}

/// How long a client wants its task to be kept.
pub(crate) fn wished_ttl(request: &Request) -> Option<Duration> {
    let task = Object::parse(request.params.get(Member::Task)?).ok()?;
    task.get("ttl")?.parse().ok().map(Duration::from_millis)
}

/// The answer to a call that an upstream made a task of, in the words of the client's era.
pub(crate) fn created(
    door: &Door,
    result: &Bytes,
    task: &TaskRef,
    cx: &Context,
    shape: &Shape<'_>,
) -> Bytes {
    let public = &task.public;
    let core = || {
        let task = Object::parse(result).ok().and_then(|members| members.get("task"));
        Bytes::copy_from_slice(task.unwrap_or_default().as_bytes())
    };
    let (created, seen) = match (shape.client, shape.upstream) {
        (Era::Modern, Era::Modern) => return renamed(&passed_back(result, shape), public),
        (Era::Modern, Era::Legacy) => {
            let mut out = shape::to_extension(&core(), public, &Detail::Nothing);
            out.text("resultType", "task");
            return passed_back(&out.finish(), shape);
        }
        (Era::Legacy, Era::Legacy) => {
            (renamed(&passed_back(result, shape), public), renamed(&core(), public))
        }
        (Era::Legacy, Era::Modern) => {
            let seen = shape::to_core(result, public);
            let mut out = Writer::new();
            out.raw("task", &seen);
            (out.finish(), seen)
        }
    };
    if let Some(session) = cx.session_key {
        door.gateway.started().remember(session, public.clone(), seen);
    }
    created
}

/// An answer about a task, with the id and the result the client may see.
pub(crate) fn followed(result: &Bytes, task: &TaskRef, shape: &Shape<'_>) -> Bytes {
    let result = renamed(result, &task.public);
    match shape.method {
        "tasks/result" => related(&result, &task.public),
        "tasks/get" if shape.upstream == Era::Modern => with_own_result(&result, shape),
        _ => result,
    }
}

/// A task of the extension whose result, if it has one, is for our client.
fn with_own_result(task: &Bytes, shape: &Shape<'_>) -> Bytes {
    let result = Object::parse(task).ok().and_then(|members| members.get("result"));
    let Some(result) = result else { return task.clone() };
    let result = Bytes::copy_from_slice(result.as_bytes());
    let result = passed_back(&result, &Shape { method: "tools/call", ..*shape });
    with_member(task, "result", &result)
}

/// A result, or params, that say which task they belong to.
pub(crate) fn related(object: &Bytes, public: &str) -> Bytes {
    let meta = Object::parse(object).ok().and_then(|members| members.get("_meta"));
    let meta = Bytes::copy_from_slice(meta.unwrap_or("{}").as_bytes());
    let meta = with_member(&meta, RELATED_TASK, &task_id(public));
    with_member(object, "_meta", &meta)
}

/// A result with another task id, wherever it has one.
pub(crate) fn renamed(result: &Bytes, public: &str) -> Bytes {
    let Ok(members) = Object::parse(result) else { return result.clone() };
    let mut out = Writer::new();
    for (name, value) in members.iter() {
        match name {
            "taskId" => out.text(name, public),
            "task" => out.raw(name, renamed(&Bytes::copy_from_slice(value.as_bytes()), public)),
            _ => out.raw(name, value),
        }
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_and_replaced_in_both_eras() {
        for (raw, id, expected) in [
            (
                r#"{"task":{"taskId":"a","ttl":1.0}}"#,
                Some("a"),
                r#"{"task":{"taskId":"P","ttl":1.0}}"#,
            ),
            (
                r#"{"resultType":"task","taskId":"a"}"#,
                Some("a"),
                r#"{"resultType":"task","taskId":"P"}"#,
            ),
            (r#"{"content":[],"taskId":"a"}"#, None, r#"{"content":[],"taskId":"P"}"#),
            (r#"{"content":[]}"#, None, r#"{"content":[]}"#),
        ] {
            let raw = Bytes::from(raw);
            assert_eq!(id_in(&raw).as_deref(), id);
            assert_eq!(renamed(&raw, "P"), expected);
        }
    }

    #[test]
    fn a_result_says_which_task_it_belongs_to() {
        for (raw, expected) in [
            (
                r#"{"content":[]}"#,
                r#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"P"}}}"#,
            ),
            (
                r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"},"x":1.0}}"#,
                r#"{"_meta":{"x":1.0,"io.modelcontextprotocol/related-task":{"taskId":"P"}}}"#,
            ),
        ] {
            assert_eq!(related(&Bytes::from(raw), "P"), expected);
        }
    }
}
