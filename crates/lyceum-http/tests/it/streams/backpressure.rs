//! Readers that are slow, or stop: senders wait, memory stays bounded, connections are given up.

use lyceum_http::{Limits, ServeOptions};
use lyceum_testkit::Request;
use serde_json::json;
use tokio::time::{Duration, timeout};

use super::{modern_puppet, puppet_call, streaming, told};
use crate::lab::{Lab, call, modern, resident_kb};

const KB: usize = 1024;

/// A flood of `n` notifications of 64 KiB each, before the first wait.
async fn floods(lab: &Lab, n: usize) -> [Request; 3] {
    let arguments = json!({"n": n, "size": 64 * KB});
    let session = lab.session("2025-06-18").await;
    let legacy = call(&session, 7, "burst", arguments.clone());
    let stateless = legacy.clone().without("mcp-session-id");
    [legacy, stateless, modern(7, "burst", arguments)]
}

#[tokio::test]
async fn sender_waits_for_a_reader_that_stopped() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let stateless = puppet_call("x").without("mcp-session-id");
    for request in [puppet_call(&session), stateless, modern_puppet()] {
        let (puppet, mut live) = streaming(&lab, request).await;
        let mut sent = 0;
        let note = "x".repeat(64 * KB);
        let waiting = loop {
            let mut sending = puppet.begin_notify(&note);
            // In the modern era nothing moves unless the response is polled; a stopped reader does
            // not poll, so the bound is reached by the sender or by nobody.
            match timeout(Duration::from_millis(50), &mut sending).await {
                Ok(_) => sent += 1,
                Err(_) => break sending,
            }
            assert!(sent < 100, "the sender should be waiting by now");
        };
        assert!(sent * 64 * KB <= 320 * KB, "{sent} notes were taken");
        let reading = tokio::spawn(async move { live.rest().await });
        waiting.await.unwrap();
        puppet.finish("done");
        assert_eq!(reading.await.unwrap().len(), sent + 3);
    }
}

#[tokio::test]
async fn flood_before_the_response_begins_waits_for_its_reader_and_arrives_whole() {
    let lab = Lab::new();
    for request in floods(&lab, 64).await {
        let before = lab.fixture.emitted();
        let mut live = lab.open(&request).await;
        let emitted = lab.fixture.emitted() - before;
        assert!(
            emitted * 64 * KB <= 512 * KB,
            "{emitted} notes of 64 KiB taken before any was read"
        );
        let events = live.rest().await;
        assert_eq!(events.len(), 65);
        let numbers = told(&events);
        let numbers = numbers.iter().map(|note| note.trim_end_matches('x'));
        let expected = (1..=64).map(|at| at.to_string()).chain(["= done".to_owned()]);
        assert!(numbers.eq(expected), "in order, without a gap");
    }
}

#[tokio::test]
async fn client_that_stops_reading_is_disconnected() {
    let lab = Lab::new();
    let options =
        ServeOptions { write_stall: Duration::from_millis(300), ..ServeOptions::default() };
    let server = lab.serve_with(options).await;
    for request in floods(&lab, 200).await {
        let is_modern = request.headers.iter().any(|(name, _)| name == "mcp-method");
        let mut connection = server.connect().await;
        connection.send(request.to_bytes()).await;
        lab.fixture.until_running(1).await;
        // The sockets' buffers take a few megabytes, then nothing moves, then the server gives up:
        // a modern call is dropped, a legacy one runs to its end without a reader.
        let ended = timeout(Duration::from_secs(20), lab.fixture.until_running(0)).await;
        assert!(ended.is_ok(), "modern {is_modern}");
        assert!(connection.closes_within(Duration::from_secs(10)).await);
        assert_eq!(lab.fixture.emitted_by_last() < 200, is_modern);
    }
}

#[tokio::test]
async fn stalled_streams_cost_a_bounded_amount() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let before = resident_kb();
    let mut stalled = Vec::new();
    for request in floods(&lab, 1000).await.iter().cycle().take(15) {
        let mut connection = server.connect().await;
        connection.send(request.to_bytes()).await;
        connection.head().await.unwrap();
        stalled.push(connection);
    }
    // What the sockets' own buffers take is not the server's memory; wait until nothing moves.
    loop {
        let emitted = lab.fixture.emitted();
        tokio::time::sleep(Duration::from_millis(300)).await;
        if lab.fixture.emitted() == emitted {
            break;
        }
    }
    assert!(lab.fixture.emitted() < 15 * 1000, "everything was sent: nothing stalled");
    let grown = resident_kb().saturating_sub(before);
    assert!(grown < 200 << 10, "{grown} KiB for 15 streams that would take 940 MiB");
}

#[tokio::test]
async fn big_answers_arrive_whole_over_sockets() {
    let lab = Lab::with(|endpoint| endpoint.limits(Limits::default()));
    let server = lab.serve().await;
    for accept in ["application/json", "text/event-stream"] {
        let request = modern(7, "big", json!({"bytes": 1 << 20})).set("accept", accept);
        let response = server.connect().await.call(&request).await;
        assert!(response.body.len() > 1 << 20);
    }
}
