//! What a hostile or broken server can and cannot make the client do.

use std::time::Duration;

use lyceum_http::client::{Client, ClientError};

use super::script::{Scene, Script, Then, events, modern, result, status};
use super::{client, connect, limits};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";

/// Calls a server that answers like this, with small limits.
async fn call(answer: impl Into<String>) -> ClientError {
    let script = Script::play([modern(), Scene::new("tools/call", answer, Then::Stay)]).await;
    let small = limits(|limits| {
        limits.body = 1000;
        limits.event = 1000;
        limits.silence = Duration::from_secs(5);
    });
    let server = client(&script).limits(small).build().unwrap().connect().await.unwrap();
    server.call("tools/call", r#"{"name":"a"}"#).await.unwrap_err()
}

#[tokio::test]
async fn answers_are_held_only_up_to_a_limit() {
    let chunks = format!("3e8\r\n{}\r\n", "x".repeat(1000)).repeat(3);
    let events_head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    for answer in [
        format!("{HEAD}content-length: 1099511627776\r\n\r\n{{"),
        format!("{HEAD}transfer-encoding: chunked\r\n\r\n{chunks}"),
        format!("{HEAD}\r\n{}", "x".repeat(3000)),
        format!("{events_head}data: {}", "x".repeat(3000)),
        format!("{events_head}{}", "data: x\n".repeat(1000)),
        format!("{events_head}id: {}\n", "x".repeat(3000)),
    ] {
        let error = call(answer.clone()).await;
        assert!(
            matches!(error, ClientError::TooLarge { limit: 1000, .. }),
            "{answer:.80}: {error}"
        );
    }
}

/// A server is connected to again and again, so less is read of what it says about itself.
#[tokio::test]
async fn an_endless_greeting_is_given_up_early() {
    let (endless, long) = (format!("data: {}", "x".repeat(3000)), "x".repeat(3000));
    let old = || [status("server/discover", 400), status("\"initialize\"", 405)];
    for scenes in [
        vec![events("server/discover", &endless, Then::Stay)],
        vec![result("server/discover", &format!(r#"{{"x":"{long}"}}"#))],
        vec![status("server/discover", 400), events("\"initialize\"", &endless, Then::Stay)],
        old().into_iter().chain([events("GET", &endless, Then::Stay)]).collect(),
    ] {
        let n_scenes = scenes.len();
        let script = Script::play(scenes).await;
        let short = limits(|limits| limits.greeting = 1000);
        let client = client(&script).limits(short).build().unwrap();
        // Sooner than a server is given up that says nothing.
        let ended = tokio::time::timeout(Duration::from_secs(5), client.connect()).await;
        let error = ended.unwrap().unwrap_err();
        // Without a stream either, the first refusal says more.
        let is_old = matches!(&error, ClientError::Status(refused) if refused.status == 405);
        let is_large = matches!(error, ClientError::TooLarge { limit: 1000, .. });
        assert!(is_large || is_old && n_scenes == 3, "{n_scenes}: {error}");
    }
}

/// What is said later may be longer.
#[tokio::test]
async fn only_the_greeting_has_to_be_short() {
    let long = format!(r#"{{"x":"{}"}}"#, "x".repeat(3000));
    let script = Script::play([modern(), result("tools/call", &long)]).await;
    let short = limits(|limits| limits.greeting = 1000);
    let server = client(&script).limits(short).build().unwrap().connect().await.unwrap();
    assert_eq!(server.call("tools/call", r#"{"name":"a"}"#).await.unwrap(), long);
}

#[tokio::test]
async fn an_endless_refusal_is_cut_short() {
    let error = call(format!("HTTP/1.1 500 X\r\n\r\n{}", "x".repeat(100_000))).await;
    let ClientError::Status(refused) = error else { panic!("{error}") };
    assert_eq!(refused.status, 500);
}

#[tokio::test]
async fn what_is_no_answer_is_refused() {
    for (answer, expected) in [
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>",
            "text/html",
        ),
        ("HTTP/1.1 202 OK\r\ncontent-length: 0\r\n\r\n", "did not answer"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "did not answer"),
        ("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}", "compressed"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "no JSON-RPC message"),
        (
            "HTTP/1.1 307 X\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n",
            "not followed",
        ),
        ("HTTP/1.1 401 X\r\nwww-authenticate: Bearer x\r\ncontent-length: 0\r\n\r\n", "Bearer x"),
        ("HTTP/1.1 403 X\r\ncontent-length: 2\r\n\r\nno", "HTTP 403 Forbidden: no"),
        ("nonsense\r\n\r\n", "connection broke"),
    ] {
        let error = call(answer).await.to_string();
        assert!(error.contains(expected), "{answer:?}: {error}");
    }
}

#[tokio::test]
async fn a_request_on_a_modern_stream_ends_the_call() {
    let ask = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n\n";
    let script = Script::play([modern(), events("tools/call", ask, Then::Stay)]).await;
    let ended = connect(&script).await.call("tools/call", r#"{"name":"a"}"#).await;
    assert!(matches!(ended, Err(ClientError::Protocol(_))), "{ended:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_was_sent_nothing() {
    let gone = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let client = Client::builder(format!("http://{gone}/mcp")).name("c", "1").build().unwrap();
    let error = client.connect().await.unwrap_err();
    assert!(error.is_unsent(), "{error:?}");
}

#[tokio::test]
async fn credentials_are_wanted_before_anything_else_is_tried() {
    let script = Script::play([status("server/discover", 401)]).await;
    let error = client(&script).build().unwrap().connect().await.unwrap_err();
    assert!(error.to_string().contains("401"), "{error}");
    assert_eq!(script.requests().len(), 1);
}

#[test]
fn a_client_that_makes_no_sense_is_not_built() {
    for (url, expected) in [
        ("https://h/mcp", "TLS"),
        ("ftp://h/mcp", "not an http"),
        ("/mcp", "names no host"),
        ("http://", "no URL"),
    ] {
        let error = Client::builder(url).name("c", "1").build().unwrap_err().to_string();
        assert!(error.contains(expected), "{url}: {error}");
    }
    let client = || Client::builder("http://h/").name("c", "1");
    assert!(Client::builder("http://h/").build().is_err());
    assert!(client().capabilities("[]").build().is_err());
    assert!(client().header("bad header", "x").build().is_err());
    assert!(client().header("x", "a\nb").build().is_err());
    assert!(client().build().is_ok());
}
