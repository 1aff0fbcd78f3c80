//! Tasks: the extension of the modern era and the core of 2025-11-25.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lyceum_server::{Ask, Call, NoArguments, Server, ToolError, tool};
use lyceum_wire::{ClientCapabilities, Revision, RpcError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::talk::Talk;

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

fn server() -> Server {
    Server::builder("tasks", "1")
        .page_size(2)
        .task_ttl(Duration::from_secs(60))
        .tool(tool("direct", "At once.", |_: Call, _: NoArguments| async { Ok("now") }))
        .tool(tool("slow", "Slowly.", slow).task())
        .tool(
            tool("must", "As a task only.", |_: Call, _: NoArguments| async {
                Err::<String, _>(ToolError::new("no luck"))
            })
            .task_required(),
        )
        .tool(
            tool("error", "Ends badly.", |_: Call, _: NoArguments| async {
                Err::<String, _>(RpcError::invalid_request("bad").into())
            })
            .task(),
        )
        .tool(tool("panics", "Breaks.", panics).task())
        .tool(tool("asks", "Asks two things, one of them twice.", asks).task())
        .tool(
            tool("later", "Asks, then goes on.", |cx: Call, _: NoArguments| async move {
                let Name { name } = cx.elicit("name", "Name?").await?;
                let task = cx.become_task().await?;
                sleep(Duration::from_secs(1)).await;
                Ok(format!("{name} {task}"))
            })
            .task_on_demand(),
        )
        .tool(
            tool("instant", "A task, but a short one.", |cx: Call, _: NoArguments| async move {
                Ok(cx.become_task().await?.to_string())
            })
            .task_on_demand(),
        )
        .build()
}

async fn slow(cx: Call, _: NoArguments) -> Result<&'static str, ToolError> {
    cx.progress_message(0.0, None, "on it").await;
    sleep(Duration::from_secs(2)).await;
    Ok("done")
}

async fn panics(_: Call, _: NoArguments) -> Result<(), ToolError> {
    panic!("on purpose");
}

async fn asks(cx: Call, _: NoArguments) -> Result<String, ToolError> {
    let both = vec![Ask::form::<Name>("a", "A?")?, Ask::form::<Name>("b", "B?")?];
    let both = cx.ask_all(both).await?;
    let again: Name = cx.elicit("a", "A again?").await?;
    Ok([both.form::<Name>("a")?.name, both.form::<Name>("b")?.name, again.name].join(" "))
}

fn accept(name: &str) -> Value {
    json!({ "action": "accept", "content": { "name": name } })
}

fn modern() -> Talk {
    let capabilities = ClientCapabilities::TASKS_EXTENSION | ClientCapabilities::ELICITATION_FORM;
    Talk::modern(&server()).can(capabilities)
}

fn core() -> Talk {
    let talk = Talk::new(&server(), Revision::V2025_11_25);
    Talk { session_key: Some([1; 16]), ..talk.can(ClientCapabilities::ELICITATION_FORM) }
}

async fn start(talk: &Talk, tool: &str) -> Value {
    let created = talk.ask("tools/call", json!({ "name": tool, "task": { "ttl": 5000 } })).await;
    let created = created.get("task").unwrap_or(&created);
    let id = created["taskId"].as_str().unwrap_or_else(|| panic!("no task in {created}"));
    json!({ "taskId": id })
}

