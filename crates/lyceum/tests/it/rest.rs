//! The HTTP API beside MCP: documents, lists, search, upkeep, health.

use lyceum_testkit::{Request, Response};
use serde_json::{Value, json};

use crate::lyceum::Lyceum;

/// A request with a JSON body, or none.
fn request(method: &str, path: &str, body: Value) -> Request {
    let request = Request::new(method, path);
    if body.is_null() { request } else { request.body(body.to_string()) }
}

async fn send(lyceum: &Lyceum, method: &str, path: &str, body: Value) -> Response {
    lyceum.call(&request(method, path, body)).await
}

/// Sends each row's request in order and compares the status and some members of the answer.
async fn check(lyceum: &Lyceum, rows: &[(&str, &str, Value, u16, Value)]) {
    for (method, path, body, status, expected) in rows {
        let answer = send(lyceum, method, path, body.clone()).await;
        let label = format!("{method} {path} {body}: {}", answer.text());
        assert_eq!(answer.status(), *status, "{label}");
        assert_eq!(answer.head.get("content-type"), Some("application/json"), "{label}");
        let answer = answer.json();
        for (pointer, value) in expected.as_object().unwrap() {
            assert_eq!(answer.pointer(pointer), Some(value), "{pointer} in {label}");
        }
    }
}

#[tokio::test]
async fn documents_are_made_read_changed_and_deleted() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let document = json!({
        "path": "guides/a b.md", "content": "alpha beta", "title": "A", "tags": ["t"],
        "metadata": { "k": 1 },
    });
    let null = Value::Null;
    let at = "/documents/guides/a%20b.md";
    let rows = [
        (
            "POST",
            "/documents",
            document.clone(),
            201,
            json!({ "/id": "guides/a b.md", "/status": "created", "/revision": 1 }),
        ),
        (
            "POST",
            "/documents",
            document.clone(),
            409,
            json!({ "/error/code": "CONFLICT", "/error/details/actual_revision": 1 }),
        ),
        (
            "GET",
            at,
            null.clone(),
            200,
            json!({ "/content": "alpha beta", "/metadata/k": 1, "/truncated": false, "/parent_id": "guides" }),
        ),
        ("GET", "/documents/guides%2Fa%20b.md", null.clone(), 200, json!({ "/revision": 1 })),
        (
            "PUT",
            at,
            json!({ "content": "alpha gamma", "expected_revision": 1 }),
            200,
            json!({ "/status": "updated", "/revision": 2 }),
        ),
        (
            "PUT",
            at,
            json!({ "content": "alpha gamma" }),
            200,
            json!({ "/status": "unchanged", "/revision": 2 }),
        ),
        (
            "PUT",
            at,
            json!({ "content": "x", "expected_revision": 1 }),
            409,
            json!({ "/error/code": "CONFLICT" }),
        ),
        ("PUT", at, json!({}), 422, json!({ "/error/code": "INVALID_ARGUMENT" })),
        (
            "PUT",
            "/documents/nope",
            json!({ "content": "x" }),
            404,
            json!({ "/error/code": "NOT_FOUND" }),
        ),
        (
            "PATCH",
            at,
            json!({ "old_str": "gamma", "new_str": "delta" }),
            200,
            json!({ "/status": "patched", "/revision": 3 }),
        ),
        (
            "PATCH",
            at,
            json!({ "old_str": "gamma", "new_str": "x" }),
            409,
            json!({ "/error/code": "NOT_FOUND_IN_CONTENT" }),
        ),
        (
            "PATCH",
            at,
            json!({ "old_str": "a", "new_str": "x" }),
            409,
            json!({ "/error/code": "AMBIGUOUS", "/error/details/occurrences": 3 }),
        ),
        (
            "POST",
            "/documents",
            json!({ "path": "guides/a b.md", "content": "new", "upsert": true }),
            200,
            json!({ "/status": "updated" }),
        ),
        (
            "GET",
            "/documents/guides/a%20b.md?revision=1",
            null.clone(),
            200,
            json!({ "/content": "alpha beta" }),
        ),
        (
            "GET",
            "/kb/get/guides/a%20b.md",
            null.clone(),
            200,
            json!({ "/content": "new", "/related": [] }),
        ),
        (
            "POST",
            "/documents/batch",
            json!({ "paths": ["guides/a b.md", "no"] }),
            200,
            json!({ "/count": 2, "/items/0/content": "new", "/items/1/error": "not_found" }),
        ),
        (
            "DELETE",
            "/documents/guides/a%20b.md?expected_revision=1",
            null.clone(),
            409,
            json!({ "/error/code": "CONFLICT" }),
        ),
        ("DELETE", at, null.clone(), 200, json!({ "/status": "deleted", "/revision": 5 })),
        ("DELETE", at, null.clone(), 404, json!({ "/error/code": "NOT_FOUND" })),
        ("GET", at, null.clone(), 404, json!({ "/error/code": "NOT_FOUND" })),
        ("POST", "/documents", document, 201, json!({ "/status": "created", "/revision": 6 })),
    ];
    check(&lyceum, &rows).await;
}

