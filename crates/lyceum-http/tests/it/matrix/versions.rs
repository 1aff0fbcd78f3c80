//! Rows about the protocol version, required metadata, and the headers that mirror the body.

use lyceum_testkit::Request;
use lyceum_wire::RevisionSet;
use serde_json::{Value, json};

use super::{refused, succeeded};
use crate::lab::{Lab, PATH, call, modern};

const META: &str = "io.modelcontextprotocol";

/// A modern call whose `_meta` was changed.
fn with_meta(change: impl FnOnce(&mut Value)) -> Request {
    let request = modern(7, "echo", json!({}));
    let mut body: Value = serde_json::from_slice(&request.body).unwrap();
    change(&mut body["params"]);
    request.body(body.to_string())
}

fn remove(params: &mut Value, key: &str) {
    params["_meta"].as_object_mut().unwrap().remove(&format!("{META}/{key}"));
}

#[tokio::test]
async fn missing_meta_or_required_key_is_400_with_32602() {
    let lab = Lab::new();
    for request in [
        with_meta(|params| drop(params.as_object_mut().unwrap().remove("_meta"))),
        with_meta(|params| params["_meta"] = json!([])),
        with_meta(|params| params["_meta"] = json!("x")),
        with_meta(|params| remove(params, "protocolVersion")),
        with_meta(|params| remove(params, "clientCapabilities")),
        with_meta(|params| params["_meta"][format!("{META}/clientCapabilities")] = json!([])),
        with_meta(|params| params["_meta"][format!("{META}/protocolVersion")] = json!(7)),
        with_meta(|params| params["_meta"][format!("{META}/logLevel")] = json!("loud")),
    ] {
        refused(&lab.send(&request).await, 400, -32602, json!(7));
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn missing_client_info_is_served() {
    succeeded(&Lab::new().send(&modern(7, "echo", json!({}))).await, 7);
}

#[tokio::test]
async fn unsupported_version_is_400_and_names_what_is_served() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let legacy = call(&session, 7, "echo", json!({})).header("mcp-protocol-version", "v999.0.0");
    assert_eq!(lab.send(&legacy).await.status(), 400);
    let version = "v999.0.0";
    let request =
        with_meta(|params| params["_meta"][format!("{META}/protocolVersion")] = json!(version))
            .set("mcp-protocol-version", version);
    let response = lab.send(&request).await;
    refused(&response, 400, -32022, json!(7));
    let supported = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
    let data = json!({"supported": supported, "requested": version});
    assert_eq!(response.json()["error"]["data"], data);
    let discover = lab.send(&Request::modern(PATH, 1, "server/discover", json!({}))).await;
    assert_eq!(discover.json()["result"]["supportedVersions"], json!(supported));
    assert_eq!(lab.fixture.invocations(), 2, "initialize and discover only");
}

#[tokio::test]
async fn era_that_is_not_served_is_400_with_32022() {
    let modern_only = Lab::with(|endpoint| endpoint.revisions(RevisionSet::MODERN));
    let legacy =
        Request::legacy(PATH, 7, "ping", json!({})).header("mcp-protocol-version", "2025-11-25");
    refused(&modern_only.send(&legacy).await, 400, -32022, json!(7));
    refused(&modern_only.send(&crate::lab::initialize("2025-11-25")).await, 400, -32022, json!(0));
    succeeded(&modern_only.send(&modern(7, "echo", json!({}))).await, 7);
    let legacy_only = Lab::with(|endpoint| endpoint.revisions(RevisionSet::LEGACY));
    refused(&legacy_only.send(&modern(7, "echo", json!({}))).await, 400, -32022, json!(7));
    assert_eq!(modern_only.fixture.invocations() + legacy_only.fixture.invocations(), 1);
}

#[tokio::test]
async fn missing_version_header_is_assumed_for_legacy_and_32020_beside_meta() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    succeeded(&lab.send(&call(&session, 7, "echo", json!({}))).await, 7);
    succeeded(&lab.send(&Request::legacy(PATH, 7, "ping", json!({}))).await, 7);
    let request = modern(7, "echo", json!({})).without("mcp-protocol-version");
    refused(&lab.send(&request).await, 400, -32020, json!(7));
}

