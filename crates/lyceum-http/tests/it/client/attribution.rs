//! Whose business a message is that names no call: never another caller's.

use lyceum_http::client::{CallOptions, Peer, Transport};

use super::pipe::{Pipe, client, meet};
use super::script::{Scene, Script, Then, events, legacy, status};
use super::{Echo, Named};

/// A call in the background that is made for `caller` and has a handler of this name.
fn call(
    peer: &Peer,
    caller: Option<u128>,
    name: &'static str,
) -> (Echo, tokio::task::JoinHandle<()>) {
    let echo = Echo::default();
    let mut options = CallOptions::new().handler(Named(name, echo.clone()));
    if let Some(key) = caller {
        options = options.caller(key);
    }
    let peer = peer.clone();
    let task = tokio::spawn(async move {
        peer.call_with("tools/call", r#"{"name":"a"}"#, &options).await.unwrap();
    });
    (echo, task)
}

async fn connect(own: &Echo) -> (Pipe, Peer) {
    let client = client().handler(Named("client", own.clone()));
    let (pipe, peer) = meet(client, Pipe::be_legacy).await;
    (pipe, peer.unwrap())
}

/// Has calls made by these callers, lets the server ask and log, and compares who took notice.
async fn check(callers: &[Option<u128>], expected: &str) {
    const NAMES: [&str; 3] = ["first", "second", "third"];
    let own = Echo::default();
    let (mut pipe, peer) = connect(&own).await;
    let mut calls = Vec::new();
    for (caller, name) in callers.iter().zip(NAMES) {
        let (echo, task) = call(&peer, *caller, name);
        calls.push((name, echo, task, pipe.request("tools/call").await));
    }
    pipe.notify("notifications/message", "{}").await;
    pipe.say(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#).await;
    let answer = pipe.line().await;
    assert!(answer.contains(&format!(r#""by":"{expected}""#)), "{callers:?}: {answer}");
    for (_, _, task, id) in &mut calls {
        pipe.result(id, "{}").await;
        task.await.unwrap();
    }
    let heard = calls.iter().map(|(name, echo, ..)| (*name, echo)).chain([("client", &own)]);
    for (name, echo) in heard {
        assert_eq!(echo.heard().len(), usize::from(name == expected), "{callers:?}: {name}");
    }
    pipe.say(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#).await;
    let answer = pipe.line().await;
    assert!(answer.contains(r#""by":"client""#), "after the calls: {answer}");
}

#[tokio::test]
async fn what_names_no_call_goes_to_the_newest_call_of_the_only_caller() {
    check(&[], "client").await;
    check(&[None], "first").await;
    check(&[Some(1)], "first").await;
    check(&[Some(1), Some(1)], "second").await;
    check(&[Some(1), Some(1), Some(1)], "third").await;
}

#[tokio::test]
async fn what_may_be_another_callers_goes_to_none() {
    check(&[Some(1), Some(2)], "client").await;
    check(&[Some(1), Some(1), Some(2)], "client").await;
    check(&[Some(1), None], "client").await;
    check(&[None, None], "client").await;
}

#[tokio::test]
async fn calls_without_a_handler_do_not_count() {
    let own = Echo::default();
    let (mut pipe, peer) = connect(&own).await;
    let listing = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call("tools/list", "").await }
    });
    let listed = pipe.request("tools/list").await;
    let (echo, task) = call(&peer, Some(1), "first");
    let id = pipe.request("tools/call").await;
    pipe.notify("notifications/message", "{}").await;
    pipe.notify("notifications/tools/list_changed", "{}").await;
    pipe.result(&id, "{}").await;
    pipe.result(&listed, "{}").await;
    task.await.unwrap();
    listing.await.unwrap().unwrap();
    assert_eq!(echo.heard(), ["notifications/message {}"]);
    assert_eq!(own.heard(), ["notifications/tools/list_changed {}"]);
}

#[tokio::test]
async fn a_question_is_over_with_its_call() {
    let (mut pipe, peer) = connect(&Echo::default()).await;
    let (_, task) = call(&peer, Some(1), "undecided");
    pipe.request("tools/call").await;
    pipe.say(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#).await;
    pipe.say(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#).await;
    assert!(pipe.line().await.contains(r#""id":"p""#));
    task.abort();
    let mut lines = [pipe.line().await, pipe.line().await];
    lines.sort();
    assert!(lines[0].contains(r#""id":"q","error""#), "{lines:?}");
    assert!(lines[1].contains("notifications/cancelled"), "{lines:?}");
}

#[tokio::test]
async fn http_sse_follows_the_same_rule() {
    let own = Echo::default();
    let hello = r#"{"protocolVersion":"2024-11-05","capabilities":{}}"#;
    let say =
        |result: &str| format!("data: {{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{result}}}\n\n");
    let ask = "data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"roots/list\"}\n\n";
    let script = Script::play([
        events("GET", "event: endpoint\ndata: /m\n\n", Then::Stay),
        status("\"initialize\"", 202).and_say(&say(hello)),
        status("notifications/initialized", 202),
        status("tools/call", 202).and_say(ask),
        status("\"by\":\"first\"", 202),
        status("tools/call", 202).and_say(ask),
        status("\"by\":\"client\"", 202),
    ])
    .await;
    let client = super::client(&script).transport(Transport::HttpSse);
    let client = client.handler(Named("client", own.clone())).build().unwrap();
    let peer = client.connect().await.unwrap();
    let (_, first) = call(&peer, Some(1), "first");
    script.wait_for_request(r#""by":"first""#).await;
    let (_, second) = call(&peer, Some(2), "second");
    script.wait_for_request(r#""by":"client""#).await;
    first.abort();
    second.abort();
}

#[tokio::test]
async fn the_standing_stream_follows_the_same_rule() {
    let ask = "data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"roots/list\"}\n\n";
    let script = Script::play(legacy("2025-11-25")).await;
    script.add([
        events("GET", ":\n\n", Then::Stay),
        Scene::new("tools/call", "", Then::Stay).and_say(ask),
        status("\"by\":\"first\"", 202),
        Scene::new("tools/call", "", Then::Stay).and_say(ask),
        status("\"by\":\"client\"", 202),
    ]);
    let client = super::client(&script).handler(Named("client", Echo::default()));
    let peer = client.build().unwrap().connect().await.unwrap();
    let (_, first) = call(&peer, Some(1), "first");
    script.wait_for_request(r#""by":"first""#).await;
    let (_, second) = call(&peer, Some(2), "second");
    script.wait_for_request(r#""by":"client""#).await;
    first.abort();
    second.abort();
}
