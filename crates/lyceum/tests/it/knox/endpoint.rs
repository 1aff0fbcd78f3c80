//! The paths and headers of MCP.

use lyceum_testkit::{Request, Response};
use serde_json::{Value, json};

use super::house::{BASE, House, JSON, SSE, answer, handshake, rpc, stdio};

fn media(response: &Response) -> &str {
    response.head.get("content-type").unwrap_or_default()
}

#[tokio::test]
async fn k01_unified_endpoint_has_several_names() {
    let house = House::new().await;
    for below in ["", "/", "/mcp", "/api"] {
        let listed = house.send(&rpc(below, 1, "tools/list", json!({}))).await;
        assert_eq!(listed.json()["result"]["tools"][0]["name"], "files_echo", "{below:?}");
        assert_eq!(house.get(below).await.json()["service"], "lyceum", "{below:?}");
    }
    assert_eq!(house.get("/other").await.status(), 404);
}

#[tokio::test]
async fn k02_get_json_is_told_about_the_service() {
    let house = House::new().await;
    let info = house.send(&Request::new("GET", BASE).header("accept", JSON)).await;
    assert_eq!((info.status(), media(&info)), (200, JSON));
    let mut info = info.json();
    let endpoints = info["endpoints"].take();
    assert!(endpoints.as_array().is_some_and(|all| all.len() == 3 && all[0].is_string()));
    let expected = json!({
        "service": "lyceum", "version": env!("CARGO_PKG_VERSION"), "protocol": "streamable-http",
        "mcpVersion": "2024-11-05", "capabilities": "tools,resources,sse",
        "servers": 1, "tools": 5, "resources": 1, "endpoints": null,
    });
    assert_eq!(info, expected);
}

#[tokio::test]
async fn k03_get_sse_opens_a_stream() {
    let house = House::new().await;
    for below in ["", "/mcp", "/api"] {
        let (head, ..) = house.open(below).await;
        assert_eq!(head.status, 200, "{below:?}");
    }
    let few = "[limits]\nsessions = 1\n";
    let house = House::with(&(stdio("files", &[]).await + few)).await;
    let _first = house.open("").await;
    let refused = house.send(&Request::new("GET", BASE).header("accept", SSE)).await;
    assert_eq!(refused.status(), 503, "{}", refused.text());
    assert!(refused.json()["error"]["message"].is_string(), "the reason: {}", refused.text());
}

#[tokio::test]
async fn k04_post_json_is_answered_at_once() {
    let house = House::new().await;
    let response = house.send(&rpc("", 7, "ping", json!({}))).await;
    assert_eq!((response.status(), media(&response)), (200, JSON));
    assert_eq!(response.json(), json!({ "jsonrpc": "2.0", "id": 7, "result": {} }));
}

#[tokio::test]
async fn k05_post_sse_is_answered_on_the_stream_it_names() {
    let house = House::new().await;
    let (mut events, id) = house.conversation().await;
    let ping = |query: &str| rpc(query, 7, "ping", json!({})).set("accept", SSE);
    let named = format!("?session={id}");
    for request in [
        ping("").header("mcp-session-id", &id),
        ping("").header("x-session-id", &id),
        ping(&named),
        ping("?session=other").header("x-session-id", &id),
        ping("?session=other").header("mcp-session-id", &id).header("x-session-id", "other"),
    ] {
        let response = house.send(&request).await;
        assert_eq!(response.status(), 202, "{request:?}");
        assert_eq!(response.head.get("mcp-session-id"), Some(&*id));
        assert_eq!(response.head.get("mcp-version"), Some("2024-11-05"));
        assert_eq!(answer(&mut events).await.json()["id"], 7);
    }
    let unknown = house.send(&ping(&named).header("mcp-session-id", "mcp-sse-1")).await;
    assert_eq!(unknown.status(), 404, "{}", unknown.text());
    let direct = house.send(&ping("")).await;
    assert_eq!(direct.events()[0].json()["id"], 7, "whoever names no stream gets one");
}

