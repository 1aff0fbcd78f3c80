//! Requests that two readers could split differently (reliability row 13), as raw bytes.
//!
//! Each case hides a call of the tool `smuggled` where a careless reader would find a second request.
//! Whatever the server makes of the rest, that call must never run.

use lyceum_testkit::Request;
use serde_json::json;
use tokio::time::Duration;

use crate::lab::{Lab, PATH, modern};

/// What becomes of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// 400, or the connection just closes; no handler runs.
    Refused,
    /// Read as one request, the way the standard says, and nothing of it is a second one.
    One,
}
use Fate::{One, Refused};

fn smuggled() -> String {
    String::from_utf8(modern(666, "smuggled", json!({})).to_bytes()).unwrap()
}

fn honest() -> Request {
    modern(1, "echo", json!({}))
}

/// Runs one case on a connection of its own, and judges it.
async fn check(name: &str, bytes: impl AsRef<[u8]>, fate: Fate) {
    let lab = Lab::new();
    let server = lab.serve().await;
    let mut connection = server.connect().await;
    if connection.try_send(bytes).await.is_ok() {
        connection.finish_sending().await;
    }
    let mut statuses = Vec::new();
    while let Some(response) = connection.try_response().await {
        statuses.push(response.status());
    }
    assert!(connection.closes_within(Duration::from_secs(5)).await, "{name}: still open");
    assert_eq!(lab.fixture.smuggled(), 0, "{name}: a second request was found; {statuses:?}");
    match fate {
        Refused => {
            assert_eq!(lab.fixture.invocations(), 0, "{name}: a handler ran; {statuses:?}");
            let refused =
                |status: &u16| matches!(status, 400 | 404 | 405 | 413 | 421 | 431 | 501 | 505);
            assert!(statuses.iter().all(refused), "{name}: {statuses:?}");
        }
        One => assert_eq!(lab.fixture.invocations(), 1, "{name}: {statuses:?}"),
    }
}

/// The honest request with other framing lines and another body.
fn framed(lines: &str, body: &str) -> String {
    let head = honest().body("").to_bytes();
    let head = String::from_utf8(head).unwrap();
    let head = head.strip_suffix("\r\n").unwrap();
    format!("{head}{lines}\r\n{body}")
}

fn body() -> String {
    String::from_utf8(honest().body).unwrap()
}

