//! Tasks of upstreams, as clients of each era follow them.

use std::time::Duration;

use lyceum_gateway::Status;
use lyceum_http::client::{CallOptions, ClientError, Peer};
use lyceum_wire::{Era, Revision, RevisionSet};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::fixture;
use crate::house::{Client1, House, Way, counts, fixture_upstream, serve_on, text, until};

/// What a modern client says that can follow tasks.
const FOLLOWS: &str = r#"{"elicitation":{},"sampling":{},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

async fn call(peer: &Peer, method: &str, params: Value) -> Result<Value, ClientError> {
    let result = peer.call(method, params.to_string()).await?;
    Ok(serde_json::from_slice(&result).unwrap())
}

async fn code(peer: &Peer, method: &str, params: Value) -> i32 {
    match call(peer, method, params).await {
        Err(ClientError::Rpc(error)) => error.code.0,
        other => panic!("{method} is no error: {other:?}"),
    }
}

async fn follower(house: &House) -> (Peer, Client1) {
    let handler = Client1::default();
    (house.client_with(Revision::V2026_07_28, handler.clone(), FOLLOWS).await, handler)
}

/// Starts a task and returns its id.
async fn start(peer: &Peer, tool: &str) -> String {
    let started = match peer.era() {
        Era::Modern => call(peer, "tools/call", json!({"name": tool})).await.unwrap(),
        Era::Legacy => {
            let params = json!({"name": tool, "task": {"ttl": 60_000}});
            call(peer, "tools/call", params).await.unwrap()["task"].clone()
        }
    };
    started["taskId"].as_str().unwrap_or_else(|| panic!("{tool}: {started}")).to_owned()
}

async fn get(peer: &Peer, id: &str) -> Value {
    call(peer, "tasks/get", json!({"taskId": id})).await.unwrap()
}

