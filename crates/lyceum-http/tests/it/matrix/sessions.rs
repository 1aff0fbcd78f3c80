//! Rows about session ids.

use lyceum_http::{Dialect, Limits};
use lyceum_testkit::Request;
use serde_json::{Value, json};

use super::{Bearer, refused, succeeded};
use crate::lab::{Lab, PATH, call, get, initialize, modern};

#[tokio::test]
async fn missing_session_is_400_where_required_and_ignored_for_modern() {
    for dialect in [Dialect::Strict, Dialect::Turul] {
        let lab = Lab::speaking(dialect);
        refused(
            &lab.send(&Request::legacy(PATH, 7, "ping", json!({}))).await,
            400,
            -32600,
            Value::Null,
        );
        assert_eq!(lab.fixture.invocations(), 0);
        succeeded(&lab.send(&modern(7, "echo", json!({}))).await, 7);
    }
}

#[tokio::test]
async fn unknown_session_is_404_and_ignored_for_modern() {
    let lab = Lab::new();
    let flipped = {
        let mut session = lab.session("2025-11-25").await;
        let last = if session.pop() == Some('A') { 'B' } else { 'A' };
        session + &last.to_string()
    };
    let before = lab.fixture.invocations();
    for session in ["unknown", "", "0", &flipped, &"A".repeat(100_000)] {
        refused(&lab.send(&call(session, 7, "echo", json!({}))).await, 404, -32600, Value::Null);
    }
    assert_eq!(lab.fixture.invocations(), before);
    let response =
        lab.send(&modern(7, "echo", json!({})).header("mcp-session-id", "unknown")).await;
    succeeded(&response, 7);
    assert_eq!(response.head.get("mcp-session-id"), None, "never echoed");
}

#[tokio::test]
async fn terminated_session_is_404_and_ignored_for_modern() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let delete = Request::new("DELETE", PATH).header("mcp-session-id", &session);
    assert_eq!(lab.send(&delete).await.status(), 200);
    refused(&lab.send(&call(&session, 7, "echo", json!({}))).await, 404, -32600, Value::Null);
    refused(&lab.send(&get(&session)).await, 404, -32600, Value::Null);
    succeeded(&lab.send(&modern(7, "echo", json!({})).header("mcp-session-id", &session)).await, 7);
}

#[tokio::test]
async fn session_of_another_principal_is_404() {
    let lab = Lab::with(|endpoint| endpoint.authenticate(Bearer::shared()));
    let session = lab.session_as("2025-11-25", &[("authorization", "Bearer ana")]).await;
    let request = call(&session, 7, "echo", json!({}));
    succeeded(&lab.send(&request.clone().header("authorization", "Bearer ana")).await, 7);
    refused(
        &lab.send(&request.header("authorization", "Bearer bob")).await,
        404,
        -32600,
        Value::Null,
    );
}

#[tokio::test]
async fn initialize_in_a_session_is_400_and_in_an_unknown_one_404() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let before = lab.fixture.invocations();
    let again = initialize("2025-11-25").header("mcp-session-id", &session);
    refused(&lab.send(&again).await, 400, -32600, Value::Null);
    let unknown = initialize("2025-11-25").header("mcp-session-id", "unknown");
    refused(&lab.send(&unknown).await, 404, -32600, Value::Null);
    assert_eq!(lab.fixture.invocations(), before);
}

#[tokio::test]
async fn too_many_sessions_is_503_with_retry_after() {
    let limits = Limits { sessions: 1, ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let (first, second) = (lab.session("2025-11-25").await, lab.session("2025-11-25").await);
    let _open = lab.open(&get(&first)).await;
    let response = lab.send(&get(&second)).await;
    refused(&response, 503, -32603, Value::Null);
    assert!(response.head.get("retry-after").is_some());
}