#[tokio::test]
async fn paths_mean_the_same_however_they_are_spelled() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let null = Value::Null;
    let made = json!({ "path": "ü/50% +?#.md", "content": "x" });
    let found = json!({ "/document_id": "ü/50% +?#.md" });
    let invalid = json!({ "/error/code": "INVALID_ARGUMENT" });
    let rows = [
        ("POST", "/documents", made, 201, json!({})),
        ("GET", "/documents/%C3%BC/50%25%20+%3F%23.md", null.clone(), 200, found.clone()),
        ("GET", "/documents/u%CC%88%2F50%25%20%2B%3f%23.md", null.clone(), 200, found.clone()),
        ("GET", "/kb/get/%C3%BC/50%25%20+%3F%23.md", null.clone(), 200, found),
        ("GET", "/documents/a%2F..%2Fb", null.clone(), 422, invalid.clone()),
        ("GET", "/documents/../etc", null.clone(), 422, invalid.clone()),
        ("GET", "/documents//a", null.clone(), 422, invalid.clone()),
        ("GET", "/documents/a%00b", null.clone(), 422, invalid.clone()),
        ("GET", "/documents/%ff", null.clone(), 422, invalid.clone()),
        ("GET", "/documents/%zz", null.clone(), 422, invalid.clone()),
        ("PUT", "/documents/a", json!({ "path": "b", "content": "x" }), 422, invalid),
    ];
    check(&lyceum, &rows).await;
}

#[tokio::test]
async fn knowledge_is_listed_and_searched() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    for name in ["a/1", "a/2", "a/3", "ab/1"] {
        let body = json!({ "path": name, "content": format!("text about zebras in {name}") });
        assert_eq!(send(&lyceum, "POST", "/documents", body).await.status(), 201);
    }
    let null = Value::Null;
    let invalid = json!({ "/error/code": "INVALID_ARGUMENT" });
    let rows = [
        (
            "GET",
            "/kb/list",
            null.clone(),
            200,
            json!({ "/count": 4, "/truncated": false, "/next_cursor": null }),
        ),
        (
            "GET",
            "/kb/list?prefix=a%2F&limit=2",
            null.clone(),
            200,
            json!({ "/count": 2, "/truncated": true, "/next_offset": 2 }),
        ),
        (
            "GET",
            "/kb/list?path=/a/&offset=2",
            null.clone(),
            200,
            json!({ "/items/0/document_id": "a/3", "/count": 1 }),
        ),
        ("GET", "/kb/list?limit=0", null.clone(), 422, invalid.clone()),
        ("GET", "/kb/list?offset=10001", null.clone(), 422, invalid.clone()),
        ("GET", "/kb/list?limit=x", null.clone(), 422, invalid.clone()),
        ("GET", "/kb/list?unheard=1", null.clone(), 422, invalid.clone()),
        ("GET", "/kb/list?cursor=forged", null.clone(), 422, invalid.clone()),
        (
            "POST",
            "/kb/search",
            json!({ "query": "zebras", "prefix": "ab/" }),
            200,
            json!({ "/hits/0/document_id": "ab/1", "/usage/hits": 1 }),
        ),
        ("POST", "/kb/search", json!({ "query": " " }), 422, invalid.clone()),
        ("POST", "/kb/search", json!({ "query": "x", "limit": 21 }), 422, invalid.clone()),
        ("POST", "/kb/search", json!(["x"]), 422, invalid),
    ];
    check(&lyceum, &rows).await;
    let first = send(&lyceum, "GET", "/kb/list?limit=3", Value::Null).await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = send(&lyceum, "GET", &format!("/kb/list?cursor={cursor}"), Value::Null).await.json();
    assert_eq!(rest["items"][0]["document_id"], "ab/1");
}

