//! What is said about a task, in the words of each era. 2025-11-25 has tasks in its core, 2026-07-28
//! as an extension, which says how a task ended and what it asks along with its status.

use std::time::Duration;

use bytes::Bytes;
use lyceum_wire::{Object, RpcError, Writer};

/// How often a task is looked at that does not say how often it wants to be.
const POLL: Duration = Duration::from_secs(1);
/// How often at most, and at least.
const FASTEST: Duration = Duration::from_millis(100);
const SLOWEST: Duration = Duration::from_secs(30);

/// What the extension says besides the status.
#[derive(Debug, Clone)]
pub(crate) enum Detail {
    Nothing,
    /// It ended with a result, which may tell of a failure.
    Result(Bytes),
    Error(RpcError),
    /// It asks something: keys, and raw requests.
    Asks(Vec<(String, Bytes)>),
}

/// A task of the core in the words of the extension.
pub(crate) fn to_extension(core: &[u8], public: &str, detail: &Detail) -> Writer {
    let mut out = Writer::new();
    let task = Object::parse(core).unwrap_or_default();
    let mut lives = "null";
    for (name, value) in task.iter() {
        match name {
            "taskId" => out.text(name, public),
            "status" => out.text(name, status(&task, detail)),
            "ttl" if is_positive(value) => lives = value,
            "ttl" => {}
            "pollInterval" if is_positive(value) => out.raw("pollIntervalMs", value),
            "pollInterval" | "_meta" | "resultType" => {}
            _ => out.raw(name, value),
        }
    }
    out.raw("ttlMs", lives);
    match detail {
        Detail::Nothing => {}
        Detail::Result(result) => out.raw("result", result),
        Detail::Error(error) => out.object("error", |out| {
            out.raw("code", error.code.0.to_string());
            out.text("message", &error.message);
            if let Some(data) = &error.data {
                out.raw("data", data);
            }
        }),
        Detail::Asks(requests) => out.object("inputRequests", |out| {
            for (key, request) in requests {
                out.raw(key, request);
            }
        }),
    }
    out
}

/// A task of the extension in the words of the core.
pub(crate) fn to_core(extension: &[u8], public: &str) -> Bytes {
    const ELSEWHERE: [&str; 6] =
        ["result", "error", "inputRequests", "requestState", "resultType", "_meta"];
    let mut out = Writer::new();
    let task = Object::parse(extension).unwrap_or_default();
    for (name, value) in task.iter() {
        match name {
            "taskId" => out.text(name, public),
            // To the core a result that tells of a failure is a failure.
            "status" if has_failed(&task) => out.text(name, "failed"),
            "ttlMs" => out.raw("ttl", value),
            "pollIntervalMs" => out.raw("pollInterval", value),
            _ if ELSEWHERE.contains(&name) => {}
            _ => out.raw(name, value),
        }
    }
    if task.get("ttlMs").is_none() {
        out.raw("ttl", "null");
    }
    out.finish()
}

/// A task of the extension without the answer around it.
pub(crate) fn bare(answer: &Bytes) -> Bytes {
    let mut out = Writer::new();
    let members = Object::parse(answer).unwrap_or_default();
    for (name, value) in members.iter().filter(|(name, _)| !["resultType", "_meta"].contains(name))
    {
        out.raw(name, value);
    }
    out.finish()
}

/// The status of a task, whichever era's.
pub(crate) fn status_of(task: &[u8]) -> String {
    Object::parse(task).ok().and_then(|task| task.text("status")).unwrap_or_default()
}

/// Whether a task with this status will not change any more.
pub(crate) fn is_over(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled")
}

/// How long to wait before looking at a task again.
pub(crate) fn pause(task: &[u8]) -> Duration {
    let task = Object::parse(task).unwrap_or_default();
    let wish = task.get("pollIntervalMs").or_else(|| task.get("pollInterval"));
    let wish = wish.and_then(|raw| raw.parse().ok()).map(Duration::from_millis);
    wish.unwrap_or(POLL).clamp(FASTEST, SLOWEST)
}

