//! The same rules over HTTP/2, by prior knowledge.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lyceum_http::ServeOptions;
use lyceum_testkit::parse_events;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};

use crate::lab::{Lab, PATH, call, get, initialize, modern, text_of};

type Client = SendRequest<Full<Bytes>>;

async fn connect(address: SocketAddr) -> Client {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}

/// The request as HTTP/2 has it: the host in `:authority`, and a Host line only if asked for.
fn h2(
    request: &lyceum_testkit::Request,
    authority: &str,
    host: Option<&str>,
) -> Request<Full<Bytes>> {
    let uri = format!("http://{authority}{}", request.target);
    let mut built = Request::builder().method(&*request.method).uri(uri);
    for (name, value) in request.headers.iter().filter(|(name, _)| name != "host") {
        built = built.header(name, value);
    }
    if let Some(host) = host {
        built = built.header("host", host);
    }
    built.body(Full::from(request.body.clone())).unwrap()
}

async fn send(client: &mut Client, request: Request<Full<Bytes>>) -> (u16, Bytes) {
    let response = client.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    (status, response.into_body().collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn both_eras_are_served() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let mut client = connect(server.address()).await;
    let response =
        client.send_request(h2(&initialize("2025-11-25"), "localhost", None)).await.unwrap();
    let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    for request in
        [modern(7, "echo", json!({"text": "hi"})), call(&session, 7, "echo", json!({"text": "hi"}))]
    {
        let (status, body) = send(&mut client, h2(&request, "127.0.0.1:1", None)).await;
        let message: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((status, text_of(&message)), (200, "hi"));
    }
    let (status, body) =
        send(&mut client, h2(&modern(7, "burst", json!({})), "localhost", None)).await;
    assert_eq!((status, parse_events(&body).len()), (200, 4));
}

#[tokio::test]
async fn addressees_are_judged() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let mut client = connect(server.address()).await;
    let request = modern(7, "echo", json!({}));
    for (authority, host, status) in [
        ("evil.example", None, 421),
        ("evil.example", Some("127.0.0.1"), 421),
        ("127.0.0.1", Some("evil.example"), 421),
        ("127.0.0.1", Some("localhost"), 421),
        ("127.0.0.1.evil.example", None, 421),
        ("127.0.0.1", Some("127.0.0.1"), 200),
        ("localhost:8808", None, 200),
    ] {
        let before = lab.fixture.invocations();
        let (got, _) = send(&mut client, h2(&request, authority, host)).await;
        assert_eq!(got, status, "{authority} {host:?}");
        assert_eq!(lab.fixture.invocations() - before, usize::from(status == 200));
    }
    let evil = request.header("origin", "http://evil.example");
    assert_eq!(send(&mut client, h2(&evil, "localhost", None)).await.0, 403);
}

#[tokio::test]
async fn page_for_people_names_the_address_they_used() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let mut client = connect(server.address()).await;
    let look = lyceum_testkit::Request::new("GET", PATH).set("accept", "text/html");
    let (status, body) = send(&mut client, h2(&look, "127.0.0.1:8808", None)).await;
    let page = String::from_utf8(body.to_vec()).unwrap();
    assert_eq!(status, 200);
    assert!(page.contains("http://127.0.0.1:8808/mcp"), "{page}");
}

#[tokio::test]
async fn streams_of_one_connection_do_not_wait_for_each_other() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let client = connect(server.address()).await;
    let slow = tokio::spawn({
        let mut client = client.clone();
        let request = h2(&modern(1, "puppet", json!({"name": "p"})), "localhost", None);
        async move { send(&mut client, request).await }
    });
    let puppet = lab.fixture.puppet("p").await;
    let mut calls = tokio::task::JoinSet::new();
    for id in 0..100 {
        let mut client = client.clone();
        let request = h2(&modern(id, "echo", json!({"text": id.to_string()})), "localhost", None);
        calls.spawn(async move { (id, send(&mut client, request).await) });
    }
    while let Some(called) = calls.join_next().await {
        let (id, (_, body)) = called.unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (message["id"].as_i64(), text_of(&message)),
            (Some(id.into()), &*id.to_string())
        );
    }
    puppet.finish("done");
    assert_eq!(slow.await.unwrap().0, 200);
}

