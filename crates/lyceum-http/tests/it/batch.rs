//! Batches, which 2025-03-26 alone has.

use lyceum_testkit::{Request, Response};
use serde_json::{Value, json};

use crate::lab::{Lab, PATH, notification};
use crate::matrix::refused;

fn request(id: u64, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

fn note(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

fn post(members: &[Value]) -> Request {
    Request::post(PATH, Value::from(members.to_vec()).to_string())
}

/// The answers' ids and codes (0 for a result), sorted.
fn outcomes(messages: &[Value]) -> Vec<(Value, i64)> {
    let outcome = |message: &Value| {
        let code = message["error"]["code"].as_i64().unwrap_or(0);
        (message["id"].clone(), code)
    };
    let mut outcomes: Vec<_> = messages.iter().map(outcome).collect();
    outcomes.sort_by_key(|(id, code)| (id.as_u64().unwrap_or(u64::MAX), *code));
    outcomes
}

fn array(response: &Response) -> Vec<Value> {
    assert_eq!(response.status(), 200, "{}", response.text());
    assert_eq!(response.head.get("content-type"), Some("application/json"));
    response.json().as_array().expect("a batch is answered by an array").clone()
}

#[tokio::test]
async fn mixed_batch_answers_every_request_and_no_notification() {
    let lab = Lab::new();
    let session = lab.session("2025-03-26").await;
    let before = lab.fixture.notes();
    let members = [
        request(1, "echo", json!({"text": "one"})),
        note("notifications/x"),
        request(2, "none", json!({})),
        json!({"jsonrpc": "2.0", "id": 3, "method": "no/such"}),
        json!({"jsonrpc": "2.0", "id": 99, "result": {}}),
        note("notifications/y"),
    ];
    for batch in [post(&members), post(&members).header("mcp-session-id", &session)] {
        let answers = array(&lab.send(&batch).await);
        let expected = [(json!(1), 0), (json!(2), -32602), (json!(3), -32601)];
        assert_eq!(outcomes(&answers), expected);
    }
    assert_eq!(lab.fixture.notes() - before, 4);
}

#[tokio::test]
async fn batch_without_requests_is_202() {
    let lab = Lab::new();
    let batch = post(&[note("notifications/x"), json!({"jsonrpc": "2.0", "id": 1, "result": {}})]);
    let response = lab.send(&batch).await;
    assert_eq!((response.status(), response.text()), (202, ""));
}

#[tokio::test]
async fn invalid_members_are_answered_beside_the_others() {
    let lab = Lab::new();
    let members = [
        json!(7),
        json!({}),
        json!([]),
        json!({"jsonrpc": "2.0", "id": 5}),
        request(1, "echo", json!({})),
    ];
    let answers = array(&lab.send(&post(&members)).await);
    let expected = [
        (json!(1), 0),
        (json!(5), -32600),
        (Value::Null, -32600),
        (Value::Null, -32600),
        (Value::Null, -32600),
    ];
    assert_eq!(outcomes(&answers), expected);
    assert!(answers.iter().all(|answer| answer["id"] != Value::Null || answer.get("id").is_none()));
    let only_invalid = array(&lab.send(&post(&[json!(7)])).await);
    assert_eq!(outcomes(&only_invalid), [(Value::Null, -32600)]);
}

#[tokio::test]
async fn empty_and_oversized_batches_are_refused() {
    let lab = Lab::new();
    refused(&lab.send(&post(&[])).await, 400, -32600, Value::Null);
    let members: Vec<_> = (0..51).map(|id| request(id, "echo", json!({}))).collect();
    refused(&lab.send(&post(&members)).await, 400, -32600, Value::Null);
    assert_eq!(lab.fixture.invocations(), 0);
    assert_eq!(array(&lab.send(&post(&members[..50])).await).len(), 50);
}

#[tokio::test]
async fn initialize_inside_a_batch_runs_nothing() {
    let lab = Lab::new();
    let initialize = json!({"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": {"protocolVersion": "2025-03-26"}});
    let response = lab.send(&post(&[request(1, "echo", json!({})), initialize])).await;
    refused(&response, 400, -32600, Value::Null);
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn batch_that_emits_becomes_a_stream_of_all_its_answers() {
    let lab = Lab::new();
    let session = lab.session("2025-03-26").await;
    let members = [request(1, "burst", json!({"n": 2})), request(2, "echo", json!({}))];
    for batch in [post(&members), post(&members).header("mcp-session-id", &session)] {
        let response = lab.send(&batch).await;
        assert_eq!(response.head.get("content-type"), Some("text/event-stream; charset=utf-8"));
        let messages: Vec<_> = response.events().iter().map(|event| event.json()).collect();
        assert_eq!(messages.iter().filter(|message| message["method"].is_string()).count(), 2);
        let answers: Vec<_> =
            messages.into_iter().filter(|message| message["method"].is_null()).collect();
        assert_eq!(outcomes(&answers), [(json!(1), 0), (json!(2), 0)]);
    }
}

#[tokio::test]
async fn batch_of_a_client_that_wants_streams_is_one_event_per_answer() {
    let lab = Lab::new();
    let members = [json!(7), request(1, "echo", json!({})), request(2, "echo", json!({}))];
    let response = lab.send(&post(&members).set("accept", "text/event-stream")).await;
    let answers: Vec<_> = response.events().iter().map(|event| event.json()).collect();
    assert_eq!(outcomes(&answers), [(json!(1), 0), (json!(2), 0), (Value::Null, -32600)]);
}

#[tokio::test]
async fn cancelled_member_does_not_hold_up_the_others() {
    let lab = Lab::new();
    let session = lab.session("2025-03-26").await;
    let batch = post(&[request(1, "puppet", json!({"name": "p"})), request(2, "echo", json!({}))]);
    let answering = tokio::spawn({
        let (lab, batch) = (lab.clone(), batch.header("mcp-session-id", &session));
        async move { lab.send(&batch).await }
    });
    let mut puppet = lab.fixture.puppet("p").await;
    let cancel = notification("notifications/cancelled", json!({"requestId": 1}));
    lab.send(&cancel.header("mcp-session-id", &session)).await;
    puppet.gone().await;
    let answers = array(&answering.await.unwrap());
    assert_eq!(outcomes(&answers), [(json!(2), 0)]);
}

#[tokio::test]
async fn batch_whose_every_member_was_cancelled_is_not_an_empty_array() {
    let lab = Lab::new();
    let session = lab.session("2025-03-26").await;
    let batch = post(&[request(1, "puppet", json!({"name": "p"}))]);
    let answering = tokio::spawn({
        let (lab, batch) = (lab.clone(), batch.header("mcp-session-id", &session));
        async move { lab.send(&batch).await }
    });
    let mut puppet = lab.fixture.puppet("p").await;
    let cancel = notification("notifications/cancelled", json!({"requestId": 1}));
    lab.send(&cancel.header("mcp-session-id", &session)).await;
    puppet.gone().await;
    refused(&answering.await.unwrap(), 200, -32800, json!(1));
}

#[tokio::test]
async fn member_that_panics_does_not_hold_up_the_others() {
    let lab = Lab::new();
    for tool in ["panic", "panic_later", "panic_at_once"] {
        let batch = post(&[request(1, tool, json!({})), request(2, "echo", json!({}))]);
        let answers = array(&lab.send(&batch).await);
        assert_eq!(outcomes(&answers), [(json!(1), -32603), (json!(2), 0)], "{tool}");
    }
}

#[tokio::test]
async fn notifications_beyond_the_bound_are_told_so() {
    let limits = lyceum_http::Limits { calls: 2, ..lyceum_http::Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let hang = note("notifications/hang");
    let members = [hang.clone(), hang.clone(), hang, request(1, "echo", json!({}))];
    let answers = array(&lab.send(&post(&members)).await);
    assert_eq!(outcomes(&answers), [(json!(1), -32603), (Value::Null, -32603)]);
    assert_eq!(lab.fixture.running(), 2);
}

#[tokio::test]
async fn what_a_member_sets_is_kept() {
    let limits = lyceum_http::Limits { sessions: 1, ..lyceum_http::Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let (first, second) = (lab.session("2025-03-26").await, lab.session("2025-03-26").await);
    let set = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "error"}});
    let set = |session: &str| post(std::slice::from_ref(&set)).header("mcp-session-id", session);
    assert_eq!(outcomes(&array(&lab.send(&set(&first)).await)), [(json!(1), 0)]);
    let level = post(&[request(2, "level", json!({}))]).header("mcp-session-id", &first);
    let answers = array(&lab.send(&level).await);
    assert_eq!(answers[0]["result"]["content"][0]["text"], "error");
    // There is no place for a second session's level, and that is said.
    assert_eq!(outcomes(&array(&lab.send(&set(&second)).await)), [(json!(1), -32603)]);
}

#[tokio::test]
async fn members_see_the_live_state_an_earlier_one_needed() {
    let lab = Lab::new();
    let set = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "error"}});
    for earlier in [set, request(1, "echo", json!({}))] {
        let session = lab.session("2025-03-26").await;
        let batch = post(&[earlier, request(2, "tell", json!({}))]);
        let answers = array(&lab.send(&batch.header("mcp-session-id", &session)).await);
        let told = answers.iter().find(|answer| answer["id"] == 2).unwrap();
        assert_eq!(told["result"]["content"][0]["text"], "Some(Dropped)");
    }
}

#[tokio::test]
async fn modern_requests_cannot_be_batched() {
    let lab = Lab::new();
    let modern = crate::lab::modern(1, "echo", json!({}));
    let body = format!("[{}]", String::from_utf8(modern.body.clone()).unwrap());
    refused(&lab.send(&modern.clone().body(body.clone())).await, 400, -32600, Value::Null);
    refused(&lab.send(&Request::post(PATH, body)).await, 400, -32600, Value::Null);
    assert_eq!(lab.fixture.invocations(), 0);
}
