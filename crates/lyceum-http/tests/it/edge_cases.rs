//! Which era a message belongs to, in the cases that could go either way. Each test is one row.

use lyceum_testkit::{Request, Response};
use serde_json::{Value, json};

use crate::lab::{Lab, PATH, call, get, initialize, modern, notification};
use crate::matrix::{refused, succeeded};

const PV: &str = "mcp-protocol-version";

fn negotiated(response: &Response) -> String {
    let message = succeeded(response, 0);
    message["result"]["protocolVersion"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn initialize_asking_for_2026_is_answered_with_the_newest_legacy_revision() {
    let lab = Lab::new();
    for asked in ["2026-07-28", "2099-01-01", "garbage", ""] {
        let response = lab.send(&initialize(asked)).await;
        assert_eq!(negotiated(&response), "2025-11-25", "{asked}");
        assert!(response.head.get("mcp-session-id").is_some());
    }
    for known in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        assert_eq!(negotiated(&lab.send(&initialize(known)).await), known);
    }
}

#[tokio::test]
async fn initialize_without_a_version_is_32602_in_band() {
    let lab = Lab::new();
    for params in [json!({}), json!({"protocolVersion": 7}), json!({"protocolVersion": null})] {
        let response = lab.send(&Request::legacy(PATH, 7, "initialize", params)).await;
        refused(&response, 200, -32602, json!(7));
        assert_eq!(response.head.get("mcp-session-id"), None);
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn initialize_with_a_2026_header_but_no_meta_is_32602() {
    let lab = Lab::new();
    let request = initialize("2026-07-28").header(PV, "2026-07-28");
    let response = lab.send(&request).await;
    refused(&response, 400, -32602, json!(0));
    assert!(response.text().contains("2026-07-28"), "names what is expected: {}", response.text());
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn initialize_with_full_modern_meta_is_404_32601() {
    let response = Lab::new().send(&Request::modern(PATH, 7, "initialize", json!({}))).await;
    refused(&response, 404, -32601, json!(7));
    assert_eq!(response.head.get("mcp-session-id"), None);
}

#[tokio::test]
async fn initialize_with_its_own_version_in_the_header_is_fine() {
    let response = Lab::new().send(&initialize("2025-06-18").header(PV, "2025-06-18")).await;
    assert_eq!(negotiated(&response), "2025-06-18");
}

#[tokio::test]
async fn initialize_ignores_a_legacy_header_that_differs() {
    let response = Lab::new().send(&initialize("2025-06-18").header(PV, "2025-03-26")).await;
    assert_eq!(negotiated(&response), "2025-06-18");
}

#[tokio::test]
async fn header_2026_without_meta_is_32602_with_its_id() {
    let lab = Lab::new();
    let request = Request::legacy(PATH, 7, "tools/list", json!({})).header(PV, "2026-07-28");
    refused(&lab.send(&request).await, 400, -32602, json!(7));
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn meta_without_the_header_is_32020() {
    let lab = Lab::new();
    refused(&lab.send(&modern(7, "echo", json!({})).without(PV)).await, 400, -32020, json!(7));
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn meta_2026_beside_a_legacy_header_is_32020_and_never_runs() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let before = lab.fixture.invocations();
    let request = modern(7, "echo", json!({})).set(PV, "2025-11-25");
    refused(&lab.send(&request).await, 400, -32020, json!(7));
    refused(&lab.send(&request.header("mcp-session-id", &session)).await, 400, -32020, json!(7));
    assert_eq!(lab.fixture.invocations(), before);
}

#[tokio::test]
async fn meta_and_header_of_a_legacy_revision_are_32022() {
    let lab = Lab::new();
    let request = modern(7, "echo", json!({})).set(PV, "2025-11-25");
    let body = String::from_utf8(request.body.clone()).unwrap().replace("2026-07-28", "2025-11-25");
    let response = lab.send(&request.body(body)).await;
    refused(&response, 400, -32022, json!(7));
    assert_eq!(response.json()["error"]["data"]["requested"], "2025-11-25");
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn garbage_header_without_meta_in_a_session_is_400() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let before = lab.fixture.invocations();
    for garbage in ["garbage", "2025-11-26", "2025-11-25 2025-06-18", "2025-11-25, 2025-11-25", ""]
    {
        let request = call(&session, 7, "echo", json!({})).header(PV, garbage);
        assert_eq!(lab.send(&request).await.status(), 400, "{garbage:?}");
    }
    assert_eq!(lab.fixture.invocations(), before);
}

#[tokio::test]
async fn legacy_header_that_differs_from_the_session_is_accepted() {
    let lab = Lab::new();
    let session = lab.session("2025-03-26").await;
    for other in ["2025-06-18", "2025-11-25", "2024-11-05"] {
        succeeded(&lab.send(&call(&session, 7, "echo", json!({})).header(PV, other)).await, 7);
        // The session's revision decides, and 2025-03-26 has batches.
        let batch = call(&session, 7, "", json!({})).header(PV, other);
        let batch = batch.body(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#);
        assert_eq!(lab.send(&batch).await.status(), 200, "{other}");
    }
}

#[tokio::test]
async fn absent_header_in_a_session_is_accepted() {
    let lab = Lab::new();
    for revision in ["2025-06-18", "2025-11-25"] {
        let session = lab.session(revision).await;
        succeeded(&lab.send(&call(&session, 7, "echo", json!({}))).await, 7);
    }
}

#[tokio::test]
async fn absent_header_without_a_session_is_stateless_2025_03_26() {
    let lab = Lab::new();
    succeeded(&lab.send(&Request::legacy(PATH, 7, "ping", json!({}))).await, 7);
    let batch = Request::post(PATH, r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#);
    assert_eq!(lab.send(&batch).await.status(), 200, "2025-03-26 has batches");
}

#[tokio::test]
async fn repeated_header_is_400() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let before = lab.fixture.invocations();
    let legacy =
        call(&session, 7, "echo", json!({})).header(PV, "2025-11-25").header(PV, "2025-11-25");
    assert_eq!(lab.send(&legacy).await.status(), 400);
    let modern = modern(7, "echo", json!({})).header(PV, "2026-07-28");
    refused(&lab.send(&modern).await, 400, -32020, json!(7));
    let note = notification("notifications/x", json!({})).header(PV, "2025-11-25").header(PV, "x");
    refused(&lab.send(&note).await, 400, -32020, Value::Null);
    let stream = get(&session).header(PV, "2025-11-25").header(PV, "2025-11-25");
    assert!((400..500).contains(&lab.send(&stream).await.status()));
    assert_eq!(lab.fixture.invocations(), before);
}

#[tokio::test]
async fn modern_request_ignores_session_and_last_event() {
    let lab = Lab::new();
    let request = modern(7, "echo", json!({}))
        .header("mcp-session-id", "unknown")
        .header("last-event-id", "garbage");
    let response = lab.send(&request).await;
    succeeded(&response, 7);
    assert_eq!(response.head.get("mcp-session-id"), None);
}

#[tokio::test]
async fn modern_notification_is_202_if_its_version_is_served_and_never_acts() {
    let lab = Lab::new();
    let cancel = notification("notifications/cancelled", json!({"requestId": 1}));
    let response = lab.send(&cancel.clone().header(PV, "2026-07-28")).await;
    assert_eq!((response.status(), response.text()), (202, ""));
    refused(&lab.send(&cancel.header(PV, "2027-01-01")).await, 400, -32022, Value::Null);
    assert_eq!(lab.fixture.notes(), 0);
}

#[tokio::test]
async fn notification_in_an_unknown_session_is_404() {
    let lab = Lab::new();
    for method in ["notifications/initialized", "notifications/cancelled"] {
        let request = notification(method, json!({})).header("mcp-session-id", "unknown");
        refused(&lab.send(&request).await, 404, -32600, Value::Null);
    }
    assert_eq!(lab.fixture.notes(), 0);
}

#[tokio::test]
async fn null_id_is_malformed_and_not_a_notification() {
    let lab = Lab::new();
    let body = r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#;
    refused(&lab.send(&Request::post(PATH, body)).await, 400, -32600, Value::Null);
    let modern = modern(7, "echo", json!({}));
    let body = String::from_utf8(modern.body.clone()).unwrap().replace("\"id\":7", "\"id\":null");
    refused(&lab.send(&modern.body(body)).await, 400, -32600, Value::Null);
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn missing_params_on_a_modern_method_is_missing_meta() {
    let lab = Lab::new();
    let body = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
    let request =
        Request::post(PATH, body).header(PV, "2026-07-28").header("mcp-method", "tools/list");
    refused(&lab.send(&request).await, 400, -32602, json!(7));
    // These two exist in the modern era only, so even a client that forgot everything is told so.
    for method in ["server/discover", "subscriptions/listen"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}"}}"#);
        refused(&lab.send(&Request::post(PATH, body)).await, 400, -32602, json!(7));
    }
}
