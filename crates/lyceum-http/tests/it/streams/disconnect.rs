//! Hanging up: the end of a modern call, and nothing to a legacy one.

use lyceum_http::Delivery;
use serde_json::json;
use tokio::time::{Duration, timeout};

use super::{begin, modern_puppet, puppet_call, streaming, told};
use crate::lab::{Lab, call, get, modern};
use crate::matrix::refused;

/// How soon a handler must be gone after its client.
const SOON: Duration = Duration::from_secs(2);

#[tokio::test]
async fn modern_call_dies_with_its_json_response() {
    let lab = Lab::new();
    let opening = begin(&lab, modern_puppet());
    let mut puppet = lab.fixture.puppet("p").await;
    opening.abort();
    timeout(SOON, puppet.gone()).await.unwrap();
}

#[tokio::test]
async fn modern_call_dies_with_its_stream() {
    let lab = Lab::new();
    let (mut puppet, live) = streaming(&lab, modern_puppet()).await;
    assert!(!puppet.is_gone());
    drop(live);
    timeout(SOON, puppet.gone()).await.unwrap();
}

#[tokio::test]
async fn modern_call_dies_when_its_connection_is_closed_or_reset() {
    let lab = Lab::new();
    let server = lab.serve().await;
    for reset in [false, true] {
        for stream in [false, true] {
            let mut connection = server.connect().await;
            connection.send(modern_puppet().to_bytes()).await;
            let mut puppet = lab.fixture.puppet("p").await;
            if stream {
                puppet.notify("first").await;
                connection.head().await.unwrap();
            }
            assert!(!puppet.is_gone());
            if reset {
                connection.reset()
            } else {
                drop(connection)
            }
            let gone = timeout(SOON, puppet.gone()).await;
            assert!(gone.is_ok(), "reset {reset}, stream {stream}");
        }
    }
    lab.fixture.until_running(0).await;
}

#[tokio::test]
async fn modern_calls_cut_off_at_any_moment_leave_nothing_behind() {
    let lab = Lab::new();
    let server = lab.serve().await;
    for round in 0..300_u64 {
        let mut connection = server.connect().await;
        let tool = ["hang", "burst", "echo"][round as usize % 3];
        connection.send(modern(7, tool, json!({"n": 20})).to_bytes()).await;
        // From "not read yet" to "answered long ago".
        tokio::time::sleep(Duration::from_micros(round * 7919 % 3000)).await;
        connection.reset();
    }
    timeout(SOON, lab.fixture.until_running(0)).await.unwrap();
}

#[tokio::test]
async fn legacy_call_outlives_its_connection() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let session = lab.session("2025-11-25").await;
    for reset in [false, true] {
        for stream in [false, true] {
            let mut connection = server.connect().await;
            connection.send(puppet_call(&session).to_bytes()).await;
            let mut puppet = lab.fixture.puppet("p").await;
            if stream {
                puppet.notify("first").await;
                connection.head().await.unwrap();
            }
            if reset {
                connection.reset()
            } else {
                drop(connection)
            }
            // The server notices by itself; a second client's answer proves that it is alive.
            let other = server.connect().await.call(&modern(1, "echo", json!({}))).await;
            assert_eq!(other.status(), 200);
            assert!(!puppet.is_gone());
            puppet.finish("done");
            timeout(SOON, puppet.gone()).await.unwrap();
        }
    }
    lab.fixture.until_running(0).await;
}

#[tokio::test]
async fn legacy_call_whose_client_left_before_anything_was_sent_runs_to_its_end() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let opening = begin(&lab, puppet_call(&session));
    let mut puppet = lab.fixture.puppet("p").await;
    opening.abort();
    assert!(opening.await.is_err());
    // Nobody can ever read these, so the sender must neither wait nor pile them up.
    for _ in 0..100 {
        let sent = timeout(SOON, puppet.notify(&"x".repeat(64 << 10))).await;
        assert_eq!(sent.unwrap(), Delivery::Dropped);
    }
    let asked = timeout(SOON, puppet.ask()).await.unwrap().unwrap();
    assert!(asked.is_err(), "nobody is there to be asked");
    puppet.finish("done");
    timeout(SOON, puppet.gone()).await.unwrap();
}

#[tokio::test]
async fn stateless_legacy_call_outlives_its_stream_and_its_notifications_are_dropped() {
    let lab = Lab::new();
    let request = puppet_call("x").without("mcp-session-id");
    let (mut puppet, live) = streaming(&lab, request).await;
    drop(live);
    for _ in 0..100 {
        let sent = timeout(SOON, puppet.notify(&"x".repeat(64 << 10))).await;
        assert_eq!(sent.unwrap(), Delivery::Dropped);
    }
    puppet.finish("done");
    timeout(SOON, puppet.gone()).await.unwrap();
}

#[tokio::test]
async fn cancelled_notification_ends_a_streaming_call_without_an_answer() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let (mut puppet, mut live) = streaming(&lab, puppet_call(&session)).await;
    let cancel = |session: &str, id: serde_json::Value| {
        crate::lab::notification("notifications/cancelled", json!({"requestId": id}))
            .header("mcp-session-id", session)
    };
    // Another id, the same id as a string, and another session's cancel nothing.
    let other = lab.session("2025-11-25").await;
    for miss in [cancel(&session, json!(8)), cancel(&session, json!("7")), cancel(&other, json!(7))]
    {
        assert_eq!(lab.send(&miss).await.status(), 202);
    }
    tokio::task::yield_now().await;
    assert!(!puppet.is_gone());
    assert_eq!(lab.send(&cancel(&session, json!(7))).await.status(), 202);
    timeout(SOON, puppet.gone()).await.unwrap();
    assert_eq!(told(&live.rest().await), ["prime", "first"]);
    assert_eq!(lab.fixture.notes(), 0, "the transport keeps cancellations to itself");
}

#[tokio::test]
async fn ended_session_stops_its_calls_and_streams() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let mut standalone = lab.open(&get(&session)).await;
    let opening = begin(&lab, call(&session, 8, "puppet", json!({"name": "q"})));
    let mut quiet = lab.fixture.puppet("q").await;
    let (mut puppet, mut live) = streaming(&lab, puppet_call(&session)).await;
    let delete = lyceum_testkit::Request::new("DELETE", "/mcp").header("mcp-session-id", &session);
    assert_eq!(lab.send(&delete).await.status(), 200);
    timeout(SOON, puppet.gone()).await.unwrap();
    timeout(SOON, quiet.gone()).await.unwrap();
    assert_eq!(told(&live.rest().await), ["prime", "first"]);
    assert_eq!(told(&standalone.rest().await), ["prime"]);
    let live = opening.await.unwrap();
    assert_eq!(live.head.get("content-type"), Some("application/json"));
    refused(&lab.send(&puppet_call(&session)).await, 404, -32600, serde_json::Value::Null);
}
