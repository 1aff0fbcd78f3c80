//! Every route asks for a key: nothing has a second door without a lock.

use std::collections::BTreeSet;

use lyceum_testkit::{Request, Response};
use serde_json::{Value, json};

use super::{audit_trail, configuration, create, list_tools};
use crate::lyceum::Lyceum;

/// Routes anyone may use. A new route is guarded, or it is added here on purpose.
const PUBLIC: [(&str, &str); 1] = [("GET", "/health")];

/// Every method and path of a server, as it describes itself to somebody who may know.
async fn routes(lyceum: &Lyceum, key: &str) -> BTreeSet<(String, String)> {
    let get = |path| Request::new("GET", path).header("x-api-key", key);
    let described = lyceum.call(&get("/openapi.json")).await.json();
    let mut routes = BTreeSet::new();
    for (path, operations) in described["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            routes.insert((method.to_uppercase(), path.replace("{path}", "a/b.md")));
        }
    }
    let info = lyceum.call(&get("/info")).await.json();
    let endpoints = info["profiles"].as_array().unwrap().iter();
    let paths = endpoints.map(|profile| profile["path"].as_str().unwrap());
    for path in paths.chain(["/sse", "/messages", "/kb/unheard-of", "/documents/"]) {
        for method in ["GET", "POST", "DELETE", "PUT", "PATCH"] {
            routes.insert((method.to_owned(), path.to_owned()));
        }
    }
    routes
}

#[tokio::test]
async fn routes_that_are_not_public_answer_401_without_a_key_and_403_with_a_wrong_one() {
    let data = tempfile::tempdir().unwrap();
    let file = "[[endpoint]]\npath = \"/mcp\"\nkeys = [\"admin\"]\nhttp_sse = true\n\
                [[endpoint]]\npath = \"/mcp-readonly\"\nkeys = [\"admin\"]\n\
                [[endpoint]]\npath = \"/mcp-gpt\"\nkeys = [\"gpt\"]\n\
                [rest]\nkeys = [\"admin\"]\n";
    let file = configuration(data.path(), file);
    let (admin, gpt) = (create(data.path(), "admin").await, create(data.path(), "gpt").await);
    let lyceum = Lyceum::start(data.path(), &["--config", file.to_str().unwrap()]).await;
    let routes = routes(&lyceum, &admin).await;
    assert!(routes.len() > 50, "{routes:?}");
    for (method, path) in &routes {
        let public = PUBLIC.contains(&(method.as_str(), path.as_str()));
        let request = Request::new(method, path);
        let expected = if public { 200 } else { 401 };
        assert_eq!(lyceum.call(&request).await.status(), expected, "{method} {path} without a key");
        let foreign = if path == "/mcp-gpt" { &admin } else { &gpt };
        let expected = if public { 200 } else { 403 };
        let request = request.header("authorization", &format!("Bearer {foreign}"));
        assert_eq!(
            lyceum.call(&request).await.status(),
            expected,
            "{method} {path} with another's"
        );
    }
}

/// A refusal: plain JSON, code -32000, a challenge, no session.
fn check_refusal(response: &Response, status: u16, what: &str) {
    assert_eq!(response.status(), status, "{what}");
    assert_eq!(response.head.get("content-type"), Some("application/json"), "{what}");
    let body = response.json();
    assert_eq!((&body["error"]["code"], &body["id"]), (&json!(-32000), &Value::Null), "{what}");
    assert_eq!(response.head.get("www-authenticate").is_some(), status == 401, "{what}");
    assert_eq!(response.head.get("mcp-session-id"), None, "{what}");
}

#[tokio::test]
async fn wrong_key_is_answered_in_json_whatever_is_accepted() {
    let data = tempfile::tempdir().unwrap();
    let key = create(data.path(), "k").await;
    let last = if key.ends_with('x') { 'y' } else { 'x' };
    let other = format!("{}{last}", &key[..key.len() - 1]);
    let lyceum = Lyceum::start(data.path(), &[]).await;
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
    for path in ["/mcp", "/mcp-readonly", "/mcp-gpt", "/mcp-gpt-full"] {
        for accept in ["application/json", "text/event-stream", "*/*", "image/png"] {
            for request in
                [list_tools(path), Request::legacy(path, 1, "initialize", params.clone())]
            {
                let request = request.set("accept", accept);
                let wrong = request.clone().header("x-api-key", &other);
                check_refusal(&lyceum.call(&wrong).await, 401, &format!("{path} {accept}"));
                check_refusal(&lyceum.call(&request).await, 401, &format!("{path} {accept}"));
            }
        }
        assert_eq!(lyceum.call(&list_tools(path).header("x-api-key", &key)).await.status(), 200);
    }
}