#[tokio::test]
async fn k06_accept_is_read_as_knox_reads_it() {
    let house = House::new().await;
    for (accept, expected) in [
        (JSON, JSON),
        (SSE, SSE),
        ("TEXT/Event-Stream; charset=utf-8", SSE),
        ("application/json, text/event-stream", JSON),
        ("text/event-stream, application/json", SSE),
        ("application/json;q=0.9, text/event-stream;q=0.5", JSON),
        ("application/json;q=0.5, text/event-stream;q=0.9", SSE),
        ("application/json;q=0.9, text/event-stream;q=high", SSE),
        ("text/html;q=0.8, application/json;q=0.9, text/event-stream;q=0.7, */*;q=0.1", JSON),
        ("*/*", JSON),
        ("text/*", JSON),
        ("application/*", JSON),
        ("application/xml", JSON),
        ("", JSON),
    ] {
        let post = house.send(&rpc("", 7, "ping", json!({})).set("accept", accept)).await;
        assert!(media(&post).starts_with(expected), "POST {accept:?}: {}", media(&post));
        let get = Request::new("GET", BASE).header("accept", accept);
        let mut connection = house.lyceum.connect().await;
        connection.send(get.to_bytes()).await;
        let head = connection.head().await.unwrap();
        let media = head.get("content-type").unwrap_or_default();
        assert!(media.starts_with(expected), "GET {accept:?}: {media}");
    }
    let absent = house.send(&rpc("", 7, "ping", json!({})).without("accept")).await;
    assert_eq!(media(&absent), JSON);
}

#[tokio::test]
async fn k07_version_header_is_echoed() {
    let house = House::new().await;
    let ping = |below: &str| rpc(below, 7, "ping", json!({}));
    let get = Request::new("GET", BASE);
    for (request, version) in [
        (ping(""), "2024-11-05"),
        (ping("/message"), "2024-11-05"),
        (get.clone(), "2024-11-05"),
        (get.header("mcp-version", "mine"), "mine"),
        (ping("").header("mcp-version", "mine"), "mine"),
        (ping("/message").header("mcp-version", "mine"), "mine"),
        (ping("").header("mcp-protocol-version", "2025-06-18"), "2025-06-18"),
    ] {
        let response = house.send(&request).await;
        assert_eq!(response.head.get("mcp-version"), Some(version), "{request:?}");
    }
}

#[tokio::test]
async fn k08_session_ids_are_minted_and_echoed_but_not_judged() {
    let house = House::new().await;
    let session = |response: &Response| response.head.get("mcp-session-id").map(str::to_owned);
    let hello = rpc("", 1, "initialize", handshake());
    let (one, other) = (house.send(&hello).await, house.send(&hello).await);
    assert!(session(&one).is_some() && session(&one) != session(&other), "never the same");
    let own = Some("my-own".to_owned());
    let carried = house.send(&hello.header("mcp-session-id", "my-own")).await;
    assert_eq!(session(&carried), own);
    let later = rpc("", 2, "tools/list", json!({})).header("mcp-session-id", "my-own");
    let later = house.send(&later).await;
    assert_eq!((later.status(), session(&later)), (200, own));
}

#[tokio::test]
async fn modern_requests_get_modern_rules() {
    let house = House::new().await;
    let params = json!({ "name": "files_echo", "arguments": { "text": "x" } });
    let called = house.send(&Request::modern(BASE, 1, "tools/call", params)).await.json();
    assert_eq!(called["result"]["resultType"], "complete", "{called}");
    let unknown = house.send(&Request::modern(BASE, 1, "no/such", json!({}))).await;
    assert_eq!(unknown.status(), 404);
    let unknown =
        house.send(&Request::modern(BASE, 1, "tools/call", json!({ "name": "no" }))).await;
    assert_eq!(unknown.json()["error"]["code"], -32602);
    assert_eq!(unknown.json()["error"]["data"], Value::Null);
}