/// Looks at a task until it has another status than `status`.
async fn after(talk: &Talk, id: &Value, status: &str) -> Value {
    loop {
        let task = talk.ask("tasks/get", id.clone()).await;
        if task["status"] != status {
            return task;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// The same with ids and times replaced.
fn redacted(mut task: Value) -> String {
    fn redact(value: &mut Value) {
        let Value::Object(members) = value else { return };
        for (name, value) in members {
            match name.as_str() {
                "taskId" => *value = "ID".into(),
                "createdAt" | "lastUpdatedAt" => *value = "TIME".into(),
                _ => redact(value),
            }
        }
    }
    redact(&mut task);
    task.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_modern_task_is_created_followed_and_completed() {
    let talk = modern();
    let created = talk.call("slow", json!({})).await;
    let id = json!({ "taskId": created["taskId"] });
    insta::assert_snapshot!(redacted(created), @r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"tasks","version":"1"}},"createdAt":"TIME","lastUpdatedAt":"TIME","pollIntervalMs":500,"resultType":"task","status":"working","taskId":"ID","ttlMs":60000}"#);
    tokio::task::yield_now().await;
    let working = talk.ask("tasks/get", id.clone()).await;
    insta::assert_snapshot!(redacted(working), @r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"tasks","version":"1"}},"createdAt":"TIME","lastUpdatedAt":"TIME","pollIntervalMs":500,"resultType":"complete","status":"working","statusMessage":"on it","taskId":"ID","ttlMs":60000}"#);
    insta::assert_snapshot!(redacted(after(&talk, &id, "working").await), @r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"tasks","version":"1"}},"createdAt":"TIME","lastUpdatedAt":"TIME","pollIntervalMs":500,"result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"tasks","version":"1"}},"content":[{"text":"done","type":"text"}],"resultType":"complete"},"resultType":"complete","status":"completed","taskId":"ID","ttlMs":60000}"#);
}

#[tokio::test(start_paused = true)]
async fn a_core_task_is_created_followed_and_completed() {
    let talk = core();
    let created = talk.ask("tools/call", json!({ "name": "slow", "task": { "ttl": 5000 } })).await;
    let id = json!({ "taskId": created["task"]["taskId"] });
    insta::assert_snapshot!(redacted(created), @r#"{"task":{"createdAt":"TIME","lastUpdatedAt":"TIME","pollInterval":500,"status":"working","taskId":"ID","ttl":5000}}"#);
    let result = talk.ask("tasks/result", id.clone()).await;
    insta::assert_snapshot!(redacted(result), @r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"ID"}},"content":[{"text":"done","type":"text"}]}"#);
    insta::assert_snapshot!(redacted(talk.ask("tasks/get", id).await), @r#"{"createdAt":"TIME","lastUpdatedAt":"TIME","pollInterval":500,"status":"completed","taskId":"ID","ttl":5000}"#);
}