fn status<'a>(task: &Object<'_>, detail: &'a Detail) -> &'a str {
    match detail {
        Detail::Result(_) => "completed",
        Detail::Error(_) => "failed",
        Detail::Asks(_) => "input_required",
        // What it asks is not known yet.
        Detail::Nothing => match task.text("status").as_deref() {
            Some("completed") => "completed",
            Some("failed") => "failed",
            Some("cancelled") => "cancelled",
            _ => "working",
        },
    }
}

fn has_failed(task: &Object<'_>) -> bool {
    let result = task.get("result").and_then(|raw| Object::parse(raw.as_bytes()).ok());
    result.is_some_and(|result| result.get("isError") == Some("true"))
}

fn is_positive(raw: &str) -> bool {
    raw.parse().is_ok_and(|number: u64| number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_becomes_the_extension() {
        let text = |task: &str, detail: &Detail| {
            let bytes = to_extension(task.as_bytes(), "P", detail).finish();
            String::from_utf8(bytes.to_vec()).unwrap()
        };
        let asks = Detail::Asks(vec![("k".to_owned(), Bytes::from_static(b"{}"))]);
        let error = Detail::Error(RpcError::internal("no").with_data(b"[1.0]".to_vec()));
        for (core, detail, expected) in [
            (
                r#"{"taskId":"a","status":"working","createdAt":"t","ttl":60000,"pollInterval":500,"odd":1.0,"_meta":{}}"#,
                &Detail::Nothing,
                r#"{"taskId":"P","status":"working","createdAt":"t","pollIntervalMs":500,"odd":1.0,"ttlMs":60000}"#,
            ),
            (
                r#"{"taskId":"a","status":"cancelled","ttl":0,"pollInterval":0.5}"#,
                &Detail::Nothing,
                r#"{"taskId":"P","status":"cancelled","ttlMs":null}"#,
            ),
            (
                r#"{"status":"input_required"}"#,
                &Detail::Nothing,
                r#"{"status":"working","ttlMs":null}"#,
            ),
            (
                r#"{"status":"input_required"}"#,
                &asks,
                r#"{"status":"input_required","ttlMs":null,"inputRequests":{"k":{}}}"#,
            ),
            (
                r#"{"status":"failed"}"#,
                &Detail::Result(Bytes::from_static(br#"{"isError":true}"#)),
                r#"{"status":"completed","ttlMs":null,"result":{"isError":true}}"#,
            ),
            (
                r#"{"status":"failed"}"#,
                &error,
                r#"{"status":"failed","ttlMs":null,"error":{"code":-32603,"message":"no","data":[1.0]}}"#,
            ),
        ] {
            assert_eq!(text(core, detail), expected, "{core}");
        }
    }

    #[test]
    fn the_extension_becomes_the_core() {
        for (extension, expected) in [
            (
                r#"{"resultType":"task","taskId":"a","status":"working","ttlMs":null,"pollIntervalMs":5,"odd":1.0,"_meta":{}}"#,
                r#"{"taskId":"P","status":"working","ttl":null,"pollInterval":5,"odd":1.0}"#,
            ),
            (
                r#"{"status":"completed","result":{"isError":true},"ttlMs":7}"#,
                r#"{"status":"failed","ttl":7}"#,
            ),
            (r#"{"status":"completed","result":{}}"#, r#"{"status":"completed","ttl":null}"#),
            (
                r#"{"status":"input_required","inputRequests":{},"requestState":"s"}"#,
                r#"{"status":"input_required","ttl":null}"#,
            ),
        ] {
            assert_eq!(to_core(extension.as_bytes(), "P"), expected, "{extension}");
        }
    }

    #[test]
    fn tasks_say_how_often_they_want_to_be_looked_at_within_reason() {
        for (task, expected) in [
            (r#"{"pollIntervalMs":500}"#, 500),
            (r#"{"pollInterval":250}"#, 250),
            (r#"{"pollInterval":1}"#, 100),
            (r#"{"pollInterval":99999999}"#, 30_000),
            (r#"{"pollInterval":-1}"#, 1000),
            ("{}", 1000),
        ] {
            assert_eq!(pause(task.as_bytes()), Duration::from_millis(expected), "{task}");
        }
    }
}
