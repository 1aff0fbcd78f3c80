//! axum and serde: parses the JSON-RPC request into types, echoes the text, serialises the answer.
//!
//! What a careful hand-written endpoint costs. `/mcp` answers JSON, `/sse` one event of a stream.
//! No sessions, no negotiation, no checks beyond what the types ask for.

use std::borrow::Cow;
use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::net::TcpListener;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: &'a RawValue,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    arguments: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
struct Answer<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    result: Outcome<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    content: [Text<'a>; 1],
    is_error: bool,
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

fn main() -> anyhow::Result<()> {
    limits::run(serve)
}

async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    let router = Router::new().route("/mcp", post(json)).route("/sse", post(event));
    let listener = listener.tap_io(|stream| {
        // Without it the figures would show Nagle's algorithm; the call fails only on a dead socket.
        let _dead = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await?;
    Ok(())
}

async fn json(body: Bytes) -> Response {
    match echo(&body) {
        Some(answer) => ([(CONTENT_TYPE, "application/json")], answer).into_response(),
        None => StatusCode::BAD_REQUEST.into_response(),
    }
}

async fn event(body: Bytes) -> Response {
    let Some(answer) = echo(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let event = Bytes::from([b"data: ".as_slice(), &answer, b"\n\n"].concat());
    let body = Body::from_stream(stream::iter([Ok::<_, Infallible>(event)]));
    ([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")], body).into_response()
}

fn echo(body: &[u8]) -> Option<Vec<u8>> {
    let request: Request<'_> = serde_json::from_slice(body).ok()?;
    let call: Call<'_> = serde_json::from_str(request.params.get()).ok()?;
    if request.method != "tools/call" || call.name != "echo" {
        return None;
    }
    let text = call.arguments.get("text")?.as_str()?;
    let result = Outcome { content: [Text { r#type: "text", text }], is_error: false };
    serde_json::to_vec(&Answer { jsonrpc: "2.0", id: request.id, result }).ok()
}