#[tokio::test]
async fn idempotency_keys_work_here_too() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let upload = |content: &str| json!({ "path": "a", "content": content, "idempotency_key": "k" });
    let created = json!({ "/status": "created", "/revision": 1 });
    let rows = [
        ("POST", "/documents", upload("x"), 201, created.clone()),
        ("POST", "/documents", upload("x"), 201, created),
        ("POST", "/documents", upload("y"), 409, json!({ "/error/code": "CONFLICT" })),
    ];
    check(&lyceum, &rows).await;
}

#[tokio::test]
async fn what_cannot_be_is_refused_in_one_shape() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let plain = |method: &str, path: &str| Request::new(method, path);
    let post = |body: &str| Request::new("POST", "/documents").body(body);
    let rows = [
        (plain("POST", "/documents/x/move"), 501, "NOT_IMPLEMENTED"),
        (plain("POST", "/documents/a/move").body("{\"to\":1}"), 501, "NOT_IMPLEMENTED"),
        (plain("GET", "/kb/unheard-of"), 404, "NOT_FOUND"),
        (plain("PUT", "/kb/list"), 405, "METHOD_NOT_ALLOWED"),
        (plain("GET", "/documents"), 405, "METHOD_NOT_ALLOWED"),
        (post("{\"path\":"), 400, "MALFORMED_JSON"),
        (post("{\"path\":\"a\",\"path\":\"b\",\"content\":\"\"}"), 422, "INVALID_ARGUMENT"),
        (post("{\"path\":\"a\"}"), 422, "INVALID_ARGUMENT"),
        (post("{}").header("content-encoding", "gzip"), 415, "UNSUPPORTED_MEDIA_TYPE"),
        (post("{}").set("host", "evil.example"), 421, "MISDIRECTED_REQUEST"),
        (post("{}").header("origin", "https://evil.example"), 403, "FORBIDDEN"),
        (post("").header("content-length", "99999999999"), 413, "PAYLOAD_TOO_LARGE"),
    ];
    for (request, status, code) in rows {
        let answer = lyceum.call(&request).await;
        assert_eq!(answer.status(), status, "{request:?}: {}", answer.text());
        let error = &answer.json()["error"];
        assert_eq!(error["code"], code, "{request:?}");
        assert!(error["message"].is_string() && error["details"].is_object(), "{error}");
        assert!(answer.head.get("x-request-id").is_some(), "{request:?}");
    }
    let named = plain("GET", "/kb/list").header("x-request-id", "mine-1");
    assert_eq!(lyceum.call(&named).await.head.get("x-request-id"), Some("mine-1"));
}

#[tokio::test]
async fn a_refusal_does_not_repeat_what_was_sent() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let long = "x".repeat(1 << 20);
    let rows = [
        ("POST", "/documents", json!({ "path": "a", "content": "", "upsert": long })),
        ("PATCH", "/documents/a", json!({ "edits": [long] })),
        ("POST", "/kb/search", json!({ "query": "a", "explain": long })),
    ];
    for (method, path, body) in rows {
        let answer = send(&lyceum, method, path, body).await;
        assert_eq!(answer.status(), 422, "{method} {path}");
        assert!(answer.text().len() < 2048, "{method} {path}: {}", answer.text().len());
    }
}