/// Looks at a task until it has this status.
async fn becomes(peer: &Peer, id: &str, status: &str, cell: &str) -> Value {
    let mut task = Value::Null;
    for _ in 0..200 {
        task = get(peer, id).await;
        assert_eq!(task["taskId"], id, "{cell}");
        if task["status"] == status {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{cell}: not {status}: {task}");
}

/// A modern client with tasks of an upstream of either era.
pub(crate) async fn extension(house: &House, upstream: Era, cell: &str) {
    let (peer, client) = follower(house).await;
    let started = call(&peer, "tools/call", json!({"name": "up_long"})).await.unwrap();
    assert_eq!(started["resultType"], "task", "{cell}: {started}");
    assert_eq!(started["status"], "working", "{cell}: {started}");
    assert!(started["ttlMs"].is_number() && started["createdAt"].is_string(), "{cell}: {started}");
    assert!(started.get("task").is_none() && started.get("ttl").is_none(), "{cell}: {started}");
    let id = started["taskId"].as_str().unwrap();
    let ended = becomes(&peer, id, "completed", cell).await;
    assert_eq!(ended["resultType"], "complete", "{cell}: {ended}");
    assert_eq!(ended["result"]["content"][0]["text"], "done", "{cell}: {ended}");
    assert_eq!(ended["result"]["resultType"], "complete", "{cell}: {ended}");
    assert!(!ended["result"].to_string().contains(RELATED_TASK), "{cell}: {ended}");
    let server = &ended["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"];
    assert_eq!(server, "front", "{cell}: {ended}");
    let failed = becomes(&peer, &start(&peer, "up_long_fail").await, "completed", cell).await;
    assert_eq!(failed["result"]["isError"], true, "{cell}: {failed}");
    asks_a_follower(&peer, cell).await;
    asks_a_follower_twice(&peer, cell).await;
    let waiting = start(&peer, "up_long_wait").await;
    for _ in 0..2 {
        let ack = call(&peer, "tasks/cancel", json!({"taskId": waiting})).await.unwrap();
        assert_eq!(ack["resultType"], "complete", "{cell}: {ack}");
        assert!(ack.get("taskId").is_none() && ack.get("status").is_none(), "{cell}: {ack}");
        becomes(&peer, &waiting, "cancelled", cell).await;
    }
    tells_a_listener(&peer, &client, cell).await;
    refuses_strangers(house, upstream, &waiting, cell).await;
}

async fn asks_a_follower(peer: &Peer, cell: &str) {
    let id = start(peer, "up_long_ask").await;
    let asks = becomes(peer, &id, "input_required", cell).await;
    let requests = asks["inputRequests"].as_object().unwrap();
    let (key, request) = requests.iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create", "{cell}: {asks}");
    assert_eq!(request["params"]["message"], "Who are you?", "{cell}: {asks}");
    // It asks the same thing under the same name until it is answered.
    let again = becomes(peer, &id, "input_required", cell).await;
    assert_eq!(again["inputRequests"], asks["inputRequests"], "{cell}");
    assert_eq!(code(peer, "tasks/update", json!({"taskId": id})).await, -32602, "{cell}");
    for responses in [
        json!({"nothing": {"action": "accept"}}),
        json!({key: {"action": "accept", "content": {"name": "Ada"}}}),
    ] {
        let params = json!({"taskId": id, "inputResponses": responses});
        let ack = call(peer, "tasks/update", params).await.unwrap();
        assert_eq!(ack["resultType"], "complete", "{cell}: {ack}");
        assert!(ack.get("taskId").is_none(), "{cell}: {ack}");
    }
    let ended = becomes(peer, &id, "completed", cell).await;
    assert_eq!(ended["result"]["content"][0]["text"], "Hello, Ada!", "{cell}: {ended}");
}

/// Two questions at once, answered one after the other.
async fn asks_a_follower_twice(peer: &Peer, cell: &str) {
    let id = start(peer, "up_long_ask_both").await;
    let mut asks = becomes(peer, &id, "input_required", cell).await;
    for _ in 0..200 {
        if asks["inputRequests"].as_object().is_some_and(|requests| requests.len() == 2) {
            break;
        }
        // The second may be a moment later.
        tokio::time::sleep(Duration::from_millis(20)).await;
        asks = get(peer, &id).await;
    }
    let open = asks["inputRequests"].as_object().cloned().unwrap_or_default();
    assert_eq!(open.len(), 2, "{cell}: {asks}");
    let update = async |key: &String| {
        let name = &open[key]["params"]["message"];
        let responses = json!({key: {"action": "accept", "content": {"name": name}}});
        let params = json!({"taskId": id, "inputResponses": responses});
        call(peer, "tasks/update", params).await.unwrap();
    };
    let (first, second) = (open.keys().next().unwrap(), open.keys().next_back().unwrap());
    update(first).await;
    let mut rest = Value::Null;
    for _ in 0..200 {
        rest = get(peer, &id).await;
        if rest["inputRequests"].get(first).is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(rest["status"], "input_required", "{cell}: {rest}");
    assert_eq!(rest["inputRequests"], json!({second: open[second]}), "{cell}: {rest}");
    update(second).await;
    let ended = becomes(peer, &id, "completed", cell).await;
    assert_eq!(ended["result"]["content"][0]["text"], "First? and Second?", "{cell}: {ended}");
}

async fn tells_a_listener(peer: &Peer, client: &Client1, cell: &str) {
    let id = start(peer, "up_long_wait").await;
    let filter = json!({"taskIds": [id, "nonsense"]});
    let mut listening = peer.listen(filter.to_string()).await.unwrap();
    let acknowledged: Value = serde_json::from_slice(listening.acknowledged()).unwrap();
    assert_eq!(acknowledged["notifications"]["taskIds"], json!([id]), "{cell}: {acknowledged}");
    let hearing = client.clone();
    let hearing = tokio::spawn(async move {
        while let Some(Ok(news)) = listening.next().await {
            lyceum_http::client::ClientHandler::notification(&hearing, news).await;
        }
    });
    let told = client.hears("notifications/tasks").await;
    assert_eq!((&told["taskId"], &told["status"]), (&json!(id), &json!("working")), "{cell}");
    client.heard.lock().unwrap().clear();
    call(peer, "tasks/cancel", json!({"taskId": id})).await.unwrap();
    let told = client.hears("notifications/tasks").await;
    assert_eq!((&told["taskId"], &told["status"]), (&json!(id), &json!("cancelled")), "{cell}");
    assert!(told["_meta"]["io.modelcontextprotocol/subscriptionId"].is_number(), "{cell}: {told}");
    assert!(told.get("resultType").is_none(), "{cell}: {told}");
    hearing.abort();
}

async fn refuses_strangers(house: &House, upstream: Era, id: &str, cell: &str) {
    let (unable, _) = house.client(Revision::V2026_07_28).await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({"taskId": id, "inputResponses": {}});
        assert_eq!(code(&unable, method, params).await, -32021, "{cell}: {method}");
    }
    let (able, _) = follower(house).await;
    let altered: String = id.chars().rev().collect();
    assert_eq!(code(&able, "tasks/get", json!({"taskId": altered})).await, -32602, "{cell}");
    // A tool that is nothing but a task: a modern upstream insists, a legacy one is waited for.
    match upstream {
        Era::Modern => {
            let refused = code(&unable, "tools/call", json!({"name": "up_long_only"})).await;
            assert_eq!(refused, -32021, "{cell}");
        }
        Era::Legacy => {
            assert_eq!(text(&unable, "up_long_only", json!({})).await.unwrap(), "done", "{cell}");
        }
    }
    assert_eq!(text(&unable, "up_long", json!({})).await.unwrap(), "done", "{cell}");
}

/// A 2025-11-25 client with tasks of an upstream of either era.
pub(crate) async fn core(house: &House, upstream: Era, cell: &str) {
    let (peer, client) = house.client(Revision::V2025_11_25).await;
    let tools = peer.list_tools().await.unwrap();
    let long = tools.iter().find(|tool| tool.name == "up_long").unwrap();
    let long: Value = serde_json::from_slice(&long.raw).unwrap();
    assert_eq!(long["execution"]["taskSupport"], "optional", "{cell}: {long}");
    let params = json!({"name": "up_long", "task": {"ttl": 60_000}});
    let started = call(&peer, "tools/call", params).await.unwrap();
    let task = &started["task"];
    assert_eq!(task["status"], "working", "{cell}: {started}");
    assert!(task["ttl"].is_number() && task.get("ttlMs").is_none(), "{cell}: {started}");
    assert!(task["pollInterval"].is_number(), "{cell}: {started}");
    assert!(started.get("resultType").is_none(), "{cell}: {started}");
    let id = task["taskId"].as_str().unwrap();
    result(&peer, id, "done", cell).await;
    let ended = get(&peer, id).await;
    assert_eq!(ended["status"], "completed", "{cell}: {ended}");
    assert!(ended.get("result").is_none() && ended.get("resultType").is_none(), "{cell}: {ended}");
    let failing = start(&peer, "up_long_fail").await;
    let failed = call(&peer, "tasks/result", json!({"taskId": failing})).await.unwrap();
    assert_eq!(failed["isError"], true, "{cell}: {failed}");
    becomes(&peer, &failing, "failed", cell).await;
    client.asked.lock().unwrap().clear();
    result(&peer, &start(&peer, "up_long_ask").await, "Hello, Ada!", cell).await;
    assert_eq!(*client.asked.lock().unwrap(), ["elicitation/create"], "{cell}");
    let waiting = start(&peer, "up_long_wait").await;
    let cancelled = call(&peer, "tasks/cancel", json!({"taskId": waiting})).await.unwrap();
    assert_eq!(
        (&cancelled["taskId"], &cancelled["status"]),
        (&json!(waiting), &json!("cancelled"))
    );
    for method in ["tasks/cancel", "tasks/update"] {
        let expected = if method == "tasks/cancel" { -32602 } else { -32601 };
        assert_eq!(code(&peer, method, json!({"taskId": waiting})).await, expected, "{cell}");
    }
    lists(house, &peer, &[id, &failing, &waiting], cell).await;
    without_tasks(&peer, upstream, cell).await;
}

async fn result(peer: &Peer, id: &str, expected: &str, cell: &str) {
    let result = call(peer, "tasks/result", json!({"taskId": id})).await.unwrap();
    assert_eq!(result["content"][0]["text"], expected, "{cell}: {result}");
    assert_eq!(result["_meta"][RELATED_TASK]["taskId"], id, "{cell}: {result}");
    assert!(result.get("resultType").is_none(), "{cell}: {result}");
}

async fn lists(house: &House, peer: &Peer, ids: &[&str], cell: &str) {
    let listed = call(peer, "tasks/list", json!({})).await.unwrap();
    let status = |id: &str| {
        let tasks = listed["tasks"].as_array().unwrap();
        let task = tasks.iter().find(|task| task["taskId"] == id);
        task.unwrap_or_else(|| panic!("{cell}: {id} is not in {listed}"))["status"].clone()
    };
    assert_eq!(
        ids.iter().map(|id| status(id)).collect::<Vec<_>>(),
        ["completed", "failed", "cancelled"],
        "{cell}"
    );
    let (other, _) = house.client(Revision::V2025_11_25).await;
    let listed = call(&other, "tasks/list", json!({})).await.unwrap();
    assert_eq!(listed["tasks"], json!([]), "{cell}: a session sees its own only");
}

/// What a client that knows tasks gets where it, or the upstream, wants none.
async fn without_tasks(peer: &Peer, upstream: Era, cell: &str) {
    let only = call(peer, "tools/call", json!({"name": "up_long_only"})).await;
    let arguments = json!({"text": "quick"});
    let quick = json!({"name": "up_echo", "arguments": arguments, "task": {}});
    match upstream {
        Era::Legacy => {
            assert_eq!(only.unwrap_err().rpc().unwrap().code.0, -32601, "{cell}");
            assert_eq!(code(peer, "tools/call", quick).await, -32601, "{cell}");
        }
        Era::Modern => {
            assert_eq!(only.unwrap()["content"][0]["text"], "done", "{cell}");
            // It answers at once, so the task is over before it begins.
            let quick = call(peer, "tools/call", quick).await.unwrap();
            assert_eq!(quick["task"]["status"], "completed", "{cell}: {quick}");
            result(peer, quick["task"]["taskId"].as_str().unwrap(), "quick", cell).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_nobody_knows_of_is_cancelled_with_its_call() {
    for (way, served, revision) in [
        (Way::Stdio, RevisionSet::LEGACY, Revision::V2025_06_18),
        (Way::Http, RevisionSet::LEGACY, Revision::V2026_07_28),
        (Way::Http, RevisionSet::MODERN, Revision::V2025_11_25),
    ] {
        let house = House::new(way, served).await;
        let (peer, _) = house.client(revision).await;
        let waiting = {
            let peer = peer.clone();
            tokio::spawn(async move { text(&peer, "up_wait_only", json!({})).await })
        };
        counts(&peer, "1 waiting, 0 cancelled", "").await;
        waiting.abort();
        counts(&peer, "0 waiting, 1 cancelled", "").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_process_is_found_where_it_runs() {
    // While a call waits for its client, others get another process of their own.
    let house = House::new(Way::Stdio, RevisionSet::LEGACY).await;
    let (peer, _) = follower(&house).await;
    let options = CallOptions::new().capabilities(FOLLOWS).hand_back_input_requests();
    let held = peer.call_with("tools/call", r#"{"name":"up_ask"}"#, &options).await.unwrap();
    assert!(String::from_utf8_lossy(&held).contains("input_required"));
    let elsewhere = start(&peer, "up_long_wait").await;
    let held: Value = serde_json::from_slice(&held).unwrap();
    let answers = json!({"elicitation-1": {"action": "accept", "content": {"name": "Ada"}}});
    let retry =
        json!({"name": "up_ask", "requestState": held["requestState"], "inputResponses": answers});
    let ended = call(&peer, "tools/call", retry).await.unwrap();
    assert_eq!(ended["content"][0]["text"], "Hello, Ada!");
    let here = start(&peer, "up_long_wait").await;
    for id in [&elsewhere, &here] {
        assert_eq!(get(&peer, id).await["status"], "working");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_cannot_be_asked_ends_the_task_that_asks() {
    for (served, revision, capabilities) in [
        (RevisionSet::LEGACY, Revision::V2025_11_25, "{}"),
        (RevisionSet::MODERN, Revision::V2025_11_25, "{}"),
        (
            RevisionSet::LEGACY,
            Revision::V2026_07_28,
            r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
        ),
    ] {
        let house = House::new(Way::Http, served).await;
        let peer = house.client_with(revision, (), capabilities).await;
        let id = start(&peer, "up_long_ask").await;
        if peer.era() == Era::Legacy {
            let told = call(&peer, "tasks/result", json!({"taskId": id})).await;
            let is_told = told.as_ref().map_or(true, |result| result["isError"] == true);
            assert!(is_told, "{served:?}: {told:?}");
        }
        let mut task = Value::Null;
        for _ in 0..200 {
            task = get(&peer, &id).await;
            if task["status"] != "working" && task["status"] != "input_required" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let is_over =
            ["completed", "failed", "cancelled"].iter().any(|over| task["status"] == *over);
        assert!(is_over, "{served:?} {revision}: {task}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_task_finds_its_client_among_others_on_one_stream() {
    for way in [Way::HttpSse, Way::Stdio] {
        let house = House::new(way, RevisionSet::LEGACY).await;
        let (peer, client) = house.client(Revision::V2025_11_25).await;
        let (other, bystander) = house.client(Revision::V2025_11_25).await;
        let busy = {
            let other = other.clone();
            tokio::spawn(async move { text(&other, "up_wait", json!({})).await })
        };
        counts(&peer, "1 waiting, 0 cancelled", "").await;
        let id = start(&peer, "up_long_ask").await;
        result(&peer, &id, "Hello, Ada!", &format!("{way:?}")).await;
        assert_eq!(*client.asked.lock().unwrap(), ["elicitation/create"]);
        assert!(bystander.asked.lock().unwrap().is_empty());
        busy.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_an_upstream_forgot_are_unknown_and_no_longer_listed() {
    let (config, running) = fixture_upstream(Way::Http, RevisionSet::LEGACY).await;
    let mut running = running.unwrap();
    let address = running.address();
    let house = House::with(vec![config], None).await;
    let ((old, _), (new, _)) = (house.client(Revision::V2025_11_25).await, follower(&house).await);
    let n_listed = async || {
        let listed = call(&old, "tasks/list", json!({})).await.unwrap();
        listed["tasks"].as_array().unwrap().len()
    };
    start(&old, "up_long_wait").await;
    let id = start(&new, "up_long_wait").await;
    assert_eq!(n_listed().await, 1);
    running.begin_stop();
    running.stopped().await;
    assert_eq!(n_listed().await, 1, "it may come back");
    let is_up = || house.gateway.health()[0].1.status == Status::Up;
    // Before that, a call that is answered may have gone over the connection that is given up.
    until("nobody noticed that it stopped", || !is_up()).await;
    let listener = TcpListener::bind(address).await.unwrap();
    let forever = Box::pin(std::future::pending());
    let _again = tokio::spawn(serve_on(listener, fixture::server(), RevisionSet::LEGACY, forever));
    until("nobody noticed that it is back", is_up).await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({"taskId": id, "inputResponses": {}});
        assert_eq!(code(&new, method, params).await, -32602, "{method}");
    }
    assert_eq!(n_listed().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ends_while_several_look_at_it_has_ended_for_all() {
    let house = House::new(Way::Http, RevisionSet::LEGACY).await;
    let (peer, _) = follower(&house).await;
    for round in 0..10 {
        let id = start(&peer, "up_long_ask").await;
        let asks = becomes(&peer, &id, "input_required", "").await;
        let key = asks["inputRequests"].as_object().unwrap().keys().next().unwrap();
        let looks: Vec<_> = (0..4)
            .map(|_| {
                let (peer, id) = (peer.clone(), id.clone());
                tokio::spawn(async move { becomes(&peer, &id, "completed", "").await })
            })
            .collect();
        let responses = json!({key: {"action": "accept", "content": {"name": "Ada"}}});
        let params = json!({"taskId": id, "inputResponses": responses});
        call(&peer, "tasks/update", params).await.unwrap();
        for look in looks {
            let ended = look.await.unwrap();
            let text = &ended["result"]["content"][0]["text"];
            assert_eq!(text, "Hello, Ada!", "round {round}: {ended}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_process_that_ended_is_asked_of_no_other() {
    let house = House::new(Way::Stdio, RevisionSet::LEGACY).await;
    let (peer, _) = follower(&house).await;
    let id = start(&peer, "up_long_wait").await;
    get(&peer, &id).await;
    // It ends, and another one takes its place.
    let _ = text(&peer, "up_crash", json!({})).await;
    for _ in 0..1000 {
        if text(&peer, "up_echo", json!({"text": "a"})).await.is_ok_and(|told| told == "a") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    start(&peer, "up_long_wait").await;
    for method in ["tasks/get", "tasks/cancel"] {
        let refused = call(&peer, method, json!({"taskId": id})).await.unwrap_err();
        let error = refused.rpc().unwrap_or_else(|| panic!("{method}: {refused}"));
        assert_eq!(error.code.0, -32602, "{method}: {error:?}");
        assert!(error.message.contains("the process of up that knew it has ended"), "{error:?}");
    }
    house.gateway.close().await;
}
