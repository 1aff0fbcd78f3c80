//! Bodies that are too big, too slow, too deep, or not what they say.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use lyceum_http::Limits;
use lyceum_testkit::Request;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, Sleep, sleep};
use tower_service::Service;

use crate::lab::{Lab, PATH, in_process, initialize, modern, resident_kb, whole};
use crate::matrix::{refused, succeeded};

fn small_limit(bytes: usize) -> Lab {
    let limits = Limits { body_bytes: bytes, ..Limits::default() };
    Lab::with(|endpoint| endpoint.limits(limits))
}

#[tokio::test]
async fn declared_length_over_the_limit_is_413_before_any_of_it_is_read() {
    let lab = small_limit(1000);
    let server = lab.serve().await;
    for length in ["1001", "1073741824", "9223372036854775807"] {
        let mut connection = server.connect().await;
        let request = modern(1, "echo", json!({})).body("").header("content-length", length);
        connection.send(request.to_bytes()).await;
        let response = connection.response().await;
        refused(&response, 413, -32600, Value::Null);
        assert_eq!(response.head.get("connection"), Some("close"));
        assert!(connection.closes_within(Duration::from_secs(2)).await);
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn chunked_body_over_the_limit_is_413_while_it_streams() {
    let lab = small_limit(100_000);
    let server = lab.serve().await;
    let mut connection = server.connect().await;
    let head = modern(1, "echo", json!({})).body("").header("transfer-encoding", "chunked");
    connection.send(head.to_bytes()).await;
    let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
    let mut sent = 0;
    // The refusal comes long before a body without an end does.
    while sent < 64 << 20 && connection.try_send(&chunk).await.is_ok() {
        sent += 0x1000;
    }
    assert!(sent < 64 << 20, "the server read on for ever");
    assert_eq!(lab.fixture.invocations(), 0);
    assert_eq!(server.connect().await.call(&modern(1, "echo", json!({}))).await.status(), 200);
}

/// A body whose two pieces are small enough, but not together.
struct TwoPieces(Vec<Bytes>);

impl Body for TwoPieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.pop().map(|piece| Ok(Frame::data(piece))))
    }
}

#[tokio::test]
async fn pieces_are_counted_together() {
    let request = modern(1, "echo", json!({"text": "x".repeat(5000)}));
    let (last, first) = (request.body[3000..].to_vec(), request.body[..3000].to_vec());
    for (limit, status) in [(request.body.len(), 200), (request.body.len() - 1, 413)] {
        let mut lab = small_limit(limit);
        let pieces = TwoPieces(vec![last.clone().into(), first.clone().into()]);
        let response = lab.endpoint.call(in_process(&request).map(|_| pieces)).await.unwrap();
        assert_eq!(response.status(), status);
    }
}

#[tokio::test]
async fn body_exactly_at_the_limit_is_read() {
    let request = modern(1, "echo", json!({"text": "x".repeat(5000)}));
    let lab = small_limit(request.body.len());
    let server = lab.serve().await;
    succeeded(&server.connect().await.call(&request).await, 1);
    let chunked = request.clone().header("transfer-encoding", "chunked");
    let framed = format!(
        "{:x}\r\n{}\r\n0\r\n\r\n",
        request.body.len(),
        String::from_utf8_lossy(&request.body)
    );
    succeeded(&server.connect().await.call(&chunked.body(framed)).await, 1);
    let lab = small_limit(request.body.len() - 1);
    refused(&lab.send(&request).await, 413, -32600, Value::Null);
}

#[tokio::test]
async fn body_shorter_than_declared_reaches_no_handler() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let request = modern(1, "echo", json!({}));
    let length = (request.body.len() + 1).to_string();
    let mut connection = server.connect().await;
    connection.send(request.header("content-length", &length).to_bytes()).await;
    connection.finish_sending().await;
    connection.closed().await;
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn encoded_bodies_are_415() {
    let lab = Lab::new();
    for coding in ["gzip", "br", "zstd", "deflate", "identity, gzip", "x"] {
        for request in [initialize("2025-11-25"), modern(1, "echo", json!({}))] {
            let response = lab.send(&request.header("content-encoding", coding)).await;
            refused(&response, 415, -32600, Value::Null);
        }
    }
    assert_eq!(lab.fixture.invocations(), 0);
    let plain = modern(1, "echo", json!({})).header("content-encoding", "identity");
    succeeded(&lab.send(&plain).await, 1);
}