#[tokio::test]
async fn reset_stream_cancels_a_modern_call_and_not_a_legacy_one() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let mut client = connect(server.address()).await;
    let session = lab.session("2025-11-25").await;
    for (request, dies) in [
        (modern(1, "puppet", json!({"name": "p"})), true),
        (call(&session, 1, "puppet", json!({"name": "p"})), false),
    ] {
        for streamed in [false, true] {
            let answering: tokio::task::JoinHandle<Response<Incoming>> = tokio::spawn({
                let mut client = client.clone();
                let request = h2(&request, "localhost", None);
                async move { client.send_request(request).await.unwrap() }
            });
            let mut puppet = lab.fixture.puppet("p").await;
            if streamed {
                puppet.notify("first").await;
                drop(answering.await.unwrap());
            } else {
                answering.abort();
            }
            if dies {
                timeout(Duration::from_secs(2), puppet.gone()).await.unwrap();
            } else {
                // Another request proves that the reset was seen.
                send(&mut client, h2(&modern(2, "echo", json!({})), "localhost", None)).await;
                assert!(!puppet.is_gone());
                puppet.finish("done");
            }
        }
    }
    lab.fixture.until_running(0).await;
}

#[tokio::test]
async fn standalone_stream_works() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let mut client = connect(server.address()).await;
    let session = lab.session("2025-06-18").await;
    let mut response = client.send_request(h2(&get(&session), "localhost", None)).await.unwrap();
    lab.fixture.announce("news");
    let frame = response.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(parse_events(&frame)[0].json()["params"]["data"], "news");
}

/// A client that grants each stream `window` bytes until it has read some.
async fn connect_with_window(address: SocketAddr, window: u32) -> Client {
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = Builder::new(TokioExecutor::new())
        .initial_stream_window_size(window)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}

#[tokio::test]
async fn stream_that_gets_no_window_is_given_up_alone() {
    let lab = Lab::new();
    let write_stall = Duration::from_millis(300);
    let server = lab.serve_with(ServeOptions { write_stall, ..ServeOptions::default() }).await;
    let mut client = connect_with_window(server.address(), 0).await;
    let open = |tool: &str| h2(&modern(1, tool, json!({"name": "p"})), "localhost", None);
    let stuck = tokio::spawn(client.send_request(open("puppet")));
    let mut puppet = lab.fixture.puppet("p").await;
    puppet.notify("nobody makes room for this").await;
    let stuck = stuck.await.unwrap().unwrap();
    timeout(Duration::from_secs(5), puppet.gone()).await.unwrap();
    assert!(stuck.into_body().collect().await.is_err(), "the stream was reset");
    let whole = client.send_request(open("echo")).await.expect("the connection goes on");
    let ended = timeout(Duration::from_secs(5), whole.into_body().collect()).await.unwrap();
    assert!(ended.is_err(), "answers in one piece are given up too");
}

#[tokio::test]
async fn slow_and_silent_streams_are_not_given_up() {
    let lab = Lab::new();
    let (write_stall, head) = (Duration::from_millis(300), Duration::from_millis(300));
    let server = lab
        .serve_with(ServeOptions { write_stall, head, idle: head, ..ServeOptions::default() })
        .await;
    let mut client = connect_with_window(server.address(), 16 << 10).await;
    let big = h2(&modern(1, "big", json!({"bytes": 200_000})), "localhost", None);
    let mut response = client.send_request(big).await.unwrap();
    let mut read = 0;
    while let Some(frame) = response.frame().await {
        read += frame.expect("a slow reader gets all").into_data().unwrap().len();
        // Slow reading is what this is about.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(read > 200_000, "{read}");
    let open = h2(&modern(1, "puppet", json!({"name": "p"})), "localhost", None);
    let silent = tokio::spawn(client.send_request(open));
    let puppet = lab.fixture.puppet("p").await;
    puppet.notify("first").await;
    let silent = silent.await.unwrap().unwrap();
    tokio::time::sleep(3 * write_stall).await;
    puppet.finish("done");
    let body = silent.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(parse_events(&body).len(), 2);
}

#[tokio::test]
async fn oversized_bodies_are_413() {
    let limits = lyceum_http::Limits { body_bytes: 1000, ..lyceum_http::Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let server = lab.serve().await;
    let mut client = connect(server.address()).await;
    let request = modern(1, "echo", json!({"text": "x".repeat(2000)}));
    let response = client.send_request(h2(&request, "localhost", None)).await.unwrap();
    assert_eq!(response.status(), 413);
    assert_eq!(lab.fixture.invocations(), 0);
    let (status, _) = send(&mut client, h2(&modern(1, "echo", json!({})), "localhost", None)).await;
    assert_eq!(status, 200, "the connection goes on");
}
