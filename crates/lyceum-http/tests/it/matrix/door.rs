//! Rows decided before a body is read: path, method, Host, Origin, type, size, credentials, Accept.

use http_body_util::Full;
use lyceum_http::{Dialect, Limits, Site};
use lyceum_testkit::{Request, Response};
use serde_json::{Value, json};
use tower_service::Service;

use super::{Bearer, refused, succeeded};
use crate::lab::{Lab, PATH, get, in_process, initialize, modern, whole};

/// The same fault in either era: a legacy handshake, and a modern call.
fn both_eras() -> [Request; 2] {
    [initialize("2025-11-25"), modern(1, "echo", json!({}))]
}

const PV: (&str, &str) = ("mcp-protocol-version", "2026-07-28");

#[tokio::test]
async fn wrong_path_is_404_with_32600() {
    let lab = Lab::new();
    let mut site: Site<Full<bytes::Bytes>> = Site::new().endpoint(lab.endpoint.clone());
    for mut request in both_eras() {
        for path in ["/mcp/", "/MCP", "/", "/mcp2", "/mc", "/%6dcp"] {
            request.target = path.into();
            let response = whole(site.call(in_process(&request)).await.unwrap()).await;
            refused(&response, 404, -32600, Value::Null);
            assert!(response.head.get("x-request-id").is_some());
        }
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn wrong_path_is_guarded_like_the_right_one() {
    let named = |name: &str| {
        let mut hosts = lyceum_http::HostPolicy::loopback();
        hosts.allow(name).unwrap();
        Lab::with(|endpoint| endpoint.hosts(hosts))
    };
    let (one, other) = (named("one.example"), named("other.example"));
    let old = other.endpoint.http_sse("/messages");
    let mut site: Site<Full<bytes::Bytes>> =
        Site::new().endpoint(one.endpoint.clone()).http_sse("/sse", old);
    for (host, origin, status) in [
        ("one.example", None, 404),
        ("other.example", None, 404),
        ("localhost", Some("http://localhost:3000"), 404),
        ("localhost", Some("http://evil.example"), 403),
        ("evil.example", None, 421),
    ] {
        let mut request = Request::new("GET", "/nowhere").set("host", host);
        request = request.header("x-request-id", "mine");
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let response = whole(site.call(in_process(&request)).await.unwrap()).await;
        refused(&response, status, -32600, Value::Null);
        assert_eq!(response.head.get("x-request-id"), Some("mine"));
        let allowed = origin.filter(|_| status == 404);
        assert_eq!(response.head.get("access-control-allow-origin"), allowed, "{host}");
    }
}

#[tokio::test]
async fn paths_by_rule_are_asked_after_exact_ones() {
    let lab = Lab::new();
    let endpoint = lab.endpoint.clone();
    let mut site: Site<Full<bytes::Bytes>> = Site::new()
        .guarded_by(&endpoint)
        .matching(|path| path.starts_with("/secret/"), move |request| endpoint.respond(request))
        .handle("/secret/not", |_| {
            let mut answer = http::Response::new(lyceum_http::AnswerBody::whole("exact"));
            *answer.status_mut() = http::StatusCode::IM_A_TEAPOT;
            Box::pin(async { Ok(answer) })
        });
    for (path, host, status) in [
        ("/secret/x", "localhost", 200),
        ("/secret/not", "localhost", 418),
        ("/public", "localhost", 404),
        ("/public", "evil.example", 421),
    ] {
        let mut request = modern(1, "echo", json!({})).set("host", host);
        request.target = path.into();
        let response = whole(site.call(in_process(&request)).await.unwrap()).await;
        assert_eq!(response.status(), status, "{path} {host}");
    }
}

#[tokio::test]
async fn other_method_is_405_with_what_the_era_allows() {
    let lab = Lab::new();
    for method in ["PUT", "PATCH", "HEAD", "TRACE", "CONNECT", "QUERY"] {
        let request = Request::new(method, PATH);
        let response = lab.send(&request).await;
        refused(&response, 405, -32600, Value::Null);
        assert_eq!(response.head.get("allow"), Some("GET, POST, DELETE"), "{method}");
        let response = lab.send(&request.header(PV.0, PV.1)).await;
        refused(&response, 405, -32600, Value::Null);
        assert_eq!(response.head.get("allow"), Some("POST"), "{method}");
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn options_is_a_cors_answer() {
    let lab = Lab::new();
    let request = Request::new("OPTIONS", PATH).header("origin", "http://localhost:3000");
    let response = lab.send(&request).await;
    assert_eq!((response.status(), response.text()), (204, ""));
    assert_eq!(response.head.get("allow"), Some("GET, POST, DELETE"));
    let allowed = response.head.get("access-control-allow-origin");
    assert_eq!(allowed, Some("http://localhost:3000"));
}

#[tokio::test]
async fn get_is_a_stream_400_or_404_and_405_in_the_modern_era() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let live = lab.open(&get(&session)).await;
    assert_eq!(live.head.status, 200);
    refused(&lab.send(&get("x").without("mcp-session-id")).await, 400, -32600, Value::Null);
    refused(&lab.send(&get("unknown")).await, 404, -32600, Value::Null);
    for version in ["2026-07-28", "2027-01-01", "garbage"] {
        let request = get(&session).header("mcp-protocol-version", version);
        let response = lab.send(&request).await;
        refused(&response, 405, -32600, Value::Null);
        assert_eq!(response.head.get("allow"), Some("POST"), "{version}");
    }
}

#[tokio::test]
async fn get_without_sse_follows_the_dialect_and_is_405_in_the_modern_era() {
    let request = Request::new("GET", PATH).header("accept", "application/json");
    let info = Lab::new().send(&request).await;
    assert_eq!((info.status(), &info.json()["name"]), (200, &json!("fixture")));
    refused(&Lab::speaking(Dialect::Strict).send(&request).await, 406, -32600, Value::Null);
    refused(&Lab::new().send(&request.header(PV.0, PV.1)).await, 405, -32600, Value::Null);
}

#[tokio::test]
async fn second_standalone_get_replaces_the_first() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let mut first = lab.open(&get(&session)).await;
    let mut second = lab.open(&get(&session)).await;
    assert_eq!(second.head.status, 200);
    lab.fixture.announce("news");
    assert_eq!(first.next().await, None);
    assert_eq!(second.next().await.unwrap().json()["params"]["data"], "news");
}

#[tokio::test]
async fn delete_ends_a_session_and_is_405_in_the_modern_era() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let delete = Request::new("DELETE", PATH);
    refused(&lab.send(&delete).await, 400, -32600, Value::Null);
    let unknown = delete.clone().header("mcp-session-id", "unknown");
    refused(&lab.send(&unknown).await, 404, -32600, Value::Null);
    let modern = delete.clone().header("mcp-session-id", &session).header(PV.0, PV.1);
    refused(&lab.send(&modern).await, 405, -32600, Value::Null);
    let response = lab.send(&delete.clone().header("mcp-session-id", &session)).await;
    assert_eq!((response.status(), response.text()), (200, ""));
    refused(&lab.send(&delete.header("mcp-session-id", &session)).await, 404, -32600, Value::Null);
}

#[tokio::test]
async fn content_type_other_than_json_is_415() {
    let lab = Lab::new();
    for request in both_eras() {
        for wrong in
            ["text/plain", "application/json-patch+json", "", "application/json;charset=latin1"]
        {
            let response = lab.send(&request.clone().set("content-type", wrong)).await;
            refused(&response, 415, -32600, Value::Null);
        }
        let response = lab.send(&request.clone().without("content-type")).await;
        refused(&response, 415, -32600, Value::Null);
        let twice = request.clone().header("content-type", "application/json");
        refused(&lab.send(&twice).await, 415, -32600, Value::Null);
    }
    assert_eq!(lab.fixture.invocations(), 0);
    for request in both_eras() {
        for right in
            ["application/json; charset=utf-8", "Application/JSON", "application/json;x=\"y\""]
        {
            let response = lab.send(&request.clone().set("content-type", right)).await;
            assert_eq!(response.status(), 200, "{right}");
        }
    }
}

#[tokio::test]
async fn accept_without_json_or_sse_is_read_leniently() {
    let lab = Lab::new();
    for request in both_eras() {
        for accept in
            ["application/json", "text/event-stream", "*/*", "application/*", "text/*", ""]
        {
            let response = lab.send(&request.clone().set("accept", accept)).await;
            assert_eq!(response.status(), 200, "{accept}: {}", response.text());
        }
        assert_eq!(lab.send(&request.clone().without("accept")).await.status(), 200);
        let neither = request.clone().set("accept", "application/xml");
        refused(&lab.send(&neither).await, 406, -32600, Value::Null);
        let strict = Lab::speaking(Dialect::Strict);
        for accept in ["application/json", "text/event-stream", "text/html"] {
            let response = strict.send(&request.clone().set("accept", accept)).await;
            refused(&response, 406, -32600, Value::Null);
        }
        assert_eq!(strict.fixture.invocations(), 0);
    }
}

#[tokio::test]
async fn listening_without_sse_is_406() {
    let lab = Lab::new();
    let listen = Request::modern(PATH, 1, "subscriptions/listen", json!({"notifications": {}}));
    refused(
        &lab.send(&listen.clone().set("accept", "application/json")).await,
        406,
        -32600,
        Value::Null,
    );
    refused(&lab.send(&listen.clone().without("accept")).await, 406, -32600, Value::Null);
    assert_eq!(lab.fixture.invocations(), 0);
    let off = Lab::with(|endpoint| endpoint.sse(false));
    refused(&off.send(&listen).await, 406, -32600, Value::Null);
}

#[tokio::test]
async fn bad_origin_is_403_and_absent_origin_is_fine() {
    let lab = Lab::new();
    for request in both_eras() {
        for origin in ["http://evil.example", "null", "https://localhost.evil.example", ""] {
            let response = lab.send(&request.clone().header("origin", origin)).await;
            refused(&response, 403, -32600, Value::Null);
            assert_eq!(response.head.get("access-control-allow-origin"), None);
        }
    }
    assert_eq!(lab.fixture.invocations(), 0);
    for request in both_eras() {
        assert_eq!(lab.send(&request.clone()).await.status(), 200);
        let loopback = request.header("origin", "http://127.0.0.1:6274");
        assert_eq!(lab.send(&loopback).await.status(), 200);
    }
}

#[tokio::test]
async fn bad_host_is_421_and_missing_host_is_400() {
    let lab = Lab::new();
    for request in both_eras() {
        refused(
            &lab.send(&request.clone().set("host", "evil.example")).await,
            421,
            -32600,
            Value::Null,
        );
        refused(&lab.send(&request.without("host")).await, 400, -32600, Value::Null);
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn body_too_large_is_413() {
    let limits = Limits { body_bytes: 1000, ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    for (request, pad) in [
        (
            initialize("2025-11-25"),
            json!({"protocolVersion": "2025-11-25", "pad": "x".repeat(1000)}),
        ),
        (modern(1, "echo", json!({})), json!({"pad": "x".repeat(1000)})),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": pad});
        let response = lab.send(&request.body(body.to_string())).await;
        refused(&response, 413, -32600, Value::Null);
        assert_eq!(response.head.get("mcp-session-id"), None);
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn missing_token_is_401_with_a_challenge_before_parsing() {
    let lab = Lab::with(|endpoint| endpoint.authenticate(Bearer::shared()));
    let bad_in_every_way = Request::post(PATH, "{").set("content-type", "x").set("accept", "x/y");
    let get = Request::new("GET", PATH);
    let delete = Request::new("DELETE", PATH);
    let [legacy, modern] = both_eras();
    for request in [legacy, modern, bad_in_every_way, get, delete] {
        let response = lab.send(&request).await;
        refused(&response, 401, -32000, Value::Null);
        assert_eq!(response.head.get("www-authenticate"), Some("Bearer"));
        assert_eq!(response.head.get("mcp-session-id"), None);
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn insufficient_scope_is_403_with_a_challenge() {
    let lab = Lab::with(|endpoint| endpoint.authenticate(Bearer::shared()));
    for request in both_eras() {
        let response = lab.send(&request.header("authorization", "Bearer weak")).await;
        refused(&response, 403, -32000, Value::Null);
        let challenge: Option<&str> = response.head.get("www-authenticate");
        assert_eq!(challenge, Some(r#"Bearer error="insufficient_scope""#));
    }
    assert_eq!(lab.fixture.invocations(), 0);
    let response: Response =
        lab.send(&modern(1, "echo", json!({})).header("authorization", "Bearer ana")).await;
    succeeded(&response, 1);
}
