//! Servers with sessions: the handshake, what the server asks, resuming, renewing, cancelling.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use lyceum_http::client::{CallOptions, ClientError, ClientHandler, ServerRequest, Transport};
use lyceum_wire::{Era, Revision, RevisionSet, RpcError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::script::{Scene, Script, Then, error, events, handshake, json, legacy, result, status};
use super::{Echo, client, connect, connect_quietly, limits};

const POST: &str = "content-type: application/json\naccept: application/json, text/event-stream\n";

fn post(headers: &str, body: &str) -> String {
    format!("POST /mcp HTTP/1.1\nhost: HOST\n{headers}{POST}\n{body}")
}

fn initialize(id: u64) -> String {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}}}}}"#
    );
    post("", &body)
}

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

#[tokio::test]
async fn a_session_is_opened_used_and_closed() {
    for (version, routing) in [
        ("2025-11-25", "mcp-session-id: s1\nmcp-protocol-version: 2025-11-25\n"),
        ("2025-06-18", "mcp-session-id: s1\nmcp-protocol-version: 2025-06-18\n"),
        ("2025-03-26", "mcp-session-id: s1\n"),
        ("2024-11-05", "mcp-session-id: s1\n"),
    ] {
        let script = Script::play(legacy(version)).await;
        script.add([status("GET", 405), result("tools/call", "{}"), status("DELETE", 200)]);
        let server = connect(&script).await;
        assert_eq!((server.revision().as_str(), server.era()), (version, Era::Legacy));
        server.call("tools/call", r#"{"name":"a", "x":1.0}"#).await.unwrap();
        server.close().await;
        let call =
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a", "x":1.0}}"#;
        let get = format!("GET /mcp HTTP/1.1\nhost: HOST\n{routing}accept: text/event-stream\n\n");
        let expected = [
            initialize(2),
            post(routing, INITIALIZED),
            get,
            post(routing, call),
            format!("DELETE /mcp HTTP/1.1\nhost: HOST\n{routing}\n"),
        ];
        assert_eq!(script.requests()[1..], expected, "{version}");
    }
}

#[tokio::test]
async fn plain_json_servers_need_no_session_and_no_notifications() {
    let unknown = r#"{"code":-32601,"message":"what?"}"#;
    let hello = r#"{"protocolVersion":"2024-11-05","capabilities":{}}"#;
    const INITIALIZED: &str = "notifications/initialized";
    let refusals = [400, 404, 405, 415, 500, 502].map(|code| error(INITIALIZED, code, unknown));
    let collapse =
        Scene::new(INITIALIZED, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nTra", Then::Close);
    for refusal in refusals.into_iter().chain([collapse]) {
        let script = Script::play([
            error("server/discover", 200, unknown),
            result("\"initialize\"", hello),
            refusal,
            status("GET", 404),
            result("tools/list", r#"{"tools":[]}"#),
            result("tools/call", r#"{"ok":1.0}"#),
        ])
        .await;
        let client = client(&script).transport(Transport::Streamable).build().unwrap();
        let server = client.connect().await.unwrap();
        assert_eq!(server.list_tools().await.unwrap(), []);
        assert_eq!(server.call("tools/call", r#"{"name":"a"}"#).await.unwrap(), r#"{"ok":1.0}"#);
        server.close().await;
        assert_eq!(script.requests().len(), 6);
    }
}

#[tokio::test]
async fn a_server_that_stays_unreachable_is_told() {
    let script = Script::play(legacy("2025-11-25")).await;
    script.add([
        events("GET", "retry: 1\n\n", Then::Close),
        status("GET", 503),
        status("GET", 503),
        status("GET", 405),
    ]);
    let once = limits(|limits| limits.resumes = 1);
    let server = client(&script).limits(once).build().unwrap().connect().await.unwrap();
    assert!(!server.is_closed());
    server.closed().await;
    assert!(server.is_closed());
}

#[tokio::test]
async fn a_handshake_needs_a_version_both_sides_know() {
    for version in ["2026-07-28", "1999-01-01", "2024-11-05"] {
        let script = Script::play(legacy(version)).await;
        let newer = [Revision::V2025_11_25, Revision::V2025_06_18].into_iter().collect();
        let client = client(&script).versions(RevisionSet::union(newer, RevisionSet::MODERN));
        let refused = client.build().unwrap().connect().await;
        let Err(ClientError::NoCommonVersion { offered }) = refused else { panic!("{refused:?}") };
        assert_eq!(offered, version);
    }
}

#[tokio::test]
async fn requests_of_the_server_are_answered_by_post() {
    let stream = concat!(
        "data: {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"id\":1.0,\"method\":\"roots/list\",\"params\":{\"x\": 1}}\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"sampling/createMessage\"}\n\n",
    );
    let script = Script::play(legacy("2025-11-25")).await;
    script.add([events("tools/call", stream, Then::Stay)]);
    script.add([status("\"a\"", 202), status("1.0", 202), status("no model", 202)]);
    let client = client(&script).handler(Echo::default()).standing_stream(false);
    let server = client.build().unwrap().connect().await.unwrap();
    let call = tokio::spawn(async move { server.call("tools/call", r#"{"name":"a"}"#).await });
    script.wait_for_request("\"a\",\"result\":{}").await;
    script.wait_for_request("no model here").await;
    script.wait_for_request("\"id\":1.0").await;
    call.abort();
    let mut answers: Vec<String> = (4..7).map(|n| script.body(n)).collect();
    answers.sort();
    let expected = [
        r#"{"jsonrpc":"2.0","id":"a","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1.0,"result":{"echo":{"x": 1}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no model here"}}"#,
    ];
    assert_eq!(answers, expected);
    assert!(script.requests()[5].contains("mcp-session-id: s1\n"));
}

/// Never answers; the channel hears when it is asked, and closes when it is dropped.
struct Undecided(Mutex<Option<oneshot::Sender<mpsc::Receiver<()>>>>);

impl ClientHandler for Undecided {
    async fn request(&self, _: ServerRequest) -> Result<Bytes, RpcError> {
        let (_mark, dropped) = mpsc::channel(1);
        let asked = self.0.lock().unwrap().take().unwrap();
        asked.send(dropped).unwrap();
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_request_the_server_cancels_gets_no_answer() {
    let ask = "data: {\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"roots/list\"}\n\n";
    let cancel = concat!(
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":5}}\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"ping\"}\n\n",
    );
    let script = Script::play(legacy("2025-11-25")).await;
    script.add([events("GET", ask, Then::Stay), status("\"id\":6", 202)]);
    script.add([result("tools/call", "{}").and_say(cancel)]);
    let (sender, asked) = oneshot::channel();
    let client = client(&script).handler(Undecided(Mutex::new(Some(sender))));
    let server = client.build().unwrap().connect().await.unwrap();
    let mut dropped = asked.await.unwrap();
    server.call("tools/call", r#"{"name":"a"}"#).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(10), dropped.recv()).await;
    assert_eq!(ended, Ok(None));
    script.wait_for_request("\"id\":6,\"result\":{}").await;
    drop(server);
    script.wait_for_hang_up("GET").await;
    assert!(!script.requests().iter().any(|text| text.contains("\"id\":5")));
}

#[tokio::test]
async fn a_broken_stream_is_resumed_when_the_server_says() {
    let primed = "id: e1\nretry: 150\ndata:\n\n";
    let more = "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n";
    let rest = "data: {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"ok\":1}}\n\n";
    let script = Script::play(legacy("2025-11-25")).await;
    script.add([
        events("tools/call", primed, Then::Close),
        events("GET", more, Then::Close),
        events("GET", rest, Then::Close),
    ]);
    let server = connect_quietly(&script).await;
    let started = Instant::now();
    let done = server.call("tools/call", r#"{"name":"a"}"#).await.unwrap();
    assert_eq!(done, r#"{"ok":1}"#);
    assert!(started.elapsed() >= Duration::from_millis(300), "{:?}", started.elapsed());
    let routing = "mcp-session-id: s1\nmcp-protocol-version: 2025-11-25\n";
    let resume = |id: &str| {
        let last = format!("last-event-id: {id}\n");
        format!("GET /mcp HTTP/1.1\nhost: HOST\n{routing}{last}accept: text/event-stream\n\n")
    };
    assert_eq!(script.requests()[4..], [resume("e1"), resume("e2")]);
}

#[tokio::test]
async fn a_broken_stream_without_ids_is_lost() {
    let script = Script::play(legacy("2025-11-25")).await;
    script.add([events("tools/call", ": hm\n\n", Then::Close), status("cancelled", 202)]);
    let ended = connect_quietly(&script).await.call("tools/call", r#"{"name":"a"}"#).await;
    assert!(matches!(ended, Err(ClientError::Interrupted)), "{ended:?}");
}

#[tokio::test]
async fn resuming_in_vain_ends() {
    let script = Script::play(legacy("2025-11-25")).await;
    script.add([
        events("tools/call", "id: 1\nretry: 1\ndata:\n\n", Then::Close),
        status("GET", 503),
        status("cancelled", 202),
    ]);
    let few = limits(|limits| limits.resumes = 1);
    let client = client(&script).limits(few).standing_stream(false);
    let server = client.build().unwrap().connect().await.unwrap();
    let ended = server.call("tools/call", r#"{"name":"a"}"#).await;
    assert!(matches!(ended, Err(ClientError::Interrupted)), "{ended:?}");
    script.wait_for_request("notifications/cancelled").await;
}

#[tokio::test]
async fn a_forgotten_session_is_opened_again_once() {
    let script = Script::play(legacy("2025-11-25")).await;
    script.add([
        status("tools/call", 404),
        handshake("s2", "2025-11-25"),
        status("notifications/initialized", 202),
        result("tools/call", r#"{"ok":1}"#),
    ]);
    let server = connect_quietly(&script).await;
    let params = r#"{"name":"a"}"#;
    assert_eq!(server.call("tools/call", params).await.unwrap(), r#"{"ok":1}"#);
    assert!(script.requests()[6].contains("mcp-session-id: s2\n"));

    script.add([
        status("tools/call", 404),
        handshake("s3", "2025-11-25"),
        status("notifications/initialized", 202),
        status("tools/call", 404),
    ]);
    let ended = server.call("tools/call", params).await;
    assert!(matches!(ended, Err(ClientError::Protocol(_))), "{ended:?}");
    assert_eq!(script.requests().len(), 11);
}

#[tokio::test]
async fn a_session_that_is_refused_with_400_is_opened_again_unless_the_call_was_answered() {
    let about_session = r#"{"code":-32000,"message":"Bad Request: No valid session ID provided"}"#;
    for id in ["null", "\"server-error\""] {
        let refusal = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{about_session}}}"#);
        let script = Script::play(legacy("2025-11-25")).await;
        script.add([
            json("tools/call", 400, &refusal),
            handshake("s2", "2025-11-25"),
            status("notifications/initialized", 202),
            result("tools/call", r#"{"ok":1}"#),
        ]);
        let done = connect_quietly(&script).await.call("tools/call", r#"{"name":"a"}"#).await;
        assert_eq!(done.unwrap(), r#"{"ok":1}"#, "{id}");
    }
    // These may come from the tool, or have nothing to do with the session.
    let other = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request"}}"#;
    for refusal in [error("tools/call", 400, about_session), json("tools/call", 400, other)] {
        let script = Script::play(legacy("2025-11-25")).await;
        script.add([refusal]);
        let ended = connect_quietly(&script).await.call("tools/call", r#"{"name":"a"}"#).await;
        assert_eq!(ended.unwrap_err().rpc().unwrap().code.0, -32000);
        assert_eq!(script.requests().len(), 4);
    }
}

#[tokio::test]
async fn a_session_is_no_more_when_its_stream_is_not_found_again() {
    let refusal = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}"#;
    for refusal in [status("GET", 404), json("GET", 400, refusal)] {
        let script = Script::play(legacy("2025-11-25")).await;
        script.add([events("GET", "retry: 1\n\n", Then::Close), refusal]);
        let server = connect(&script).await;
        tokio::time::timeout(Duration::from_secs(10), server.closed()).await.unwrap();
        assert_eq!(server.fault().as_deref(), Some("the server has forgotten the session"));
        script.add([
            handshake("s2", "2025-11-25"),
            status("notifications/initialized", 202),
            status("GET", 404),
        ]);
        server.reopen().await.unwrap();
        assert_eq!(server.renewed(0).await, 1);
        // A server may have no such stream at all.
        script.wait_for_request("GET /mcp HTTP/1.1\nhost: HOST\nmcp-session-id: s2").await;
        assert!(!server.is_closed());
    }
}

#[tokio::test]
async fn a_stream_that_cannot_be_resumed_may_have_missed_something() {
    let script = Script::play(legacy("2025-11-25")).await;
    script.add([
        events("GET", "retry: 1\nid: 1\ndata:\n\n", Then::Close),
        events("GET", "id: 2\ndata:\n\n", Then::Close),
        events("GET", "", Then::Stay),
    ]);
    let server = connect(&script).await;
    script.wait_for_request("last-event-id: 2").await;
    let missed = tokio::time::timeout(Duration::from_millis(50), server.missed(0)).await;
    assert!(missed.is_err(), "the server was told what came last");

    let again = vec![status("GET", 409), events("GET", "", Then::Stay)];
    for after in [again, vec![status("GET", 405)]] {
        let script = Script::play(legacy("2025-11-25")).await;
        script.add([events("GET", "retry: 1\n\n", Then::Close)]);
        script.add(after);
        let server = connect(&script).await;
        let missed = tokio::time::timeout(Duration::from_secs(10), server.missed(0)).await;
        assert_eq!(missed, Ok(1));
    }
}

#[tokio::test]
async fn a_404_without_a_session_is_just_an_answer() {
    let hello = r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#;
    let script = Script::play([
        status("server/discover", 400),
        result("\"initialize\"", hello),
        status("notifications/initialized", 202),
        error("nonsense", 404, r#"{"code":-32601,"message":"no"}"#),
    ])
    .await;
    let ended = connect_quietly(&script).await.call("nonsense", "").await.unwrap_err();
    assert_eq!(ended.rpc().unwrap().code.0, -32601);
}

#[tokio::test]
async fn dropping_a_call_tells_the_server() {
    for stream in ["", "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hello\n\n"] {
        let script = Script::play(legacy("2025-11-25")).await;
        script.add([Scene::new("tools/call", stream, Then::Stay), status("cancelled", 202)]);
        let server = connect_quietly(&script).await;
        let call = tokio::spawn(async move { server.call("tools/call", r#"{"name":"a"}"#).await });
        script.wait_for_request("tools/call").await;
        call.abort();
        script.wait_for_request("notifications/cancelled").await;
        let expected = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3,"reason":"the caller gave up"}}"#;
        assert_eq!(script.body(4), expected);
    }
}

#[tokio::test]
async fn a_call_that_ended_is_not_cancelled() {
    let script = Script::play(legacy("2025-11-25")).await;
    script.add([
        error("tools/call", 200, r#"{"code":-32602,"message":"no"}"#),
        result("tools/list", r#"{"tools":[]}"#),
    ]);
    let server = connect_quietly(&script).await;
    server.call("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
    server.list_tools().await.unwrap();
    assert_eq!(script.requests().len(), 5);
}

#[tokio::test]
async fn a_silent_server_is_given_up_and_told() {
    let script = Script::play(legacy("2025-11-25")).await;
    script.add([Scene::new("tools/call", "", Then::Stay), status("cancelled", 202)]);
    let server = connect_quietly(&script).await;
    let options = CallOptions::new().silence(Duration::from_millis(50));
    let ended = server.call_with("tools/call", r#"{"name":"a"}"#, &options).await;
    assert!(matches!(ended, Err(ClientError::Silent(_))), "{ended:?}");
    script.wait_for_request("notifications/cancelled").await;
}

#[tokio::test]
async fn answers_on_the_standing_stream_reach_their_call() {
    let elsewhere = concat!(
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":3}}\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"ok\":1}}\n\n",
    );
    let script = Script::play(legacy("2025-11-25")).await;
    script.add([events("GET", ": hello\n\n", Then::Stay)]);
    script.add([events("tools/call", ": later\n\n", Then::Stay).and_say(elsewhere)]);
    let echo = Echo::default();
    let server = client(&script).handler(echo.clone()).build().unwrap().connect().await.unwrap();
    let n_progress = Arc::new(Mutex::new(0));
    let sink = Arc::clone(&n_progress);
    let options = CallOptions::new().on_progress(move |_| *sink.lock().unwrap() += 1);
    let done = server.call_tool("a", "", &options).await.unwrap();
    assert_eq!(done, r#"{"ok":1}"#);
    assert_eq!(*n_progress.lock().unwrap(), 1);
    assert!(echo.heard().is_empty());
}

#[tokio::test]
async fn the_standing_stream_goes_on_after_what_cannot_be_read() {
    let odd = "data: {\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{\"x\":\"\\ud83d\"}}\n\n";
    let good = "data: {\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n\n";
    let large = format!("id: 7\ndata: {}\n\n", "x".repeat(2000));
    let script = Script::play(legacy("2025-11-25")).await;
    script.add([events("GET", &format!("retry: 10\n\n{odd}{good}{large}"), Then::Stay)]);
    script.add([events("GET", good, Then::Stay)]);
    let echo = Echo::default();
    let client = client(&script).handler(echo.clone()).limits(limits(|it| it.event = 1000));
    let server = client.build().unwrap().connect().await.unwrap();
    let missed = tokio::time::timeout(Duration::from_secs(10), server.missed(0)).await;
    assert_eq!(missed, Ok(1), "what was too large may have mattered");
    let start = Instant::now();
    while echo.heard() != ["b ", "b "] {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", echo.heard());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!script.requests()[4].contains("last-event-id"), "{}", script.requests()[4]);
}

#[tokio::test]
async fn a_standing_stream_that_cannot_be_read_again_and_again_is_given_up() {
    // What can be read before it has the client come back at once.
    let good = "retry: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n\n";
    let large = format!("{good}data: {}\n\n", "x".repeat(2000));
    let script = Script::play(legacy("2025-11-25")).await;
    script.add((0..3).map(|_| events("GET", &large, Then::Stay)));
    let few = limits(|it| (it.event, it.resumes) = (1000, 2));
    let _server = client(&script).limits(few).build().unwrap().connect().await.unwrap();
    let n_gets = || script.requests().iter().filter(|text| text.starts_with("GET")).count();
    let start = Instant::now();
    while n_gets() < 3 {
        assert!(start.elapsed() < Duration::from_secs(10), "{} times", n_gets());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // A fourth time would find nothing scripted.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(n_gets(), 3);
}

#[tokio::test]
async fn batches_on_a_stream_are_taken_apart() {
    let batch = "data: [{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"},{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}]\n\n";
    let script = Script::play(legacy("2025-03-26")).await;
    script.add([events("tools/call", batch, Then::Close)]);
    let echo = Echo::default();
    let client = client(&script).handler(echo.clone()).standing_stream(false);
    let server = client.build().unwrap().connect().await.unwrap();
    server.call("tools/call", r#"{"name":"a"}"#).await.unwrap();
    assert_eq!(echo.heard(), ["notifications/message "]);
}

#[tokio::test]
async fn headers_given_to_the_client_go_with_every_request() {
    let script = Script::play(legacy("2025-11-25")).await;
    script.add([status("GET", 405), result("tools/call", "{}"), status("DELETE", 200)]);
    let client = client(&script).header("authorization", "Bearer x");
    let server = client.build().unwrap().connect().await.unwrap();
    server.call("tools/call", r#"{"name":"a"}"#).await.unwrap();
    server.close().await;
    let requests = script.requests();
    assert_eq!(requests.len(), 6);
    assert!(requests.iter().all(|text| text.contains("\nauthorization: Bearer x\n")));
}

#[tokio::test]
async fn a_closed_peer_calls_nobody() {
    let script = Script::play(legacy("2025-11-25")).await;
    script.add([status("DELETE", 405)]);
    let server = connect_quietly(&script).await;
    server.clone().close().await;
    assert!(matches!(server.call("ping", "").await, Err(ClientError::Closed)));
}
