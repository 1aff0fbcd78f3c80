//! Messages handed over to a stream, as Knox's clients do it.

use lyceum_http::Dialect;
use lyceum_testkit::{Request, Response};
use serde_json::{Value, json};
use tower_service::Service;

use crate::lab::{Lab, Live, PATH, in_process, whole};
use crate::matrix::Bearer;

const MESSAGES: &str = "/message";
const SSE: &str = "text/event-stream";

fn lab() -> Lab {
    Lab::with(|endpoint| endpoint.dialect(Dialect::Knox).hand_over(MESSAGES))
}

fn get() -> Request {
    Request::new("GET", PATH).header("accept", SSE)
}

/// A call by somebody who would rather have a stream.
fn post(target: &str, id: u64, method: &str, params: Value) -> Request {
    Request::legacy(target, id, method, params).set("accept", SSE)
}

/// Opens a stream with GET; returns it and its id.
async fn open(lab: &Lab, request: &Request) -> (Live, String) {
    let mut live = lab.open(request).await;
    let connected = live.next().await.unwrap();
    assert_eq!(connected.name, "connected");
    let endpoint = live.next().await.unwrap();
    let address = format!("{MESSAGES}?session={}", connected.data);
    assert_eq!((endpoint.name, endpoint.data), ("endpoint".to_owned(), address));
    (live, connected.data)
}

/// The next answer on a stream; notifications may come before it.
async fn answer(live: &mut Live) -> Value {
    loop {
        let message = live.next().await.unwrap().json();
        if !message["id"].is_null() {
            return message;
        }
    }
}

/// Sends a request to the messages path.
async fn message(lab: &Lab, request: &Request) -> Response {
    let mut service = lab.endpoint.http_sse(MESSAGES);
    whole(service.call(in_process(request)).await.unwrap()).await
}

async fn initialized(lab: &Lab, live: &mut Live, id: &str) {
    let params = json!({"protocolVersion": "2024-11-05", "capabilities": {}});
    let request = post(PATH, 0, "initialize", params).header("mcp-session-id", id);
    assert_eq!(lab.send(&request).await.status(), 202);
    assert_eq!(answer(live).await["id"], 0);
}

#[tokio::test]
async fn stream_is_named_by_session_header_then_own_header_then_parameter() {
    let lab = lab();
    let (mut live, id) = open(&lab, &get()).await;
    initialized(&lab, &mut live, &id).await;
    let ping = |target: &str| post(target, 7, "ping", json!({}));
    let good = format!("{PATH}?session={id}");
    let bad = format!("{PATH}?session=other");
    for (request, status) in [
        (ping(PATH).header("mcp-session-id", &id).header("x-session-id", "other"), 202),
        (ping(&bad).header("x-session-id", &id), 202),
        (ping(&good), 202),
        (ping(&good).header("x-session-id", "other"), 404),
        (ping(&good).header("mcp-session-id", "other"), 404),
        (ping(&bad), 404),
    ] {
        let response = lab.send(&request).await;
        assert_eq!(response.status(), status, "{request:?}");
        if status == 202 {
            assert_eq!(response.head.get("mcp-session-id"), Some(&*id));
            assert_eq!(answer(&mut live).await["id"], 7);
        }
    }
}

#[tokio::test]
async fn messages_path_hands_over_or_answers_as_json() {
    let lab = lab();
    let (mut live, id) = open(&lab, &get()).await;
    let ping = |target: &str| post(target, 7, "ping", json!({}));
    for request in
        [ping(&format!("{MESSAGES}?session={id}")), ping(MESSAGES).header("x-session-id", &id)]
    {
        assert_eq!(message(&lab, &request).await.status(), 202);
        assert_eq!(answer(&mut live).await["id"], 7);
    }
    assert_eq!(message(&lab, &ping(&format!("{MESSAGES}?session=x"))).await.status(), 404);
    let response = message(&lab, &ping(MESSAGES)).await;
    assert_eq!(response.head.get("content-type"), Some("application/json"));
    assert_eq!(response.json()["id"], 7);
}

#[tokio::test]
async fn tools_wait_for_the_handshake_of_their_stream() {
    let lab = lab();
    let (mut live, id) = open(&lab, &get()).await;
    let list = post(PATH, 7, "tools/list", json!({})).header("x-session-id", &id);
    assert_eq!(lab.send(&list).await.status(), 202);
    let refused = answer(&mut live).await;
    assert_eq!(refused["error"], json!({"code": -32002, "message": "Server not initialized"}));
    initialized(&lab, &mut live, &id).await;
    assert_eq!(lab.send(&list).await.status(), 202);
    assert_eq!(answer(&mut live).await["error"], Value::Null);
}

#[tokio::test]
async fn whoever_names_no_stream_is_answered_directly() {
    let lab = lab();
    let response = lab.send(&post(PATH, 7, "ping", json!({}))).await;
    assert_eq!(response.events()[0].json()["id"], 7, "as an event stream");
    let session = lab.session("2025-06-18").await;
    let in_session = post(PATH, 8, "ping", json!({})).header("mcp-session-id", &session);
    assert_eq!(lab.send(&in_session).await.events()[0].json()["id"], 8);
    let json = Request::legacy(PATH, 9, "ping", json!({})).header("mcp-session-id", "invented");
    assert_eq!(lab.send(&json).await.json()["id"], 9, "in JSON nobody judges it");
}

#[tokio::test]
async fn session_stream_is_opened_by_who_has_a_session() {
    let lab = lab();
    let session = lab.session("2025-06-18").await;
    let live = lab.open(&get().header("mcp-session-id", &session)).await;
    assert_eq!(live.head.get("mcp-session-id"), Some(&*session), "no new one is made");
}

#[tokio::test]
async fn stream_of_somebody_else_is_unknown() {
    let lab = Lab::with(|endpoint| {
        endpoint.dialect(Dialect::Knox).hand_over(MESSAGES).authenticate(Bearer::shared())
    });
    let (_live, id) = open(&lab, &get().header("authorization", "Bearer alice")).await;
    let ping = post(PATH, 7, "ping", json!({})).header("x-session-id", &id);
    let by = |name: &str| ping.clone().header("authorization", &format!("Bearer {name}"));
    assert_eq!(lab.send(&by("bob")).await.status(), 404);
    assert_eq!(lab.send(&by("alice")).await.status(), 202);
}

#[tokio::test]
async fn stream_that_was_closed_is_unknown() {
    let lab = lab();
    let (live, id) = open(&lab, &get()).await;
    drop(live);
    let ping = post(PATH, 7, "ping", json!({})).header("x-session-id", &id);
    assert_eq!(lab.send(&ping).await.status(), 404);
}
