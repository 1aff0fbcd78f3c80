//! HTTP+SSE: how the client gets there, and how it talks there.

use std::sync::{Arc, Mutex};

use lyceum_http::client::{CallOptions, Client, ClientError, Peer, Transport};
use lyceum_wire::Revision;

use super::script::{Event, Scene, Script, Then, error, events, json, status};
use super::{Echo, client, connect, limits};

fn endpoint(url: &str) -> Scene {
    events("GET", &format!("event: endpoint\ndata: {url}\n\n"), Then::Stay)
}

/// A message is accepted, and answered on the stream.
pub(super) fn answered(cue: &'static str, result: &str) -> Scene {
    let event =
        format!("event: message\ndata: {{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{result}}}\n\n");
    status(cue, 202).and_say(&event)
}

/// A session from its stream on.
pub(super) fn session() -> [Scene; 3] {
    let hello = r#"{"protocolVersion":"2024-11-05","capabilities":{}}"#;
    [
        endpoint("/messages?session_id=1"),
        answered("\"initialize\"", hello),
        status("notifications/initialized", 202),
    ]
}

async fn connect_old(script: &Script) -> Peer {
    client(script).transport(Transport::HttpSse).build().unwrap().connect().await.unwrap()
}

const HEADERS: &str =
    "host: HOST\ncontent-type: application/json\naccept: application/json, text/event-stream\n\n";

