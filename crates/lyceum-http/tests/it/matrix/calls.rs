//! Rows about calls: unknown things, failures, capabilities, cancellation.

use lyceum_testkit::{Request, Response};
use serde_json::json;

use super::{refused, succeeded};
use crate::lab::{Lab, PATH, call, modern, notes, notification, text_of};

const LEGACY_ONLY: [&str; 4] =
    ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

#[tokio::test]
async fn unknown_method_is_in_band_for_legacy_and_404_for_modern() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let legacy = Request::legacy(PATH, 7, "no/such", json!({}));
    refused(
        &lab.send(&legacy.clone().header("mcp-session-id", &session)).await,
        200,
        -32601,
        json!(7),
    );
    refused(&lab.send(&legacy).await, 200, -32601, json!(7));
    refused(
        &lab.send(&Request::modern(PATH, 7, "no/such", json!({}))).await,
        404,
        -32601,
        json!(7),
    );
}

#[tokio::test]
async fn removed_method_works_for_legacy_and_is_404_for_modern() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    for method in &LEGACY_ONLY[..3] {
        let request = Request::legacy(PATH, 7, method, json!({"level": "info"}));
        succeeded(&lab.send(&request.header("mcp-session-id", &session)).await, 7);
    }
    for method in LEGACY_ONLY.into_iter().chain(["initialize"]) {
        refused(
            &lab.send(&Request::modern(PATH, 7, method, json!({}))).await,
            404,
            -32601,
            json!(7),
        );
    }
}

#[tokio::test]
async fn unknown_tool_is_32602_with_status_200() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    refused(&lab.send(&call(&session, 7, "none", json!({}))).await, 200, -32602, json!(7));
    refused(&lab.send(&modern(7, "none", json!({}))).await, 200, -32602, json!(7));
}

#[tokio::test]
async fn unknown_resource_is_32002_for_legacy_and_32602_for_modern_with_the_uri() {
    let lab = Lab::new();
    let params = json!({"uri": "test://none"});
    let legacy = lab.send(&Request::legacy(PATH, 7, "resources/read", params.clone())).await;
    refused(&legacy, 200, -32002, json!(7));
    let modern = lab.send(&Request::modern(PATH, 7, "resources/read", params)).await;
    refused(&modern, 200, -32602, json!(7));
    for response in [legacy, modern] {
        assert_eq!(response.json()["error"]["data"], json!({"uri": "test://none"}));
    }
}

#[tokio::test]
async fn bad_tool_arguments_are_a_result() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    for request in [call(&session, 7, "refuse", json!({})), modern(7, "refuse", json!({}))] {
        let message = succeeded(&lab.send(&request).await, 7);
        assert_eq!(message["result"]["isError"], true);
    }
}

#[tokio::test]
async fn missing_capability_is_32602_for_legacy_and_400_with_32021_for_modern() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    refused(&lab.send(&call(&session, 7, "sample", json!({}))).await, 200, -32602, json!(7));
    for accept in ["application/json, text/event-stream", "text/event-stream"] {
        let response = lab.send(&modern(7, "sample", json!({})).set("accept", accept)).await;
        refused(&response, 400, -32021, json!(7));
        let required = &response.json()["error"]["data"]["requiredCapabilities"];
        assert_eq!(*required, json!({"sampling": {}}));
    }
    let mut params = json!({"name": "sample"});
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"sampling": {}});
    succeeded(&lab.send(&Request::modern(PATH, 7, "tools/call", params)).await, 7);
}

#[tokio::test]
async fn internal_error_is_32603_with_status_200() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    refused(&lab.send(&call(&session, 7, "fail", json!({}))).await, 200, -32603, json!(7));
    refused(&lab.send(&modern(7, "fail", json!({}))).await, 200, -32603, json!(7));
}