#[tokio::test]
async fn deep_bodies_are_refused_at_once() {
    let lab = small_limit(16 << 20);
    let nested =
        |depth: usize, open: &str, close: &str| open.repeat(depth) + "1" + &close.repeat(depth);
    let in_arguments = |inside: &str| {
        let request = modern(1, "echo", json!({"text": "hole"}));
        let body = String::from_utf8(request.body.clone()).unwrap().replace("\"hole\"", inside);
        request.body(body)
    };
    for depth in [129, 100_000, 1_000_000] {
        let start = Instant::now();
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let bomb = nested(depth, open, close);
            refused(&lab.send(&Request::post(PATH, bomb.clone())).await, 400, -32700, Value::Null);
            refused(&lab.send(&in_arguments(&bomb)).await, 400, -32700, Value::Null);
            let unfinished = Request::post(PATH, open.repeat(depth));
            refused(&lab.send(&unfinished).await, 400, -32700, Value::Null);
        }
        assert!(start.elapsed() < Duration::from_secs(5), "{depth} took {:?}", start.elapsed());
    }
    assert_eq!(lab.fixture.invocations(), 0);
    // Sixty-four levels in all are fine; the arguments stand at the third.
    succeeded(&lab.send(&in_arguments(&nested(61, "[", "]"))).await, 1);
    refused(&lab.send(&in_arguments(&nested(62, "[", "]"))).await, 400, -32700, Value::Null);
}

#[tokio::test]
async fn two_meanings_of_one_body_are_refused() {
    let lab = Lab::new();
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","METHOD":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","paramſ":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"b":1,"b":2}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"pong"}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}"#,
    ] {
        let response = lab.send(&Request::post(PATH, body)).await;
        assert_eq!(
            (response.status(), &response.json()["error"]["code"]),
            (400, &json!(-32600)),
            "{body}"
        );
    }
    for body in [
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#,
        r#"{"jsonrpc":"2.0","id":NaN,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\ud800"}}"#,
    ] {
        refused(&lab.send(&Request::post(PATH, body)).await, 400, -32700, Value::Null);
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

/// A body that arrives piece by piece, with a pause before each; it has no end.
struct Trickle {
    pause: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl Trickle {
    fn new(pause: Duration) -> Self {
        Self { pause, sleep: Box::pin(sleep(pause)) }
    }
}

impl Body for Trickle {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        ready!(self.sleep.as_mut().poll(cx));
        let next = Instant::now() + self.pause;
        self.sleep.as_mut().reset(next);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b" ")))))
    }
}

#[tokio::test(start_paused = true)]
async fn slow_bodies_are_408() {
    for (pause, deadline) in [(3600, 15), (16, 15), (14, 60), (1, 60)] {
        let lab = Lab::new();
        let head = in_process(&modern(1, "echo", json!({}))).into_parts().0;
        let body = Trickle::new(Duration::from_secs(pause));
        let start = Instant::now();
        let response =
            lab.endpoint.clone().call(http::Request::from_parts(head, body)).await.unwrap();
        refused(&whole(response).await, 408, -32600, Value::Null);
        let took = start.elapsed();
        let deadline = Duration::from_secs(deadline);
        assert!(took >= deadline && took <= deadline + Duration::from_secs(1), "{pause}: {took:?}");
        assert_eq!(lab.fixture.invocations(), 0);
    }
}

#[tokio::test]
async fn hundred_endless_bodies_cost_a_bounded_amount() {
    let lab = small_limit(256 << 10);
    let server = lab.serve().await;
    let before = resident_kb();
    let mut senders = Vec::new();
    for _ in 0..100 {
        let mut connection = server.connect().await;
        senders.push(tokio::spawn(async move {
            let head = modern(1, "echo", json!({})).body("").header("transfer-encoding", "chunked");
            connection.send(head.to_bytes()).await;
            let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
            for _ in 0..160 {
                if connection.try_send(&chunk).await.is_err() {
                    break;
                }
            }
        }));
    }
    for sender in senders {
        sender.await.unwrap();
    }
    let grown = resident_kb().saturating_sub(before);
    // A server that read them to their ends would hold a gigabyte.
    assert!(grown < 200 << 10, "{grown} KiB");
    assert_eq!(lab.fixture.invocations(), 0);
}