/// The honest body as chunks.
fn chunked() -> String {
    let body = body();
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

#[tokio::test]
async fn lengths_that_can_be_read_two_ways_are_refused() {
    let (body, hidden) = (body(), smuggled());
    let n = body.len();
    let both = format!("{body}{hidden}");
    let all = both.len();
    for (name, lines) in [
        ("two lengths", format!("Content-Length: {n}\r\nContent-Length: {all}\r\n")),
        ("two lengths, longer first", format!("Content-Length: {all}\r\nContent-Length: {n}\r\n")),
        ("two lengths in a list", format!("Content-Length: {n}, {all}\r\n")),
        ("plus sign", format!("Content-Length: +{n}\r\n")),
        ("minus sign", format!("Content-Length: -{n}\r\n")),
        ("minus zero", "Content-Length: -0\r\n".to_owned()),
        ("hexadecimal", format!("Content-Length: 0x{n:x}\r\n")),
        ("exponent", "Content-Length: 1e2\r\n".to_owned()),
        ("fraction", format!("Content-Length: {n}.0\r\n")),
        ("two numbers", format!("Content-Length: {n} {n}\r\n")),
        ("trailing letter", format!("Content-Length: {n}a\r\n")),
        ("trailing semicolon", format!("Content-Length: {n};\r\n")),
        ("overflow", "Content-Length: 18446744073709551617\r\n".to_owned()),
        ("vertical tab", format!("Content-Length: \x0b{n}\r\n")),
        ("space before the colon", format!("Content-Length : {n}\r\n")),
        ("quotes", format!("Content-Length: \"{n}\"\r\n")),
        ("empty length", "Content-Length: \r\n".to_owned()),
    ] {
        check(name, framed(&lines, &both), Refused).await;
    }
}

#[tokio::test]
async fn transfer_encodings_that_can_be_read_two_ways_are_refused() {
    let hidden = smuggled();
    let body = format!("0\r\n\r\n{hidden}");
    let n = body.len();
    for (name, lines) in [
        ("unknown coding", "Transfer-Encoding: xchunked\r\n".to_owned()),
        ("identity", "Transfer-Encoding: identity\r\n".to_owned()),
        ("chunked not last", "Transfer-Encoding: chunked, identity\r\n".to_owned()),
        (
            "chunked then other line",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n".to_owned(),
        ),
        (
            "space before the colon",
            format!("Transfer-Encoding : chunked\r\nContent-Length: {n}\r\n"),
        ),
        ("folded", format!("X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: {n}\r\n")),
        ("folded value", format!("Transfer-Encoding:\r\n chunked\r\nContent-Length: {n}\r\n")),
        ("vertical tab", format!("Transfer-Encoding: \x0bchunked\r\nContent-Length: {n}\r\n")),
        ("form feed", format!("Transfer-Encoding: chunked\x0c\r\nContent-Length: {n}\r\n")),
        ("nul", format!("Transfer-Encoding: chunked\0\r\nContent-Length: {n}\r\n")),
        ("quotes", "Transfer-Encoding: \"chunked\"\r\n".to_owned()),
        ("parameter", "Transfer-Encoding: chunked;q=1\r\n".to_owned()),
        ("cr in the name", format!("Transfer-Encoding\r: chunked\r\nContent-Length: {n}\r\n")),
        (
            "line feed in the name",
            format!("Transfer-Encoding\n: chunked\r\nContent-Length: {n}\r\n"),
        ),
        ("non-ASCII name", format!("Transfer-Encodıng: chunked\r\nContent-Length: {n}\r\n")),
        ("empty name", format!(": chunked\r\nContent-Length: {n}\r\n")),
    ] {
        check(name, framed(&lines, &body), Refused).await;
    }
}

#[tokio::test]
async fn chunks_that_can_be_read_two_ways_are_refused() {
    let (body, hidden) = (body(), smuggled());
    let n = body.len();
    let te = "Transfer-Encoding: chunked\r\n";
    for (name, chunks) in [
        ("size with a sign", format!("+{n:x}\r\n{body}\r\n0\r\n\r\n{hidden}")),
        ("negative size", format!("-1\r\n{body}\r\n0\r\n\r\n{hidden}")),
        ("size with 0x", format!("0x{n:x}\r\n{body}\r\n0\r\n\r\n{hidden}")),
        ("size too large", format!("ffffffffffffffff1\r\n{body}\r\n0\r\n\r\n{hidden}")),
        ("size is not a number", format!("z\r\n{body}\r\n0\r\n\r\n{hidden}")),
        ("no size", format!("\r\n{body}\r\n0\r\n\r\n{hidden}")),
        ("data longer than its size", format!("{:x}\r\n{body}\r\n0\r\n\r\n{hidden}", n - 1)),
        ("no line end after the data", format!("{n:x}\r\n{body}0\r\n\r\n{hidden}")),
        ("line feed after the size", format!("{n:x}\n{body}\r\n0\r\n\r\n{hidden}")),
        ("line feed in an extension", format!("{n:x};a\n{body}\r\n0\r\n\r\n{hidden}")),
        ("carriage return alone", format!("{n:x}\r{body}\r\n0\r\n\r\n{hidden}")),
        ("no last chunk", format!("{n:x}\r\n{body}\r\n")),
        ("last chunk cut off", format!("{n:x}\r\n{body}\r\n0\r\n")),
        ("line feed after the data", format!("{n:x}\r\n{body}\n0\r\n\r\n{hidden}")),
    ] {
        check(name, framed(te, &chunks), Refused).await;
    }
}

#[tokio::test]
async fn heads_that_can_be_read_two_ways_are_refused() {
    let request = String::from_utf8(honest().to_bytes()).unwrap();
    let hidden = smuggled();
    let first = format!("POST {PATH} HTTP/1.1\r\n");
    let with_line = |line: &str| request.replace(&first, line) + &hidden;
    let with_header = |line: &str| request.replace(&first, &format!("{first}{line}")) + &hidden;
    for (name, bytes) in [
        ("lower-case version", with_line("POST /mcp http/1.1\r\n")),
        ("version 1.2", with_line("POST /mcp HTTP/1.2\r\n")),
        ("version 2.0", with_line("POST /mcp HTTP/2.0\r\n")),
        ("no version", with_line("POST /mcp\r\n")),
        ("no target", with_line("POST HTTP/1.1\r\n")),
        ("two versions", with_line("POST /mcp HTTP/1.1 HTTP/1.1\r\n")),
        ("space in the target", with_line("POST /mcp x HTTP/1.1\r\n")),
        ("tabs between", with_line("POST\t/mcp\tHTTP/1.1\r\n")),
        ("control character in the target", with_line("POST /mcp\x01 HTTP/1.1\r\n")),
        ("nul in the method", with_line("PO\0ST /mcp HTTP/1.1\r\n")),
        ("header without a colon", with_header("Broken\r\n")),
        ("space in a name", with_header("A B: c\r\n")),
        ("space before a name", with_header(" A: b\r\n")),
        ("nul in a value", with_header("A: b\0c\r\n")),
        ("carriage return in a value", with_header("A: b\rContent-Length: 0\r\n")),
        ("too many headers", with_header(&"A: b\r\n".repeat(200))),
        ("too long a head", with_header(&format!("A: {}\r\n", "b".repeat(100_000)))),
    ] {
        check(name, bytes, Refused).await;
    }
}

#[tokio::test]
async fn framing_that_is_unusual_but_clear_is_one_request() {
    let (body, hidden) = (body(), smuggled());
    let n = body.len();
    let te = "Transfer-Encoding: chunked\r\n";
    let close = "Connection: close\r\n";
    for (name, bytes) in [
        (
            "capitals",
            framed(&format!("TRANSFER-ENCODING: CHUNKED\r\n{close}"), &(chunked() + &hidden)),
        ),
        (
            "tab before the value",
            framed(&format!("Transfer-Encoding:\tchunked\r\n{close}"), &(chunked() + &hidden)),
        ),
        (
            "leading zeros in a size",
            framed(&format!("{te}{close}"), &(format!("0000{}", chunked()) + &hidden)),
        ),
        (
            "chunk extension",
            framed(
                &format!("{te}{close}"),
                &format!("{n:x};a=\"b\"\r\n{body}\r\n0\r\n\r\n{hidden}"),
            ),
        ),
        (
            "trailers",
            framed(
                &format!("{te}{close}"),
                &format!(
                    "{n:x}\r\n{body}\r\n0\r\nHost: evil.example\r\nContent-Length: 9\r\n\r\n{hidden}"
                ),
            ),
        ),
        (
            "the same length twice",
            framed(
                &format!("Content-Length: {n}\r\nContent-Length: {n}\r\n{close}"),
                &format!("{body}{hidden}"),
            ),
        ),
    ] {
        check(name, bytes, One).await;
    }
}

#[tokio::test]
async fn length_beside_chunks_is_one_request_and_the_connection_ends() {
    let hidden = smuggled();
    let n = body().len();
    for (name, lines) in [
        ("length first", format!("Content-Length: {n}\r\nTransfer-Encoding: chunked\r\n")),
        ("chunked first", format!("Transfer-Encoding: chunked\r\nContent-Length: {n}\r\n")),
    ] {
        // Chunks win by the standard; a proxy that thought otherwise must not be able to add a request.
        check(name, framed(&lines, &(chunked() + &hidden)), One).await;
    }
    let http_1_0 = framed("Transfer-Encoding: chunked\r\n", &(chunked() + &hidden))
        .replace("HTTP/1.1", "HTTP/1.0");
    check("chunks in HTTP/1.0", http_1_0, Refused).await;
}