#[tokio::test(start_paused = true)]
async fn failures_are_told_as_each_era_tells_them() {
    let modern = modern();
    let failed = after(&modern, &start(&modern, "must").await, "working").await;
    assert_eq!(
        (&failed["status"], &failed["result"]["isError"]),
        (&json!("completed"), &json!(true))
    );
    let broken = after(&modern, &start(&modern, "error").await, "working").await;
    assert_eq!(broken["error"], json!({ "code": -32600, "message": "bad" }));
    assert_eq!((&broken["status"], &broken["statusMessage"]), (&json!("failed"), &json!("bad")));
    let panicked = after(&modern, &start(&modern, "panics").await, "working").await;
    assert_eq!(panicked["error"]["message"], "the tool stopped unexpectedly");

    let core = core();
    let id = start(&core, "must").await;
    let failed = after(&core, &id, "working").await;
    assert_eq!(failed["status"], "failed");
    let result = core.ask("tasks/result", id.clone()).await;
    assert_eq!(result["isError"], true);
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"], id);
    let broken = start(&core, "error").await;
    assert_eq!(core.ask("tasks/result", broken).await["error"]["code"], -32600);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_stops_and_stays_cancelled() {
    let modern = modern();
    let id = start(&modern, "slow").await;
    for _ in 0..2 {
        let acknowledged = modern.ask("tasks/cancel", id.clone()).await;
        assert_eq!(acknowledged["resultType"], "complete");
        assert!(acknowledged.get("taskId").is_none());
    }
    sleep(Duration::from_secs(3)).await;
    let cancelled = modern.ask("tasks/get", id).await;
    assert_eq!(cancelled["status"], "cancelled");
    assert!(cancelled.get("result").is_none());

    let core = core();
    let id = start(&core, "slow").await;
    assert_eq!(core.ask("tasks/cancel", id.clone()).await["status"], "cancelled");
    assert_eq!(core.ask("tasks/cancel", id.clone()).await["error"]["code"], -32602);
    assert_eq!(core.ask("tasks/result", id).await["error"]["message"], "The task was cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_modern_task_asks_through_its_status() {
    let talk = modern();
    let id = start(&talk, "asks").await;
    let answer = async |responses: Value| {
        let update = json!({ "taskId": id["taskId"], "inputResponses": responses });
        let acknowledged = talk.ask("tasks/update", update).await;
        assert_eq!(acknowledged["resultType"], "complete", "{acknowledged}");
        tokio::task::yield_now().await;
        talk.ask("tasks/get", id.clone()).await
    };
    let keys = |task: &Value| -> Vec<String> {
        let requests = task["inputRequests"].as_object();
        requests.unwrap_or_else(|| panic!("no questions in {task}")).keys().cloned().collect()
    };
    let waiting = after(&talk, &id, "working").await;
    assert_eq!(
        (&waiting["status"], keys(&waiting)),
        (&json!("input_required"), vec!["a".into(), "b".into()])
    );
    assert_eq!(keys(&answer(json!({ "a": 12345, "zzz": accept("x") })).await), ["a", "b"]);
    assert_eq!(keys(&answer(json!({ "b": accept("2") })).await), ["a"]);
    assert_eq!(keys(&answer(json!({ "a": accept("1") })).await), ["a-2"]);
    answer(json!({ "a-2": accept("3") })).await;
    let done = after(&talk, &id, "working").await;
    assert_eq!(done["result"]["content"][0]["text"], "1 2 3");
    let odd = json!({ "taskId": id["taskId"], "inputResponses": null });
    assert_eq!(talk.ask("tasks/update", odd).await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn a_core_task_asks_whoever_waits_for_its_result() {
    let talk = core();
    let id = start(&talk, "asks").await;
    let waiting = after(&talk, &id, "working").await;
    assert_eq!(waiting["status"], "input_required");
    let talk = talk.answers([accept("1"), accept("2"), accept("3")]);
    let result = talk.ask("tasks/result", id.clone()).await;
    assert_eq!(result["content"][0]["text"], "1 2 3");
    let related = format!(r#""_meta":{{"io.modelcontextprotocol/related-task":{id}}}"#);
    assert_eq!(talk.asked().len(), 3);
    assert!(talk.asked().iter().all(|asked| asked.contains(&related)), "{:?}", talk.asked());
}

#[tokio::test(start_paused = true)]
async fn a_question_outlives_the_client_that_left_it_open() {
    let talk = core();
    let id = start(&talk, "asks").await;
    after(&talk, &id, "working").await;
    talk.outlet.patient.store(true, Ordering::Relaxed);
    let leaving = talk.ask("tasks/result", id.clone());
    assert!(tokio::time::timeout(Duration::from_secs(1), leaving).await.is_err());
    assert_eq!(talk.asked().len(), 2, "both questions at once: {:?}", talk.asked());
    let talk = talk.answers([accept("1"), accept("2"), accept("3")]);
    let result = talk.ask("tasks/result", id).await;
    assert_eq!(result["content"][0]["text"], "1 2 3");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_ends_as_soon_as_it_is_a_task_is_a_task_all_the_same() {
    let talk = modern();
    let created = talk.call("instant", json!({})).await;
    assert_eq!(created["resultType"], "task");
    let done = after(&talk, &json!({ "taskId": created["taskId"] }), "working").await;
    assert_eq!(done["result"]["content"][0]["text"], "true");
}

#[tokio::test(start_paused = true)]
async fn a_tool_becomes_a_task_on_its_way() {
    let talk = modern();
    let round = talk.ask("tools/call", json!({ "name": "later" })).await;
    assert_eq!(round["resultType"], "input_required");
    let retry = json!({
        "name": "later",
        "requestState": round["requestState"],
        "inputResponses": { "name": accept("Ana") },
    });
    let created = talk.ask("tools/call", retry.clone()).await;
    assert_eq!(created["resultType"], "task");
    let done = after(&talk, &json!({ "taskId": created["taskId"] }), "working").await;
    assert_eq!(done["result"]["content"][0]["text"], "Ana true");

    let mut without = talk;
    without.capabilities = ClientCapabilities::ELICITATION_FORM;
    let direct = without.ask("tools/call", retry).await;
    assert_eq!(direct["content"][0]["text"], "Ana false");
}

#[tokio::test(start_paused = true)]
async fn clients_that_cannot_follow_a_task_are_served_without_or_refused() {
    let modern = Talk::modern(&server());
    assert_eq!(modern.call("slow", json!({})).await["content"][0]["text"], "done");
    let refused = modern.call("must", json!({})).await;
    assert_eq!(refused["error"]["code"], -32021);
    let required = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    assert_eq!(refused["error"]["data"]["requiredCapabilities"], required);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let answer = modern.ask(method, json!({ "taskId": "x", "inputResponses": {} })).await;
        assert_eq!(answer["error"]["code"], -32021, "{method}");
    }

    let core = core();
    assert_eq!(core.call("slow", json!({})).await["content"][0]["text"], "done");
    assert_eq!(core.call("must", json!({})).await["error"]["code"], -32601);
    let forbidden = core.ask("tools/call", json!({ "name": "direct", "task": {} })).await;
    assert_eq!(forbidden["error"]["code"], -32601);

    let old = Talk::new(&server(), Revision::V2025_06_18);
    let ignored = old.ask("tools/call", json!({ "name": "slow", "task": {} })).await;
    assert_eq!(ignored["content"][0]["text"], "done");
    let refused = old.call("must", json!({})).await;
    assert_eq!(refused["isError"], true);
    assert_ne!(refused["content"][0]["text"], "no luck", "it must not have run");
    let unknown = old.ask("tasks/get", json!({ "taskId": "x" })).await;
    assert_eq!(unknown["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_known_to_its_owner_only() {
    let ana = modern().named("ana");
    let id = start(&ana, "slow").await;
    let code = async |talk: &Talk, id: &Value| {
        talk.ask("tasks/get", id.clone()).await["error"]["code"].clone()
    };
    assert_eq!(code(&ana, &id).await, Value::Null);
    assert_eq!(code(&ana.clone().named("bob"), &id).await, -32602);
    assert_eq!(code(&Talk { endpoint: "/b".into(), ..ana.clone() }, &id).await, -32602);
    assert_eq!(code(&ana, &json!({ "taskId": "made-up" })).await, -32602);
    assert_eq!(code(&ana, &json!({})).await, -32602);
    sleep(Duration::from_secs(61)).await;
    assert_eq!(code(&ana, &id).await, -32602);
}

#[tokio::test(start_paused = true)]
async fn core_tasks_are_listed_in_pages_to_their_session() {
    let talk = core();
    let mut started = Vec::new();
    for _ in 0..3 {
        started.push(start(&talk, "slow").await["taskId"].clone());
        let more = talk.ask("tasks/list", json!({})).await.get("nextCursor").is_some();
        assert_eq!(more, started.len() > 2, "a full page is the last one if nothing follows");
    }
    let ids = |page: &Value| -> Vec<Value> {
        page["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].clone()).collect()
    };
    let first = talk.ask("tasks/list", json!({})).await;
    let second = talk.ask("tasks/list", json!({ "cursor": first["nextCursor"] })).await;
    assert_eq!([ids(&first), ids(&second)].concat(), started);
    assert_eq!(second.get("nextCursor"), None);
    let other = Talk { session_key: Some([2; 16]), ..talk };
    assert_eq!(other.raw("tasks/list", json!({})).await, r#"{"tasks":[]}"#);
}

#[tokio::test(start_paused = true)]
async fn a_listening_stream_follows_tasks() {
    let talk = modern();
    let id = start(&talk, "slow").await;
    let filter = json!({ "notifications": { "taskIds": [id["taskId"], "made-up"] } });
    let stream = talk.clone();
    let stream = tokio::spawn(async move { stream.ask("subscriptions/listen", filter).await });
    let sent = talk.sent_at_least(2).await;
    let acknowledged: Value = serde_json::from_str(&sent[0]).unwrap();
    assert_eq!(acknowledged["params"]["notifications"], json!({ "taskIds": [id["taskId"]] }));
    let told = serde_json::from_str(&sent[1]).unwrap();
    insta::assert_snapshot!(redacted(told), @r#"{"jsonrpc":"2.0","method":"notifications/tasks","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"createdAt":"TIME","lastUpdatedAt":"TIME","pollIntervalMs":500,"result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"tasks","version":"1"}},"content":[{"text":"done","type":"text"}],"resultType":"complete"},"status":"completed","taskId":"ID","ttlMs":60000}}"#);
    stream.abort();
}
