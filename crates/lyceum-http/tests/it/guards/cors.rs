//! The headers that let pages of allowed origins use the endpoint.

use lyceum_testkit::Request;
use serde_json::json;

use crate::lab::{Lab, PATH, modern};
use crate::matrix::Bearer;

const ORIGIN: &str = "http://localhost:5173";

fn list(value: Option<&str>) -> Vec<String> {
    value.unwrap_or_default().split(',').map(|item| item.trim().to_ascii_lowercase()).collect()
}

#[tokio::test]
async fn preflight_allows_what_clients_send() {
    let lab = Lab::new();
    let request = Request::new("OPTIONS", PATH)
        .header("origin", ORIGIN)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "mcp-method, mcp-param-region, x-evil");
    let response = lab.send(&request).await;
    assert_eq!((response.status(), response.text()), (204, ""));
    let head = &response.head;
    assert_eq!(head.get("access-control-allow-origin"), Some(ORIGIN));
    assert_eq!(head.get("access-control-allow-credentials"), None);
    let methods = list(head.get("access-control-allow-methods"));
    assert!(["get", "post", "delete"].iter().all(|method| methods.contains(&(*method).into())));
    let headers = list(head.get("access-control-allow-headers"));
    for needed in [
        "authorization",
        "content-type",
        "accept",
        "mcp-session-id",
        "mcp-protocol-version",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-param-region",
    ] {
        assert!(headers.contains(&needed.into()), "{needed}");
    }
    assert!(!headers.contains(&"x-evil".into()));
    assert!(list(head.get("vary")).contains(&"origin".into()));
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn preflight_needs_no_credentials() {
    let lab = Lab::with(|endpoint| endpoint.authenticate(Bearer::shared()));
    let request = Request::new("OPTIONS", PATH).header("origin", ORIGIN);
    assert_eq!(lab.send(&request).await.status(), 204);
}

#[tokio::test]
async fn answers_and_refusals_to_allowed_origins_can_be_read() {
    let lab = Lab::with(|endpoint| endpoint.authenticate(Bearer::shared()));
    let ana = |request: Request| request.header("authorization", "Bearer ana");
    for (request, status) in [
        (ana(modern(1, "echo", json!({}))), 200),
        (ana(modern(1, "burst", json!({}))), 200),
        (ana(modern(1, "echo", json!({})).set("content-type", "x")), 415),
        (ana(Request::new("GET", PATH)), 200),
        (ana(Request::new("PUT", PATH)), 405),
        (modern(1, "echo", json!({})), 401),
    ] {
        let response = lab.send(&request.header("origin", ORIGIN)).await;
        assert_eq!(response.status(), status);
        let head = &response.head;
        assert_eq!(head.get("access-control-allow-origin"), Some(ORIGIN), "{status}");
        let exposed = list(head.get("access-control-expose-headers"));
        for needed in ["mcp-session-id", "www-authenticate"] {
            assert!(exposed.contains(&needed.into()), "{needed}");
        }
        assert!(list(head.get("vary")).contains(&"origin".into()));
    }
}

#[tokio::test]
async fn nobody_else_gets_cors_headers() {
    let lab = Lab::new();
    for request in [
        modern(1, "echo", json!({})),
        modern(1, "echo", json!({})).header("origin", "http://evil.example"),
        Request::new("OPTIONS", PATH),
        Request::new("OPTIONS", PATH).header("origin", "http://evil.example"),
    ] {
        let response = lab.send(&request).await;
        let names = response.head.headers.iter().map(|(name, _)| name);
        assert!(names.clone().all(|name| !name.starts_with("access-control")), "{request:?}");
    }
}