#[tokio::test]
async fn too_long_a_document_is_refused_clearly() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("lyceum.toml");
    std::fs::write(&file, "[documents]\nmax_bytes = 10\n").unwrap();
    let lyceum = Lyceum::start(data.path(), &["--config", file.to_str().unwrap()]).await;
    let body = json!({ "path": "a", "content": "0123456789x" });
    let refused = json!({ "/error/code": "INVALID_ARGUMENT", "/error/details/limit_bytes": 10 });
    check(&lyceum, &[("POST", "/documents", body, 422, refused)]).await;
}

#[tokio::test]
async fn documents_and_vectors_are_kept_in_step() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let body = json!({ "path": "a", "content": "some text" });
    send(&lyceum, "POST", "/documents", body).await;
    let started = tokio::time::Instant::now();
    let ready = async || {
        send(&lyceum, "GET", "/documents/a", Value::Null).await.json()["vector_status"] == "ready"
    };
    while !ready().await {
        assert!(started.elapsed().as_secs() < 10, "no vectors");
        tokio::time::sleep(tokio::time::Duration::from_millis(20)).await;
    }
    let synced = json!({
        "/documents_without_vectors": 0, "/vectors_without_documents": 0, "/status": "in_sync",
    });
    let rows = [
        ("POST", "/kb/audit-sync", Value::Null, 200, synced),
        ("POST", "/kb/reindex-missing", json!({}), 200, json!({ "/queued": 0 })),
        ("POST", "/kb/cleanup-orphans", json!({ "dry_run": true }), 200, json!({ "/removed": 0 })),
        ("POST", "/kb/cleanup-orphans", Value::Null, 200, json!({ "/removed": 0 })),
        ("POST", "/kb/cleanup-orphans", json!({ "dry": true }), 422, json!({})),
    ];
    check(&lyceum, &rows).await;
    let metrics = send(&lyceum, "GET", "/metrics", Value::Null).await;
    for line in ["vector_sync_lag_seconds 0", "lyceum_documents 1", "lyceum_vectors_waiting 0"] {
        assert!(metrics.text().lines().any(|found| found == line), "{}", metrics.text());
    }
}

#[tokio::test]
async fn health_tells_callers_without_a_key_less() {
    let data = tempfile::tempdir().unwrap();
    let key = crate::keys::create(data.path(), "watcher").await;
    let lyceum = Lyceum::start(data.path(), &[]).await;
    let anonymous = lyceum.call(&Request::new("GET", "/health").set("host", "10.0.0.1")).await;
    assert_eq!(anonymous.status(), 200);
    let told = anonymous.json();
    assert_eq!(told["dependencies"]["store"], json!({ "status": "ok" }));
    assert_eq!(told["dependencies"]["embedder"], json!({ "status": "ok" }));
    let known = Request::new("GET", "/health").header("x-api-key", &key);
    let told = lyceum.call(&known).await.json();
    assert_eq!(told["status"], "ok");
    assert_eq!(told["dependencies"]["store"]["kind"], "sqlite");
    assert!(told["dependencies"]["store"]["latency_ms"].is_number());
    assert_eq!(told["dependencies"]["index"]["waiting"], 0);
    assert_eq!(told["integrity"]["status"], "ok");
}

#[tokio::test]
async fn info_names_tools_profiles_and_hashes() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let info = send(&lyceum, "GET", "/info", Value::Null).await.json();
    assert_eq!(info["tools"].as_array().unwrap().len(), 10);
    let profiles = info["profiles"].as_array().unwrap();
    let told: Vec<(&str, usize, &str)> = profiles
        .iter()
        .map(|profile| {
            let tools = profile["tools"].as_array().unwrap().len();
            (profile["name"].as_str().unwrap(), tools, profile["dialect"].as_str().unwrap())
        })
        .collect();
    let expected = [
        ("mcp", 10, "standard"),
        ("mcp-readonly", 5, "standard"),
        ("mcp-gpt", 8, "agent-data"),
        ("mcp-gpt-full", 10, "agent-data"),
    ];
    assert_eq!(told, expected);
    assert_eq!(info["schema_hash"], profiles[0]["schema_hash"]);
    assert_ne!(profiles[0]["schema_hash"], profiles[1]["schema_hash"]);
}
