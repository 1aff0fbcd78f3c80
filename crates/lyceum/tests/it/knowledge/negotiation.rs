//! The agent-data vectors, on the profile its clients know best.

use lyceum_testkit::{Request, Response};
use serde_json::json;

use crate::lyceum::Lyceum;

const PATH: &str = "/mcp-gpt";
const EVENT_STREAM: &str = "text/event-stream; charset=utf-8";

fn post(accept: Option<&str>, body: &str) -> Request {
    let request = Request::new("POST", PATH).header("content-type", "application/json").body(body);
    match accept {
        Some(accept) => request.header("accept", accept),
        None => request,
    }
}

fn list() -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} }).to_string()
}

/// The message in an answer, and whether it came as an event stream.
fn message(response: &Response) -> (serde_json::Value, bool) {
    if response.head.get("content-type") == Some(EVENT_STREAM) {
        let events = response.events();
        assert_eq!((events.len(), events[0].name.as_str()), (1, "message"));
        return (events[0].json(), true);
    }
    assert_eq!(response.head.get("content-type"), Some("application/json"));
    (response.json(), false)
}

#[tokio::test]
async fn accept_decides_between_json_and_sse() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    for (accept, sse) in [
        (Some("application/json"), false),
        (Some("application/json, text/event-stream"), false),
        (Some("text/event-stream, application/json"), false),
        (Some("text/event-stream"), true),
        (Some("application/json;q=.5, text/event-stream;q=1"), true),
        (Some("application/json;q=1, text/event-stream;q=.5"), false),
        (None, false),
        (Some(";;;malformed"), false),
        (Some("*/*"), false),
        (Some("*"), false),
    ] {
        let answer = lyceum.call(&post(accept, &list())).await;
        assert_eq!(answer.status(), 200, "{accept:?}");
        let (told, streamed) = message(&answer);
        assert_eq!(streamed, sse, "{accept:?}");
        assert_eq!(told["result"]["tools"].as_array().unwrap().len(), 8);
        assert_eq!(answer.head.get("mcp-session-id"), None);
    }
}

#[tokio::test]
async fn other_types_are_not_acceptable() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let answer = lyceum.call(&post(Some("application/xml"), &list())).await;
    assert_eq!((answer.status(), &answer.json()["error"]["code"]), (406, &json!(-32700)));
    let told = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(told.contains("application/json") && told.contains("text/event-stream"), "{told}");
}

#[tokio::test]
async fn notifications_are_204_and_empty() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let body = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    for accept in ["application/json", "text/event-stream"] {
        let answer = lyceum.call(&post(Some(accept), &body)).await;
        assert_eq!((answer.status(), answer.text()), (204, ""), "{accept}");
    }
}

#[tokio::test]
async fn malformed_bodies_are_200_in_the_form_asked_for() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    for (accept, sse) in [("application/json", false), ("text/event-stream", true)] {
        let answer = lyceum.call(&post(Some(accept), "{nonsense")).await;
        assert_eq!(answer.status(), 200);
        let (told, streamed) = message(&answer);
        assert_eq!((told["error"]["code"].as_i64(), streamed), (Some(-32700), sse));
    }
}

#[tokio::test]
async fn a_list_of_documents_comes_over_sse_with_exact_headers() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let call = |tool: &str, arguments: serde_json::Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
    };
    let upload = call("upload_document", json!({ "path": "a", "content": "x" }));
    lyceum.call(&post(Some("application/json"), &upload)).await;
    let answer =
        lyceum.call(&post(Some("text/event-stream"), &call("list_documents", json!({})))).await;
    for (name, value) in [
        ("content-type", EVENT_STREAM),
        ("cache-control", "no-cache, no-transform"),
        ("x-accel-buffering", "no"),
    ] {
        assert_eq!(answer.head.get(name), Some(value), "{name}");
    }
    assert!(
        answer.text().starts_with("event: message\ndata: {") && answer.text().ends_with("}\n\n")
    );
    let (told, _) = message(&answer);
    assert_eq!(super::text_of(&told["result"])["items"][0]["document_id"], "a");
}

#[tokio::test]
async fn a_get_is_answered_with_what_this_is() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let get = |accept: Option<&str>| {
        let request = Request::new("GET", PATH);
        accept.map_or(request.clone(), |accept| request.header("accept", accept))
    };
    let refused = lyceum.call(&get(Some("text/event-stream"))).await;
    assert_eq!((refused.status(), refused.head.get("allow")), (405, Some("POST")));
    for accept in [None, Some("application/json")] {
        let info = lyceum.call(&get(accept)).await;
        assert_eq!((info.status(), &info.json()["name"]), (200, &json!("lyceum")), "{accept:?}");
    }
}
