//! Rows about what the body is: malformed, not JSON-RPC, a batch, a notification, a response.

use lyceum_http::Dialect;
use lyceum_testkit::Request;
use serde_json::{Value, json};

use super::{refused, succeeded};
use crate::lab::{Lab, PATH, call, initialize, modern, notification};

/// A body sent by a legacy client and by a modern one.
fn both_eras(body: &str) -> [Request; 2] {
    [initialize("2025-11-25").body(body), modern(1, "echo", json!({})).body(body)]
}

#[tokio::test]
async fn malformed_json_is_400_with_32700_and_no_id() {
    let lab = Lab::new();
    for body in [
        "",
        "{",
        "nonsense",
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"",
        "{}{}",
        "\u{feff}{}",
    ] {
        for request in both_eras(body) {
            refused(&lab.send(&request).await, 400, -32700, Value::Null);
        }
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn json_that_is_not_json_rpc_is_400_with_32600_and_echoes_a_valid_id() {
    let lab = Lab::new();
    for (body, id) in [
        ("{}", Value::Null),
        ("7", Value::Null),
        ("null", Value::Null),
        (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, json!(7)),
        (r#"{"id":"a","method":"ping"}"#, json!("a")),
        (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, json!(7)),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}"#, json!(7)),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, Value::Null),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, Value::Null),
        (r#"{"jsonrpc":"2.0","id":7,"Method":"ping"}"#, json!(7)),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","method":"pong"}"#, json!(7)),
    ] {
        for request in both_eras(body) {
            refused(&lab.send(&request).await, 400, -32600, id.clone());
        }
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn batch_is_processed_for_2025_03_26_only() {
    let lab = Lab::new();
    let body = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
    let in_session = |session: &str| Request::post(PATH, body).header("mcp-session-id", session);
    let session = lab.session("2025-03-26").await;
    let response = lab.send(&in_session(&session)).await;
    assert_eq!(
        (response.status(), response.text()),
        (200, r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#)
    );
    assert_eq!(lab.send(&Request::post(PATH, body)).await.status(), 200, "stateless is 2025-03-26");
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let session = lab.session(revision).await;
        refused(&lab.send(&in_session(&session)).await, 400, -32600, Value::Null);
        let stateless = Request::post(PATH, body).header("mcp-protocol-version", revision);
        refused(&lab.send(&stateless).await, 400, -32600, Value::Null);
    }
    let modern = Request::post(PATH, body).header("mcp-protocol-version", "2026-07-28");
    refused(&lab.send(&modern).await, 400, -32600, Value::Null);
}

#[tokio::test]
async fn empty_batch_is_400_with_32600() {
    let lab = Lab::new();
    for request in both_eras("[]") {
        refused(&lab.send(&request).await, 400, -32600, Value::Null);
    }
}

#[tokio::test]
async fn initialize_inside_a_batch_is_400_with_32600() {
    let lab = Lab::new();
    let member = String::from_utf8(initialize("2025-03-26").body).unwrap();
    for request in both_eras(&format!("[{member}]")) {
        refused(&lab.send(&request).await, 400, -32600, Value::Null);
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn accepted_notification_is_202_with_no_body() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let before = lab.fixture.notes();
    let legacy =
        notification("notifications/initialized", json!({})).header("mcp-session-id", &session);
    let response = lab.send(&legacy).await;
    assert_eq!((response.status(), response.text()), (202, ""));
    assert_eq!(lab.fixture.notes(), before + 1);
    let modern =
        notification("notifications/x", json!({})).header("mcp-protocol-version", "2026-07-28");
    let response = lab.send(&modern).await;
    assert_eq!((response.status(), response.text()), (202, ""));
    assert_eq!(lab.fixture.notes(), before + 1, "modern notifications are dropped");
}

#[tokio::test]
async fn rejected_notification_is_4xx_without_id() {
    let lab = Lab::new();
    let note = notification("notifications/initialized", json!({}));
    let unknown = note.clone().header("mcp-session-id", "unknown");
    refused(&lab.send(&unknown).await, 404, -32600, Value::Null);
    let garbage = note.clone().header("mcp-protocol-version", "v999");
    refused(&lab.send(&garbage).await, 400, -32022, Value::Null);
    let strict = Lab::speaking(Dialect::Strict);
    refused(&strict.send(&note).await, 400, -32600, Value::Null);
    assert_eq!(lab.fixture.notes() + strict.fixture.notes(), 0);
}

#[tokio::test]
async fn client_response_is_202_in_a_session_and_400_in_the_modern_era() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    for body in [
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"nobody asked","error":{"code":1,"message":"no"}}"#,
    ] {
        let legacy = Request::post(PATH, body).header("mcp-session-id", &session);
        let response = lab.send(&legacy).await;
        assert_eq!((response.status(), response.text()), (202, ""));
        let modern = Request::post(PATH, body).header("mcp-protocol-version", "2026-07-28");
        refused(&lab.send(&modern).await, 400, -32600, Value::Null);
        refused(&lab.send(&Request::post(PATH, body)).await, 400, -32600, Value::Null);
    }
}

#[tokio::test]
async fn ids_come_back_as_they_were_sent() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    for id in ["0", "-1", "1.0", "18446744073709551617", "\"\\u00e9\"", "\"\"", "\" spaced \""] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let response = lab.send(&call(&session, 1, "x", json!({})).body(body)).await;
        assert_eq!(response.text(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
    succeeded(&lab.send(&modern("nonce", "echo", json!({}))).await, "nonce");
}
