//! Tasks of upstreams: their ids in public are sealed, so that each leads back to its upstream and
//! is of use to its caller only.

use bytes::Bytes;
use lyceum_http::{Context, Purpose};
use lyceum_wire::{Member, Object, Request, Writer};

use super::Subject;
use super::params::with_member;
use crate::routes::Routes;

/// Where results say which task they belong to.
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// The upstream's task a request is about, if it is about one.
pub(crate) fn subject(request: &Request, cx: &Context, routes: &Routes) -> Option<Subject> {
    let id = request.params.text(Member::TaskId)?;
    let [endpoint, principal] = cx.binding();
    let binding = [b"gateway".as_slice(), endpoint, principal];
    let payload = cx.sealer.open(Purpose::Task, &binding, id.as_bytes())?;
    let payload = String::from_utf8(payload).ok()?;
    let (upstream, own) = payload.split_once('\0')?;
    Some(Subject::Task(routes.upstream(upstream)?, own.to_owned()))
}

/// A result with public task ids in place of the upstream's own.
pub(crate) fn public_ids(
    result: Bytes,
    subject: &Subject,
    request: &Request,
    cx: &Context,
) -> Bytes {
    match subject {
        Subject::Tool(_) => created(&result, subject, cx).unwrap_or(result),
        Subject::Task(..) => followed(&result, request).unwrap_or(result),
        _ => result,
    }
}

/// The id of an upstream's task as the result of a call has it: `task.taskId` before the modern
/// era, `taskId` in it.
pub(crate) fn id_in(result: &Bytes) -> Option<String> {
    let members = Object::parse(result).ok()?;
    let task =
        members.get("task").and_then(|task| Object::parse(task.as_bytes()).ok()?.text("taskId"));
    task.or_else(|| {
        let is_task = members.text("resultType").as_deref() == Some("task");
        members.text("taskId").filter(|_| is_task)
    })
}

fn created(result: &Bytes, subject: &Subject, cx: &Context) -> Option<Bytes> {
    // Most results are not about tasks, and looking is cheaper than reading.
    if !contains(result, b"\"taskId\"") {
        return None;
    }
    let own = id_in(result)?;
    let [endpoint, principal] = cx.binding();
    let binding = [b"gateway".as_slice(), endpoint, principal];
    let payload = format!("{}\0{own}", subject.upstream().config.name);
    let public = cx.sealer.seal(Purpose::Task, &binding, payload.as_bytes());
    Some(renamed(result, &public))
}

fn followed(result: &Bytes, request: &Request) -> Option<Bytes> {
    let public = request.params.text(Member::TaskId)?;
    let mut result = renamed(result, &public);
    if request.method == "tasks/result" {
        let mut task = Writer::new();
        task.text("taskId", &public);
        let meta = Object::parse(&result).ok().and_then(|members| members.get("_meta"));
        let meta = Bytes::copy_from_slice(meta.unwrap_or("{}").as_bytes());
        let meta = with_member(&meta, RELATED_TASK, &task.finish());
        result = with_member(&result, "_meta", &meta);
    }
    Some(result)
}

/// A result with another task id, wherever it has one.
fn renamed(result: &Bytes, public: &str) -> Bytes {
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

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
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
}
