//! Handlers that panic and clients that vanish: one request's end is nobody else's.

use lyceum_testkit::Request;
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};

use crate::lab::{Lab, PATH, call, modern, notification, text_of};
use crate::matrix::refused;

#[tokio::test]
async fn panicking_handler_is_32603_and_the_connection_lives() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let session = lab.session("2025-11-25").await;
    let mut connection = server.connect().await;
    for tool in ["panic", "panic_later", "panic_at_once"] {
        for request in [modern(7, tool, json!({})), call(&session, 7, tool, json!({}))] {
            refused(&connection.call(&request).await, 200, -32603, json!(7));
            let sse = request.set("accept", "text/event-stream");
            let events = connection.call(&sse).await.events();
            assert_eq!(events[0].json()["error"]["code"], -32603);
        }
    }
    lab.fixture.until_running(0).await;
    let alive = connection.call(&modern(7, "echo", json!({"text": "alive"}))).await;
    assert_eq!(text_of(&alive.json()), "alive");
}

#[tokio::test]
async fn panicking_and_endless_notifications_are_accepted_and_the_connection_lives() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let mut connection = server.connect().await;
    for method in ["notifications/panic", "notifications/hang"] {
        let note = notification(method, json!({}));
        let response = timeout(Duration::from_secs(2), connection.call(&note)).await.unwrap();
        assert_eq!((response.status(), response.text()), (202, ""));
    }
    let batch = r#"[{"jsonrpc":"2.0","method":"notifications/panic"},{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
    let response = connection.call(&Request::post(PATH, batch)).await;
    assert_eq!(response.json()[0]["id"], 1);
}

#[tokio::test]
async fn reset_at_every_byte_of_a_request_harms_nobody() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let session = lab.session("2025-11-25").await;
    let mut witness = server.connect().await;
    for request in [modern(7, "burst", json!({})), call(&session, 7, "burst", json!({}))] {
        let bytes = request.to_bytes();
        for length in 0..=bytes.len() {
            let mut connection = server.connect().await;
            connection.send(&bytes[..length]).await;
            connection.reset();
            if length % 50 == 0 {
                assert_eq!(witness.call(&modern(1, "echo", json!({}))).await.status(), 200);
            }
        }
    }
    timeout(Duration::from_secs(5), lab.fixture.until_running(0)).await.unwrap();
    assert_eq!(witness.call(&modern(1, "echo", json!({}))).await.status(), 200);
}

#[tokio::test]
async fn reset_at_every_byte_of_a_stream_harms_nobody() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let session = lab.session("2025-11-25").await;
    let mut witness = server.connect().await;
    for request in [modern(7, "burst", json!({})), call(&session, 7, "burst", json!({}))] {
        let mut connection = server.connect().await;
        connection.send(request.clone().header("connection", "close").to_bytes()).await;
        let length = connection.closed().await - "connection: close\r\n".len();
        assert!(length > 500, "{length}");
        for offset in 0..length {
            let mut connection = server.connect().await;
            connection.send(request.to_bytes()).await;
            assert_eq!(connection.raw(offset).await.len(), offset);
            connection.reset();
            if offset % 50 == 0 {
                assert_eq!(witness.call(&modern(1, "echo", json!({}))).await.status(), 200);
            }
        }
    }
    timeout(Duration::from_secs(5), lab.fixture.until_running(0)).await.unwrap();
    assert_eq!(witness.call(&modern(1, "echo", json!({}))).await.status(), 200);
}

#[tokio::test]
async fn repeated_headers_that_decide_something_are_refused() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let session = lab.session("2025-11-25").await;
    let before = lab.fixture.invocations();
    for (name, value, status) in [
        ("content-type", "application/json", 415),
        ("mcp-protocol-version", "2026-07-28", 400),
        ("mcp-method", "tools/call", 400),
        ("mcp-name", "echo", 400),
        ("host", "127.0.0.1", 400),
    ] {
        let request = modern(7, "echo", json!({})).header(name, value);
        assert_eq!(server.connect().await.call(&request).await.status(), status, "{name}");
    }
    let twice = call(&session, 7, "echo", json!({})).header("mcp-session-id", &session);
    refused(&server.connect().await.call(&twice).await, 400, -32600, Value::Null);
    assert_eq!(lab.fixture.invocations(), before);
    let accepts = modern(7, "echo", json!({}))
        .set("accept", "application/xml")
        .header("accept", "text/event-stream");
    let response = server.connect().await.call(&accepts).await;
    assert_eq!(response.events().len(), 1, "Accept lines are one list");
}
