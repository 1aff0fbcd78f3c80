//! Upstreams whose JSON nests without end (reliability row 10), wherever it is: refused, and nothing
//! that reads it runs out of stack.

use std::time::Duration;

use lyceum_gateway::{EraChoice, Status, Target, UpstreamConfig};
use lyceum_http::client::CallOptions;
use lyceum_testkit::Request;
use lyceum_wire::{Message, encode};
use serde_json::json;

use crate::healing::{modern, outcome, status};
use crate::house::{House, upstream_program};
use crate::mirror::{Mirror, Reply, plain};

const DEPTHS: [usize; 3] = [129, 100_000, 1_000_000];

/// Arrays or objects, so deep.
fn nested(depth: usize, objects: bool) -> String {
    match objects {
        true => format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth)),
        false => format!("{}{}", "[".repeat(depth), "]".repeat(depth)),
    }
}

/// Where the nesting is.
#[derive(Debug, Clone, Copy)]
enum Place {
    Result,
    Error,
    Refusal,
    Notification,
    Definition,
    Schema,
    Greeting,
}

/// A plain server that nests in one place.
async fn nesting(place: Place, deep: String) -> Mirror {
    Mirror::answering(move |request| {
        let reply = |result: String| Reply::Result(result);
        let http = |status: &str, kind: &str, body: String| {
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
            Reply::Bytes([head, body].concat().into_bytes())
        };
        let id = &request.id;
        let error = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":"no","data":{deep}}}}}"#);
        match (place, request.method.as_str()) {
            (Place::Result, "tools/call") => {
                reply(format!(r#"{{"content":[],"structuredContent":{{"a":{deep}}}}}"#))
            }
            (Place::Error, "tools/call") => http("200 OK", "application/json", error),
            (Place::Refusal, "tools/call") => http("400 X", "application/json", error),
            (Place::Notification, "tools/call") => {
                let note = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"error","data":{deep}}}}}"#);
                let answer = encode::result(id, br#"{"content":[]}"#);
                let answer = String::from_utf8_lossy(&answer).into_owned();
                http("200 OK", "text/event-stream", format!("data: {note}\n\ndata: {answer}\n\n"))
            }
            (Place::Definition, "tools/list") => {
                reply(format!(r#"{{"tools":[{{"name":"mirror","inputSchema":{{"type":"object"}},"x":{deep}}}]}}"#))
            }
            (Place::Schema, "tools/list") => {
                reply(format!(r#"{{"tools":[{{"name":"mirror","inputSchema":{{"type":"object","properties":{{"a":{deep}}}}}}}]}}"#))
            }
            (Place::Greeting, "initialize") => {
                reply(format!(r#"{{"protocolVersion":"2025-03-26","capabilities":{{"tools":{{}},"x":{deep}}},"serverInfo":{{"name":"m","version":"1"}}}}"#))
            }
            (_, method) => plain(method),
        }
    })
    .await
}

/// What a client gets to see of an answer, raw.
async fn answered(house: &House) -> String {
    let params = json!({"name": "up_mirror", "arguments": {}});
    let request = Request::modern("/mcp", 1, "tools/call", params);
    house.front.connect().await.call(&request).await.text().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_answers_are_refused_wherever_they_are_deep() {
    for place in [Place::Result, Place::Error, Place::Refusal, Place::Notification] {
        for depth in DEPTHS {
            for objects in [false, true] {
                let upstream = nesting(place, nested(depth, objects)).await;
                let house = House::with(vec![upstream.config("up")], None).await;
                let told = answered(&house).await;
                let cell = format!("{place:?} {depth} {objects}: {told:.1000}");
                assert!(told.len() < 1000 && told.contains("isError\":true"), "{cell}");
                house.gateway.close().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_definitions_and_greetings_are_refused_and_the_gateway_goes_on() {
    for (place, reason) in [
        (Place::Definition, "nests deeper"),
        (Place::Schema, "nests deeper"),
        (Place::Greeting, "nests deeper"),
    ] {
        for depth in DEPTHS {
            let upstream = nesting(place, nested(depth, true)).await;
            let house = House::unsettled(vec![upstream.config("up")]).await;
            assert!(house.gateway.settled(Duration::from_secs(20)).await);
            let (_, health) = &house.gateway.health()[0];
            let error = health.last_error.clone().unwrap_or_default();
            // A greeting may not be as long as everything else.
            let is_long = matches!(place, Place::Greeting) && error.contains("is larger than");
            assert!(error.contains(reason) || is_long, "{place:?} {depth}: {health:?}");
            assert_eq!(health.tools, 0, "{place:?} {depth}");
            let peer = modern(&house).await;
            assert!(peer.list_tools().await.unwrap().is_empty(), "{place:?} {depth}");
            house.gateway.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_as_deep_as_it_may_be_passes() {
    // The message, its result, and what is around the value.
    let deepest = nested(lyceum_wire::MAX_DEPTH - 3, false);
    let upstream = nesting(Place::Result, deepest.clone()).await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let told = answered(&house).await;
    assert!(told.contains(&deepest), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_answers_are_too_deep_is_not_waited_for() {
    let program = upstream_program().to_str().unwrap().to_owned();
    let command = Target::Command(vec![program, "hostile".to_owned()]);
    let config = UpstreamConfig { era: EraChoice::Legacy, ..UpstreamConfig::new("up", command) };
    let house = House::with(vec![config], None).await;
    status(&house, "up", Status::Up).await;
    let peer = modern(&house).await;
    assert_eq!(outcome(&peer, "up_deep_64").await, (false, "deep".to_owned()));
    for depth in DEPTHS {
        let called = peer.call_tool(&format!("up_deep_{depth}"), "{}", &CallOptions::new()).await;
        let told = called.unwrap_err().to_string();
        assert!(told.contains("the server's answer cannot be read"), "{depth}: {told}");
        assert!(told.contains("nests deeper"), "{depth}: {told}");
        assert_eq!(outcome(&peer, "up_behave").await, (false, "behaved".to_owned()));
    }
    house.gateway.close().await;
}

#[test]
fn the_deepest_there_is_is_read_without_recursion() {
    // A thread with a stack that would not hold a frame per level.
    let small = std::thread::Builder::new().stack_size(128 << 10);
    let reader = small.spawn(|| {
        for objects in [false, true] {
            let deep = nested(1_000_000, objects);
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":{deep}}}}}"#);
            assert!(Message::parse(&body.into()).is_err());
        }
    });
    reader.unwrap().join().unwrap();
}
