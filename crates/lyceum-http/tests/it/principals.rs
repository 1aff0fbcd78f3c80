//! What one authenticated caller may hold, and that it takes nothing from others.

use lyceum_http::Limits;
use lyceum_testkit::{Request, Response};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Duration, timeout};

use crate::lab::{Lab, call, get, modern};
use crate::matrix::{Bearer, refused, succeeded};

fn lab(limits: Limits) -> Lab {
    Lab::with(|endpoint| endpoint.limits(limits).authenticate(Bearer::shared()))
}

fn by(name: &str, request: Request) -> Request {
    request.header("authorization", &format!("Bearer {name}"))
}

async fn session(lab: &Lab, name: &str) -> String {
    lab.session_as("2025-11-25", &[("authorization", &format!("Bearer {name}"))]).await
}

/// Expects that a request is refused as one too many.
async fn refuses(lab: &Lab, request: Request, id: Value) {
    let answer = timeout(Duration::from_secs(5), lab.send(&request)).await;
    let refusal = answer.expect("an answer at once");
    refused(&refusal, 429, -32603, id);
    assert!(refusal.head.get("retry-after").is_some());
}

/// Sends a call that does not end by itself, and waits until it runs.
async fn start(lab: &Lab, request: Request) -> JoinHandle<Response> {
    let before = lab.fixture.running();
    let task = tokio::spawn({
        let lab = lab.clone();
        async move { lab.send(&request).await }
    });
    lab.fixture.until_running(before + 1).await;
    tokio::task::yield_now().await;
    task
}

#[tokio::test]
async fn live_sessions_of_one_caller_are_bounded_and_others_are_unaffected() {
    let lab = lab(Limits { sessions_per_principal: 2, ..Limits::default() });
    let ana = [session(&lab, "ana").await, session(&lab, "ana").await, session(&lab, "ana").await];
    let _open =
        [lab.open(&by("ana", get(&ana[0]))).await, lab.open(&by("ana", get(&ana[1]))).await];
    refuses(&lab, by("ana", get(&ana[2])), Value::Null).await;
    let level = Request::legacy("/mcp", 7, "logging/setLevel", json!({"level": "error"}))
        .header("mcp-session-id", &ana[2]);
    refuses(&lab, by("ana", level), json!(7)).await;
    succeeded(&lab.send(&by("ana", call(&ana[2], 7, "echo", json!({})))).await, 7);
    let bob = session(&lab, "bob").await;
    assert_eq!(lab.open(&by("bob", get(&bob))).await.head.status, 200);
    let end = Request::new("DELETE", "/mcp").header("mcp-session-id", &ana[0]);
    assert_eq!(lab.send(&by("ana", end)).await.status(), 200);
    assert_eq!(lab.open(&by("ana", get(&ana[2]))).await.head.status, 200);
}

#[tokio::test]
async fn running_calls_of_one_caller_are_bounded_over_both_eras() {
    let lab = lab(Limits { calls_per_principal: 2, ..Limits::default() });
    let (ana, bob) = (session(&lab, "ana").await, session(&lab, "bob").await);
    let hang = |session: &str, id: i32| call(session, id, "hang", json!({}));
    let modern_hang = |id: i32| modern(id, "hang", json!({}));
    let _legacy = start(&lab, by("ana", hang(&ana, 1))).await;
    let inline = start(&lab, by("ana", modern_hang(2))).await;
    for request in [hang(&ana, 3), modern_hang(3)] {
        refuses(&lab, by("ana", request), json!(3)).await;
    }
    assert_eq!(lab.fixture.running(), 2, "refused calls do not run on");
    succeeded(&lab.send(&by("ana", call(&ana, 4, "echo", json!({})))).await, 4);
    succeeded(&lab.send(&by("ana", modern(5, "echo", json!({})))).await, 5);
    let _bobs =
        [start(&lab, by("bob", hang(&bob, 1))).await, start(&lab, by("bob", modern_hang(2))).await];
    inline.abort();
    lab.fixture.until_running(3).await;
    let _again = start(&lab, by("ana", modern_hang(6))).await;
}

#[tokio::test]
async fn call_counts_while_its_answer_is_a_stream() {
    let lab = lab(Limits { calls_per_principal: 1, ..Limits::default() });
    let open = by("ana", modern(1, "puppet", json!({"name": "p"})));
    let streaming = tokio::spawn({
        let lab = lab.clone();
        async move { lab.open(&open).await }
    });
    let puppet = lab.fixture.puppet("p").await;
    puppet.notify("first").await;
    let mut live = streaming.await.unwrap();
    let another = by("ana", modern(2, "hang", json!({})));
    refuses(&lab, another.clone(), json!(2)).await;
    puppet.finish("done");
    assert_eq!(live.rest().await.len(), 2);
    let _another = start(&lab, another).await;
}

#[tokio::test]
async fn callers_nobody_knows_have_no_bounds_of_their_own() {
    let limits = Limits { calls_per_principal: 1, sessions_per_principal: 1, ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let mut running = Vec::new();
    for id in 0..3 {
        let session = lab.session("2025-11-25").await;
        assert_eq!(lab.open(&get(&session)).await.head.status, 200);
        running.push(start(&lab, call(&session, id, "hang", json!({}))).await);
        running.push(start(&lab, modern(id, "hang", json!({}))).await);
    }
}
