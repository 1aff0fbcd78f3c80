//! Connections: used again when they can be, and never at the price of a call.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::connect;
use super::script::{Scene, Script, Then, modern, result, status};

const CALL: &str = r#"{"name":"a"}"#;

/// Makes calls that are answered like this, one after the other, and counts connections.
async fn check(answer: impl Fn() -> Scene, expected: RangeInclusive<usize>) {
    let script = Script::play([modern()]).await;
    let server = connect(&script).await;
    for _ in 0..5 {
        script.add([answer()]);
        server.call("tools/call", CALL).await.unwrap();
    }
    assert!(expected.contains(&script.n_connections()), "{}", script.n_connections());
}

#[tokio::test]
async fn a_connection_is_used_again_after_any_answer_that_ends() {
    check(|| result("tools/call", "{}"), 1..=1).await;
    let data = "data: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}\n\n";
    // Ids have one digit here, so the length is known.
    let chunk = format!("{:x}\r\n{data}\r\n0\r\n\r\n", data.len() - 2);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-no: content-length\r\n";
    let events = format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}");
    // The next call may be quicker than the end of the stream.
    check(move || Scene::new("tools/call", events.clone(), Then::Stay), 1..=2).await;
}

#[tokio::test]
async fn a_connection_the_server_closed_costs_no_call() {
    let body = r#"{"jsonrpc":"2.0","id":$ID,"result":{}}"#;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: $LENGTH";
    for header in ["", "connection: close\r\n"] {
        let answer = format!("{head}\r\n{header}\r\n{body}");
        check(move || Scene::new("tools/call", answer.clone(), Then::Close), 5..=5).await;
    }
}

#[tokio::test]
async fn refusals_keep_their_connection() {
    let script = Script::play([modern()]).await;
    let server = connect(&script).await;
    for code in [400, 403, 500] {
        script.add([status("tools/call", code)]);
        server.call("tools/call", CALL).await.unwrap_err();
    }
    assert_eq!(script.n_connections(), 1);
}

#[tokio::test]
async fn connections_are_kept_for_seconds_only() {
    let script = Script::play([modern()]).await;
    let server = connect(&script).await;
    for (idle, n_connections) in [(2, 1), (2, 1), (5, 2), (1, 2)] {
        tokio::time::pause();
        tokio::time::sleep(Duration::from_secs(idle)).await;
        tokio::time::resume();
        script.add([result("tools/call", "{}")]);
        server.call("tools/call", CALL).await.unwrap();
        assert_eq!(script.n_connections(), n_connections, "after {idle} s");
    }
}

#[tokio::test]
async fn calls_at_once_have_a_connection_each() {
    let script = Script::play([modern()]).await;
    let server = connect(&script).await;
    script.add((0..20).map(|_| result("tools/call", "{}")));
    for _ in 0..2 {
        let calls: Vec<_> = (0..10)
            .map(|_| {
                let server = server.clone();
                tokio::spawn(async move { server.call("tools/call", CALL).await.unwrap() })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
    }
    assert!((2..=10).contains(&script.n_connections()), "{}", script.n_connections());
}