#[tokio::test]
async fn version_header_other_than_meta_is_400_with_32020() {
    let lab = Lab::new();
    let newer =
        with_meta(|params| params["_meta"][format!("{META}/protocolVersion")] = json!("v999"));
    refused(&lab.send(&newer).await, 400, -32020, json!(7));
    let older = modern(7, "echo", json!({})).set("mcp-protocol-version", "2025-11-25");
    refused(&lab.send(&older).await, 400, -32020, json!(7));
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn routing_headers_must_mirror_a_modern_body() {
    let lab = Lab::new();
    let request = modern(7, "echo", json!({}));
    for wrong in [
        request.clone().without("mcp-method"),
        request.clone().set("mcp-method", "tools/list"),
        request.clone().set("mcp-method", "TOOLS/CALL"),
        request.clone().header("mcp-method", "tools/call"),
        request.clone().without("mcp-name"),
        request.clone().set("mcp-name", "other"),
        request.clone().set("mcp-name", "Echo"),
        request.clone().set("mcp-name", "=?base64?!!?="),
        request.clone().set("mcp-name", "=?base64?ZWNobw?="),
        request.clone().header("mcp-name", "echo"),
        request.clone().header("mcp-protocol-version", "2026-07-28"),
    ] {
        refused(&lab.send(&wrong).await, 400, -32020, json!(7));
    }
    assert_eq!(lab.fixture.invocations(), 0);
    succeeded(&lab.send(&request.clone().set("mcp-name", "  echo  ")).await, 7);
    succeeded(&lab.send(&request.clone().set("mcp-name", "=?base64?ZWNobw==?=")).await, 7);
    succeeded(&lab.send(&request.set("MCP-Method", "tools/call")).await, 7);
}

#[tokio::test]
async fn routing_headers_of_a_legacy_request_are_ignored() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let request = call(&session, 7, "echo", json!({"text": "body wins"}))
        .header("mcp-method", "resources/read")
        .header("mcp-method", "ping")
        .header("mcp-name", "other")
        .header("mcp-param-region", "x");
    succeeded(&lab.send(&request).await, 7);
}

#[tokio::test]
async fn param_headers_must_mirror_modern_arguments() {
    let lab = Lab::new();
    let request = modern(7, "region", json!({"region": "Hello"}));
    for wrong in [
        request.clone(),
        request.clone().header("mcp-param-region", "hello"),
        request.clone().header("mcp-param-region", "=?base64?SGVsbG8?="),
        request.clone().header("mcp-param-region", "=?base64?SGVs!!!bG8=?="),
        request.clone().header("mcp-param-region", "Hello").header("mcp-param-region", "Hello"),
        modern(7, "region", json!({})).header("mcp-param-region", "Hello"),
        modern(7, "region", json!({"region": null})).header("mcp-param-region", "Hello"),
    ] {
        refused(&lab.send(&wrong).await, 400, -32020, json!(7));
    }
    assert_eq!(lab.fixture.invocations(), 0);
    for right in ["Hello", " Hello ", "=?base64?SGVsbG8=?="] {
        succeeded(&lab.send(&request.clone().header("mcp-param-region", right)).await, 7);
    }
    succeeded(&lab.send(&modern(7, "region", json!({}))).await, 7);
    succeeded(
        &lab.send(&request.header("mcp-param-region", "Hello").header("mcp-param-other", "x"))
            .await,
        7,
    );
}

#[tokio::test]
async fn param_headers_of_a_legacy_request_are_ignored() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let request = call(&session, 7, "region", json!({"region": "Hello"}));
    succeeded(&lab.send(&request.clone()).await, 7);
    succeeded(&lab.send(&request.header("mcp-param-region", "other")).await, 7);
}