#[tokio::test]
async fn callers_without_a_key_are_refused_before_their_body_is_read() {
    let data = tempfile::tempdir().unwrap();
    create(data.path(), "k").await;
    let lyceum = Lyceum::start(data.path(), &[]).await;
    for path in ["/mcp", "/mcp-gpt", "/documents", "/kb/search", "/messages"] {
        // Four mebibytes are announced and none is sent.
        let announced = Request::new("POST", path).header("content-length", "4194304");
        assert_eq!(lyceum.call(&announced).await.status(), 401, "{path}");
    }
}

#[tokio::test]
async fn keys_are_ignored_where_nobody_needs_one() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let request = list_tools("/mcp").header("x-api-key", "nonsense");
    assert_eq!(lyceum.call(&request).await.status(), 200);
    let request = Request::new("GET", "/kb/list").header("authorization", "Bearer nonsense");
    assert_eq!(lyceum.call(&request).await.status(), 200);
}

#[tokio::test]
async fn session_of_one_key_is_nothing_to_another() {
    let data = tempfile::tempdir().unwrap();
    let (ana, ben) = (create(data.path(), "ana").await, create(data.path(), "ben").await);
    let lyceum = Lyceum::start(data.path(), &[]).await;
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
    let initialize = Request::legacy("/mcp", 1, "initialize", params).header("x-api-key", &ana);
    let session = lyceum.call(&initialize).await.head.get("mcp-session-id").unwrap().to_owned();
    let ping = |key: &str, session: &str| {
        let ping = Request::legacy("/mcp", 2, "ping", json!({}));
        ping.header("x-api-key", key).header("mcp-session-id", session)
    };
    assert_eq!(lyceum.call(&ping(&ana, &session)).await.status(), 200);
    let stolen = lyceum.call(&ping(&ben, &session)).await;
    let made_up = lyceum.call(&ping(&ben, &"A".repeat(session.len()))).await;
    assert_eq!((stolen.status(), stolen.text()), (404, made_up.text()));
}

#[tokio::test]
async fn refusals_and_writes_name_the_key() {
    let data = tempfile::tempdir().unwrap();
    let file = configuration(data.path(), "[[endpoint]]\npath = \"/mcp\"\nkeys = [\"admin\"]\n");
    let (admin, other) = (create(data.path(), "admin").await, create(data.path(), "other").await);
    let lyceum = Lyceum::start(data.path(), &["--config", file.to_str().unwrap()]).await;
    let upload = |key: &str| {
        let arguments = json!({ "path": "a", "content": "x" });
        let params = json!({ "name": "upload_document", "arguments": arguments });
        Request::modern("/mcp", 1, "tools/call", params).header("x-api-key", key)
    };
    lyceum.call(&list_tools("/mcp")).await;
    lyceum.call(&upload(&other)).await;
    lyceum.call(&upload(&admin)).await;
    lyceum.call(&Request::new("DELETE", "/documents/a").header("x-api-key", &admin)).await;
    lyceum.call(&Request::new("DELETE", "/documents/a").header("x-api-key", &other)).await;
    lyceum.terminate().await;
    let mut lyceum = lyceum;
    assert_eq!(lyceum.ended().await, Some(0));
    let trail: BTreeSet<String> = audit_trail(data.path()).await.into_iter().collect();
    let expected = [
        " /mcp  UNAUTHENTICATED",
        "other /mcp  FORBIDDEN",
        "admin /mcp upload_document ok",
        // A key made for an endpoint is for that endpoint.
        "admin rest  FORBIDDEN",
        "other rest delete_document ok",
    ];
    assert_eq!(trail, expected.map(str::to_owned).into());
}

#[tokio::test]
async fn polls_for_health_are_no_refusals() {
    let data = tempfile::tempdir().unwrap();
    let key = create(data.path(), "admin").await;
    let lyceum = Lyceum::start(data.path(), &[]).await;
    for (method, path) in [
        ("GET", "/health"),
        ("GET", "/health?"),
        ("GET", "/health?ts=1700000000"),
        ("GET", "/health?%zz&a=1&a=2"),
    ] {
        let poll = Request::new(method, path).set("host", "10.0.0.1");
        assert_eq!(lyceum.call(&poll).await.status(), 200, "{method} {path}");
        let expired = poll.header("x-api-key", "no longer good");
        assert_eq!(lyceum.call(&expired).await.status(), 200, "{method} {path} with a bad key");
    }
    let metrics = Request::new("GET", "/metrics").header("x-api-key", &key);
    let metrics = lyceum.call(&metrics).await;
    assert!(!metrics.text().contains("lyceum_refused_total"), "{}", metrics.text());
    drop(lyceum);
    assert_eq!(audit_trail(data.path()).await.len(), 0);
}