#[tokio::test]
async fn only_the_endpoint_has_to_be_short() {
    let long = format!(r#"{{"x":"{}"}}"#, "x".repeat(1000));
    let script = Script::play(session()).await;
    script.add([answered("tools/call", &long)]);
    let short = limits(|limits| limits.greeting = 100);
    let client = client(&script).limits(short).transport(Transport::HttpSse).build().unwrap();
    let server = client.connect().await.unwrap();
    assert_eq!(server.call("tools/call", r#"{"name":"a"}"#).await.unwrap(), long);
}

#[tokio::test]
async fn the_ladder_leads_down_to_http_sse() {
    for (discover, initialize) in [(404, 405), (405, 404), (400, 400), (500, 405)] {
        let ladder = [status("server/discover", discover), status("\"initialize\"", initialize)];
        let script = Script::play(ladder.into_iter().chain(session())).await;
        script.add([answered("tools/call", r#"{"ok":1.0}"#)]);
        let server = connect(&script).await;
        assert_eq!(server.revision(), Revision::V2024_11_05);
        assert!(server.is_http_sse());
        let done = server.call("tools/call", r#"{"name":"a"}"#).await.unwrap();
        assert_eq!(done, r#"{"ok":1.0}"#);
        let to = "POST /messages?session_id=1 HTTP/1.1\n";
        let expected = [
            "GET /mcp HTTP/1.1\nhost: HOST\naccept: text/event-stream\n\n".to_owned(),
            format!(
                "{to}{HEADERS}{{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"initialize\",\"params\":{{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{{}},\"clientInfo\":{{\"name\":\"c\",\"version\":\"1\"}}}}}}"
            ),
            format!(
                "{to}{HEADERS}{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}}"
            ),
            format!(
                "{to}{HEADERS}{{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/call\",\"params\":{{\"name\":\"a\"}}}}"
            ),
        ];
        assert_eq!(script.requests()[2..], expected);
        drop(server);
        script.wait_for_hang_up("GET").await;
    }
}

#[tokio::test]
async fn the_ladder_ends_with_the_first_refusal() {
    let not_there = r#"{"code":-32600,"message":"nothing here"}"#;
    let script = Script::play([
        status("server/discover", 404),
        error("\"initialize\"", 404, not_there),
        status("GET", 405),
    ])
    .await;
    let refused = client(&script).build().unwrap().connect().await.unwrap_err();
    assert!(refused.to_string().contains("nothing here"), "{refused}");
}

#[tokio::test]
async fn an_endpoint_on_another_origin_is_never_called() {
    let other = Script::play([]).await;
    let script = Script::play([endpoint(&other.url("/messages"))]).await;
    let client = client(&script).transport(Transport::HttpSse).header("authorization", "secret");
    let refused = client.build().unwrap().connect().await.unwrap_err();
    assert!(refused.to_string().contains("another origin"), "{refused}");
    assert_eq!(other.events(), []);
}

#[tokio::test]
async fn a_stream_that_starts_with_something_else_is_refused() {
    for start in ["data: {}\n\n", "event: message\ndata: /m\n\n"] {
        let script = Script::play([events("GET", start, Then::Stay)]).await;
        let client = client(&script).transport(Transport::HttpSse).build().unwrap();
        let refused = client.connect().await.unwrap_err();
        assert!(refused.to_string().contains("endpoint"), "{refused}");
    }
}

#[tokio::test]
async fn requests_and_progress_share_the_stream() {
    let script = Script::play(session()).await;
    let busy = concat!(
        "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"t\"}}\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n",
    );
    script.add([status("tools/call", 202).and_say(busy)]);
    let done = "data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n";
    script.add([status("\"result\":{\"echo\":null}", 202).and_say(done)]);
    let echo = Echo::default();
    let client = client(&script).transport(Transport::HttpSse).handler(echo.clone());
    let server = client.build().unwrap().connect().await.unwrap();
    let n_progress = Arc::new(Mutex::new(0));
    let sink = Arc::clone(&n_progress);
    let options = CallOptions::new().on_progress(move |_| *sink.lock().unwrap() += 1);
    let params = r#"{"name":"a","_meta":{"progressToken":"t"}}"#;
    server.call_with("tools/call", params, &options).await.unwrap();
    assert_eq!(*n_progress.lock().unwrap(), 1);
    assert_eq!(echo.heard(), ["notifications/message {}"]);
}

#[tokio::test]
async fn a_lost_session_is_opened_again() {
    for status in [400, 404, 410] {
        let script = Script::play(session()).await;
        let server = connect_old(&script).await;
        script.add([json("tools/call", status, "{}")]);
        script.add(session());
        script.add([answered("tools/call", r#"{"ok":1}"#)]);
        let done = server.call("tools/call", r#"{"name":"a"}"#).await.unwrap();
        assert_eq!(done, r#"{"ok":1}"#);
        let n_streams = script.requests().iter().filter(|text| text.starts_with("GET")).count();
        assert_eq!(n_streams, 2);
        script.wait_for(|event| matches!(event, Event::HungUp(_))).await;
    }
}

#[tokio::test]
async fn a_session_that_is_lost_twice_or_refuses_with_a_reason_is_reported() {
    let script = Script::play(session()).await;
    let server = connect_old(&script).await;
    script.add([error("tools/call", 400, r#"{"code":-32602,"message":"bad"}"#)]);
    let refused = server.call("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
    assert_eq!(refused.rpc().unwrap().code.0, -32602);
    script.add([status("tools/call", 404)]);
    script.add(session());
    script.add([status("tools/call", 404)]);
    let lost = server.call("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
    assert!(lost.to_string().contains("forgot"), "{lost}");
}

#[tokio::test]
async fn events_of_unknown_names_are_ignored() {
    let [_, initialize, initialized] = session();
    let stream =
        "event: connected\ndata: 1\n\nevent: endpoint\ndata: /m\n\nevent: ping\ndata: no JSON\n\n";
    let script = Script::play([events("GET", stream, Then::Stay), initialize, initialized]).await;
    connect_old(&script).await;
    assert!(script.requests()[1].starts_with("POST /m HTTP/1.1\n"));
}

#[tokio::test]
async fn a_message_may_be_fetched_from_elsewhere_on_the_same_origin() {
    let script = Script::play(session()).await;
    let server = connect_old(&script).await;
    let body = r#"{"jsonrpc":"2.0","id":2,"result":{"fetched":true}}"#;
    let references = "data: //elsewhere/m\n\ndata: /gone\n\ndata: /parts/1?x=2\n\n";
    script.add([status("GET", 404), json("GET", 200, body)]);
    script.add([status("tools/call", 202).and_say(references)]);
    let done = server.call("tools/call", r#"{"name":"a"}"#).await.unwrap();
    assert_eq!(done, r#"{"fetched":true}"#);
    let expected = "GET /parts/1?x=2 HTTP/1.1\nhost: HOST\naccept: application/json\n\n";
    assert_eq!(script.requests().last().unwrap(), expected);
}

#[tokio::test]
async fn an_answer_may_be_quicker_than_the_acceptance() {
    let script = Script::play(session()).await;
    let server = connect_old(&script).await;
    let answer = "data: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}\n\n";
    script.add([Scene::new("tools/call", "", Then::Stay).and_say(answer)]);
    server.call("tools/call", r#"{"name":"a"}"#).await.unwrap();
    let talkative = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOK";
    script.add([Scene::new("tools/call", talkative, Then::Stay).and_say(answer)]);
    server.call("tools/call", r#"{"name":"a"}"#).await.unwrap();
}

#[tokio::test]
async fn custom_sse_has_fixed_places() {
    let [_, initialize, initialized] = session();
    let stream = events("GET", "event: endpoint\ndata: /ignored\n\n", Then::Stay);
    let script = Script::play([stream, initialize, initialized]).await;
    script.add([answered("tools/call", "{}")]);
    let client = Client::builder(script.url("/base/")).name("c", "1");
    let client = client.transport(Transport::CustomSse).build().unwrap();
    let server = client.connect().await.unwrap();
    assert!(server.is_http_sse());
    server.call("tools/call", r#"{"name":"a"}"#).await.unwrap();
    let starts: Vec<_> =
        script.requests().iter().map(|text| text.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(starts, ["/base/sse", "/base/message", "/base/message", "/base/message"]);
}

#[tokio::test]
async fn calls_under_way_end_with_their_stream() {
    let hello =
        "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2024-11-05\"}}\n\n";
    let script = Script::play([
        endpoint("/messages"),
        status("\"initialize\"", 202).and_say(hello),
        status("notifications/initialized", 202),
        status("tools/call", 202).and_say(&format!("data: {}\n\n", "x".repeat(2000))),
        status("cancelled", 202),
    ])
    .await;
    let client = client(&script).limits(limits(|limits| limits.event = 1000));
    let client = client.transport(Transport::HttpSse).build().unwrap();
    let server = client.connect().await.unwrap();
    assert!(!server.is_closed());
    let ended = server.call("tools/call", r#"{"name":"a"}"#).await;
    assert!(matches!(ended, Err(ClientError::Broken(_))), "{ended:?}");
    server.closed().await;
    assert!(server.is_closed());
    assert!(server.fault().is_some_and(|fault| fault.contains("a server-sent event")));
}

/// Answers of which there is no making sense, and what whoever waits for them is told.
const UNREADABLE: [(&str, &str); 4] = [
    (
        r#"{"jsonrpc":"2.0","id":$ID,"result":{"text":"\ud83d"}}"#,
        "the server's answer cannot be read",
    ),
    (r#"{"jsonrpc":"2.0","id":$ID,"result":{"a":1,"a":2}}"#, "the server's answer cannot be read"),
    (r#"{"id":$ID,"error":{"code":-7,"message":"no version"}}"#, "no version (-7)"),
    (r#"{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":-7,"message":"both"}}"#, "both (-7)"),
];

#[tokio::test]
async fn an_answer_that_cannot_be_read_costs_its_own_call_only() {
    for (answer, told) in UNREADABLE {
        let script = Script::play(session()).await;
        // A question that happens to have the same number is no answer.
        let odd = r#"{"jsonrpc":"2.0","id":$ID,"method":"ping","params":3}"#;
        let unreadable = format!("data: no message\n\ndata: {odd}\n\ndata: {answer}\n\n");
        script.add([
            status("\"first\"", 202),
            status("\"second\"", 202).and_say(&unreadable),
            answered("\"third\"", "{}"),
        ]);
        let server = connect_old(&script).await;
        let first = {
            let server = server.clone();
            tokio::spawn(async move { server.call("tools/call", r#"{"name":"first"}"#).await })
        };
        script.wait_for_request("first").await;
        let second = server.call("tools/call", r#"{"name":"second"}"#).await.unwrap_err();
        assert!(second.to_string().contains(told), "{answer}: {second}");
        server.call("tools/call", r#"{"name":"third"}"#).await.unwrap();
        assert!(!first.is_finished(), "{answer}");
        first.abort();
    }
}