/// What a legacy call is answered with that its client cancels.
async fn cancelled(accept: &str) -> Response {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let call = call(&session, 7, "puppet", json!({"name": "p"})).set("accept", accept);
    let answer = tokio::spawn({
        let lab = lab.clone();
        async move { lab.send(&call).await }
    });
    let mut puppet = lab.fixture.puppet("p").await;
    // Until the call turned out to take time it cannot be cancelled by id.
    tokio::task::yield_now().await;
    let cancel = notification("notifications/cancelled", json!({"requestId": 7}));
    let response = lab.send(&cancel.header("mcp-session-id", &session)).await;
    assert_eq!(response.status(), 202);
    puppet.gone().await;
    answer.await.unwrap()
}

#[tokio::test]
async fn cancelled_legacy_request_ends_with_32800() {
    refused(&cancelled("application/json, text/event-stream").await, 200, -32800, json!(7));
    let events = cancelled("text/event-stream").await.events();
    let last = events.last().unwrap().json();
    assert_eq!((&last["id"], &last["error"]["code"]), (&json!(7), &json!(-32800)));
}

#[tokio::test]
async fn cancelled_modern_request_sends_nothing() {
    let lab = Lab::new();
    let mut answer = Box::pin({
        let (lab, call) = (lab.clone(), modern(7, "puppet", json!({"name": "p"})));
        async move { lab.open(&call).await }
    });
    tokio::select! {
        biased;
        _ = &mut answer => panic!("nothing was sent yet"),
        puppet = lab.fixture.puppet("p") => {
            let mut puppet = puppet;
            let cancel = notification("notifications/cancelled", json!({"requestId": 7}));
            let response = lab.send(&cancel.header("mcp-protocol-version", "2026-07-28")).await;
            assert_eq!(response.status(), 202);
            assert!(!puppet.is_gone(), "a modern call is cancelled by hanging up only");
            drop(answer);
            puppet.gone().await;
        }
    }
}

#[tokio::test]
async fn killed_session_closes_the_stream_of_a_request_in_flight() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let opening = tokio::spawn({
        let (lab, call) = (lab.clone(), call(&session, 7, "puppet", json!({"name": "p"})));
        async move { lab.open(&call).await }
    });
    let mut puppet = lab.fixture.puppet("p").await;
    puppet.notify("one").await;
    let mut live = opening.await.unwrap();
    let delete = Request::new("DELETE", PATH).header("mcp-session-id", &session);
    assert_eq!(lab.send(&delete).await.status(), 200);
    assert_eq!(notes(&live.rest().await), ["one"]);
    puppet.gone().await;
}

#[tokio::test]
async fn modern_error_is_json_before_the_first_event_and_in_band_after_it() {
    let lab = Lab::new();
    let listener = modern(7, "none", json!({})).set("accept", "text/event-stream");
    let response = lab.send(&listener).await;
    assert_eq!(response.events()[0].json()["error"]["code"], -32602, "status 200 may be framed");
    let unknown = Request::modern(PATH, 7, "no/such", json!({})).set("accept", "text/event-stream");
    refused(&lab.send(&unknown).await, 404, -32601, json!(7));
    let opening = tokio::spawn({
        let (lab, call) = (lab.clone(), modern(7, "puppet", json!({"name": "p"})));
        async move { lab.open(&call).await }
    });
    let puppet = lab.fixture.puppet("p").await;
    let sent = puppet.begin_notify("one");
    let mut live = opening.await.unwrap();
    sent.await.unwrap();
    puppet.panic();
    let events = live.rest().await;
    assert_eq!(live.head.status, 200);
    assert_eq!(events[1].json()["error"]["code"], -32603);
}

#[tokio::test]
async fn results_carry_what_was_asked() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    for request in [
        call(&session, 7, "echo", json!({"text": "nonce"})),
        modern(7, "echo", json!({"text": "nonce"})),
    ] {
        let message = succeeded(&lab.send(&request).await, 7);
        assert_eq!(text_of(&message), "nonce");
        let is_modern = request.headers.iter().any(|(name, _)| name == "mcp-method");
        assert_eq!(message["result"].get("resultType").is_some(), is_modern);
    }
}
