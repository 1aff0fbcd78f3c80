//! Answers as servers send them, and as they should not.

use std::future::poll_fn;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::*;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

/// Both ends of a connection.
async fn connected() -> (Http1, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (Http1::new(stream), server)
}

fn outgoing(url: &Uri, body: Bytes) -> Outgoing<'_> {
    let mut headers = HeaderMap::new();
    headers.insert("host", "there".parse().unwrap());
    Outgoing { method: Method::POST, url, headers, body }
}

/// Sends a request and reads the head of its answer.
async fn asked(connection: &mut Http1) -> Result<Head, Unanswered> {
    let url = Uri::from_static("http://there/mcp?a=1");
    connection.send(&outgoing(&url, Bytes::from_static(b"{}")));
    poll_fn(|cx| connection.poll_head(cx)).await
}

/// The rest of an answer's body.
async fn body(connection: &mut Http1) -> Result<String, BoxError> {
    let mut whole = Vec::new();
    while let Some(piece) = poll_fn(|cx| connection.poll_piece(cx)).await {
        whole.extend_from_slice(&piece?);
    }
    Ok(String::from_utf8(whole).unwrap())
}

/// Reads a request as far as one read brings it.
async fn read(server: &mut TcpStream) -> String {
    let mut buffer = vec![0; 1024];
    let length = server.read(&mut buffer).await.unwrap();
    buffer.truncate(length);
    String::from_utf8(buffer).unwrap()
}

/// What becomes of an answer, sent in pieces of so many bytes: its status and body, and whether another
/// request may follow; or what is wrong with it.
async fn answered(answer: &str, step: usize) -> Result<(u16, String, bool), String> {
    let (mut connection, mut server) = connected().await;
    server.set_nodelay(true).unwrap();
    let answer = answer.as_bytes().to_vec();
    let answering = tokio::spawn(async move {
        read(&mut server).await;
        for piece in answer.chunks(step) {
            if server.write_all(piece).await.is_err() {
                return;
            }
            if step < answer.len() {
                tokio::task::yield_now().await;
            }
        }
    });
    let ended = async {
        let head = asked(&mut connection).await.map_err(|unanswered| unanswered.error)?;
        let body = body(&mut connection).await?;
        Ok::<_, BoxError>((head.status.as_u16(), body, connection.rest()))
    };
    let ended = ended.await.map_err(|error| error.to_string());
    answering.await.unwrap();
    ended
}

/// An answer means the same however it is cut into pieces.
#[track_caller]
fn check(answer: &str, expected: Result<(u16, &str, bool), &str>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for step in [answer.len().max(1), 1, 2, 7] {
        let answered = runtime.block_on(answered(answer, step));
        match expected {
            Ok((status, body, stays)) => {
                assert_eq!(answered, Ok((status, body.to_owned(), stays)), "{answer:?} by {step}");
            }
            Err(part) => {
                let error = answered.unwrap_err();
                assert!(error.contains(part), "{answer:?} by {step}: {error}");
            }
        }
    }
}

#[test]
fn bodies_end_where_their_heads_say() {
    for (head, body, expected) in [
        ("200 OK\r\ncontent-length: 2", "{}", (200, "{}", true)),
        ("200 \r\nContent-Length: 2\r\ncontent-length: 2", "{}", (200, "{}", true)),
        ("202 Accepted\r\ncontent-length: 0", "", (202, "", true)),
        ("204 No Content", "", (204, "", true)),
        ("304 Not Modified\r\ncontent-length: 9", "", (304, "", true)),
        ("200 OK\r\ncontent-length: 2\r\nconnection: foo, Close", "{}", (200, "{}", false)),
        ("200 OK", "until the end", (200, "until the end", false)),
        ("200 OK\r\ntransfer-encoding: chunked", "2\r\n{}\r\n0\r\n\r\n", (200, "{}", true)),
        (
            "200 OK\r\nTransfer-Encoding: Chunked",
            "A;x=y\r\n0123456789\r\n01\r\nx\r\n0\r\nt: 1\r\nu: 2\r\n\r\n",
            (200, "0123456789x", true),
        ),
        // The length is not believed, and neither is what follows.
        (
            "200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 1",
            "2\r\n{}\r\n0\r\n\r\n",
            (200, "{}", false),
        ),
    ] {
        check(&format!("HTTP/1.1 {head}\r\n\r\n{body}"), Ok(expected));
    }
    check("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}", Ok((200, "{}", false)));
    let kept = "HTTP/1.0 200 OK\r\ncontent-length: 2\r\nconnection: keep-alive\r\n\r\n{}";
    check(kept, Ok((200, "{}", true)));
}

#[test]
fn heads_that_only_announce_others_are_passed_over() {
    let answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n\
                  HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    check(answer, Ok((200, "{}", true)));
}

#[test]
fn what_is_not_http_or_means_two_things_is_refused() {
    let heads = [
        ("200 OK\r\ncontent-length: 2\r\ncontent-length: 3", "two lengths"),
        ("200 OK\r\ncontent-length: +2", "no readable length"),
        ("200 OK\r\ncontent-length: 2, 2", "no readable length"),
        ("200 OK\r\ncontent-length: ", "no readable length"),
        ("200 OK\r\ncontent-length: 99999999999999999999", "no readable length"),
        ("200 OK\r\ntransfer-encoding: gzip, chunked", "other than chunked"),
        (
            "200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked",
            "other than chunked",
        ),
        ("200 OK\r\ntransfer-encoding: identity", "other than chunked"),
        ("101 Switching Protocols", "nobody asked for"),
        ("20 OK", "not HTTP/1.1"),
        ("200 OK\r\nbad header: 1", "not HTTP/1.1"),
        ("200 OK\r\n folded: 1", "not HTTP/1.1"),
    ];
    for (head, problem) in heads {
        check(&format!("HTTP/1.1 {head}\r\n\r\n{{}}"), Err(problem));
    }
    check("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", Err("HTTP/1.0"));
    check("SSH-2.0-x\r\n\r\n", Err("not HTTP/1.1"));
    let many = "x: 1\r\n".repeat(101);
    check(&format!("HTTP/1.1 200 OK\r\n{many}\r\n"), Err("too many headers"));
    let long = "x".repeat(70_000);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let long = format!("HTTP/1.1 200 OK\r\nx: {long}\r\n\r\n");
    let error = runtime.block_on(answered(&long, long.len())).unwrap_err();
    assert!(error.contains("too long"), "{error}");
}

#[test]
fn chunks_that_are_none_are_refused() {
    for (chunks, problem) in [
        ("2\r\n{}}\r\n0\r\n\r\n", "longer than it says"),
        ("x\r\n{}\r\n0\r\n\r\n", "does not say how long"),
        ("\r\n{}\r\n0\r\n\r\n", "does not say how long"),
        ("-2\r\n{}\r\n0\r\n\r\n", "does not say how long"),
        ("2;x\ny\r\n{}\r\n0\r\n\r\n", "does not say how long"),
        ("fffffffffffffffff\r\n{}", "does not say how long"),
        ("2\r\n{}\r\n", "in the middle of an answer"),
        ("2\r\n{}\r\n0\r\n", "in the middle of an answer"),
        ("5\r\n{}", "in the middle of an answer"),
    ] {
        check(
            &format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}"),
            Err(problem),
        );
    }
    check("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}", Err("in the middle of an answer"));
    check("HTTP/1.1 200 OK\r\ncontent-le", Err("closed the connection"));
}

#[test]
fn lines_around_chunks_are_bounded() {
    for (chunks, problem) in [
        (format!("2;{}", "x".repeat(3_000)), "does not say how long"),
        (format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(3_000)), "does not say how long"),
        (format!("0\r\n{}", "x: 1\r\n".repeat(3_000)), "too much follows"),
        (format!("0\r\n{}", "x".repeat(30_000)), "too much follows"),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for step in [answer.len(), 1_000] {
            let error = runtime.block_on(answered(&answer, step)).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}

#[tokio::test]
async fn one_connection_carries_one_request_after_the_other() {
    let (mut connection, mut server) = connected().await;
    let serving = tokio::spawn(async move {
        for _ in 0..3 {
            let expected = "POST /mcp?a=1 HTTP/1.1\r\nhost: there\r\ncontent-length: 2\r\n\r\n{}";
            assert_eq!(read(&mut server).await, expected);
            server.write_all(ANSWER).await.unwrap();
        }
        server
    });
    for _ in 0..3 {
        assert!(connection.is_quiet());
        assert_eq!(asked(&mut connection).await.unwrap().status, 200);
        assert!(!connection.is_at_end());
        assert_eq!(connection.left(), Some(2));
        assert_eq!(body(&mut connection).await.unwrap(), "{}");
        assert!(connection.rest());
    }
    serving.await.unwrap();
}

#[tokio::test]
async fn headers_are_found_whatever_their_case_and_the_first_counts() {
    let (mut connection, mut server) = connected().await;
    tokio::spawn(async move {
        read(&mut server).await;
        let head = "HTTP/1.1 200 OK\r\nDate: now\r\nContent-Type: text/plain\r\nMcp-Session-Id: s\r\nmcp-session-id: t\r\n\r\n";
        server.write_all(head.as_bytes()).await.unwrap();
    });
    let told = asked(&mut connection).await.unwrap().told;
    assert_eq!(told.content_type.unwrap(), "text/plain");
    assert_eq!(told.session.unwrap(), "s");
    assert_eq!((told.content_encoding, told.challenge, told.location), (None, None, None));
}

/// Whatever happens to an idle connection, the next request must not find its answer in it.
#[tokio::test]
async fn a_connection_is_not_quiet_once_it_was_closed_or_spoken_to() {
    for unasked in [b"".as_slice(), ANSWER] {
        let (mut connection, mut server) = connected().await;
        let serving = tokio::spawn(async move {
            read(&mut server).await;
            server.write_all(ANSWER).await.unwrap();
            server
        });
        asked(&mut connection).await.unwrap();
        assert_eq!(body(&mut connection).await.unwrap(), "{}");
        assert!(connection.rest() && connection.is_quiet());
        let mut server = serving.await.unwrap();
        server.write_all(unasked).await.unwrap();
        server.shutdown().await.unwrap();
        while connection.is_quiet() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // What came with the answer itself is noticed at its end.
    let twice = String::from_utf8([ANSWER, ANSWER].concat()).unwrap();
    assert_eq!(answered(&twice, twice.len()).await, Ok((200, "{}".to_owned(), false)));
}

#[tokio::test]
async fn only_a_request_of_which_nothing_was_sent_is_called_unsent() {
    let (mut connection, mut server) = connected().await;
    let reading = tokio::spawn(async move { read(&mut server).await });
    let unanswered = asked(&mut connection).await.unwrap_err();
    assert!(!unanswered.is_unsent, "{}", unanswered.error);
    reading.await.unwrap();
    // Whoever writes to a connection that was reset is told at once.
    while asked(&mut connection).await.is_err_and(|unanswered| !unanswered.is_unsent) {}
}

#[tokio::test]
async fn an_answer_that_comes_early_is_heard_and_ends_the_connection() {
    let (mut connection, mut server) = connected().await;
    tokio::spawn(async move {
        read(&mut server).await;
        let refusal = b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\n{}";
        server.write_all(refusal).await.unwrap();
        // It never reads the rest.
        std::future::pending::<()>().await;
    });
    let url = Uri::from_static("/mcp");
    connection.send(&outgoing(&url, Bytes::from(vec![b'x'; 64 << 20])));
    assert_eq!(poll_fn(|cx| connection.poll_head(cx)).await.unwrap().status, 413);
    assert_eq!(connection.output.capacity(), 0, "what was to be sent is let go of");
    assert_eq!(body(&mut connection).await.unwrap(), "{}");
    assert!(!connection.rest());
}

/// The answer may be a stream that ends only after the request.
#[tokio::test]
async fn a_request_goes_on_while_its_answer_is_read() {
    let (mut connection, mut server) = connected().await;
    let length = 64 << 20;
    tokio::spawn(async move {
        read(&mut server).await;
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        server.write_all(head).await.unwrap();
        let (mut buffer, mut n_read) = (vec![0; 1 << 20], 1024);
        while n_read < length {
            n_read += server.read(&mut buffer).await.unwrap();
        }
        server.write_all(b"2\r\n{}\r\n0\r\n\r\n").await.unwrap();
    });
    let url = Uri::from_static("/mcp");
    connection.send(&outgoing(&url, Bytes::from(vec![b'x'; length])));
    assert_eq!(poll_fn(|cx| connection.poll_head(cx)).await.unwrap().status, 200);
    assert_eq!(body(&mut connection).await.unwrap(), "{}");
    assert_eq!(connection.output.capacity(), 0, "what was sent is let go of");
    assert!(!connection.rest());
}

#[test]
fn requests_name_their_target_and_how_long_they_are() {
    let written = |url: &str, method: Method, headers: &[(&'static str, &str)]| {
        let url: Uri = url.parse().unwrap();
        let mut outgoing = outgoing(&url, Bytes::new());
        outgoing.method = method;
        for (name, value) in headers {
            outgoing.headers.insert(*name, value.parse().unwrap());
        }
        let mut out = Vec::new();
        head::write(&mut out, &outgoing);
        String::from_utf8(out).unwrap()
    };
    let of = |target: &str, rest: &str| format!("{target} HTTP/1.1\r\nhost: there\r\n{rest}\r\n");
    let length = "content-length: 0\r\n";
    assert_eq!(written("http://there/a?b=c", Method::POST, &[]), of("POST /a?b=c", length));
    assert_eq!(written("http://there", Method::POST, &[]), of("POST /", length));
    assert_eq!(written("http://there?b=c", Method::POST, &[]), of("POST /?b=c", length));
    assert_eq!(written("http://there/a", Method::GET, &[]), of("GET /a", ""));
    let configured =
        [("content-length", "7"), ("transfer-encoding", "chunked"), ("connection", "close")];
    assert_eq!(written("http://there/a", Method::POST, &configured), of("POST /a", length));
}

#[tokio::test]
async fn a_connection_on_which_not_all_could_be_written_ends_with_the_answer() {
    let (mut connection, mut server) = connected().await;
    let (let_go, held) = oneshot::channel::<()>();
    tokio::spawn(async move {
        read(&mut server).await;
        server.write_all(ANSWER).await.unwrap();
        let _ = held.await;
    });
    // As after a write that failed half-way.
    let url = Uri::from_static("/mcp");
    connection.send(&outgoing(&url, Bytes::from_static(b"{}")));
    let n_written = connection.stream.try_write(b"POST").unwrap();
    connection.output.clear();
    connection.n_written = n_written;
    assert_eq!(poll_fn(|cx| connection.poll_head(cx)).await.unwrap().status, 200);
    assert_eq!(body(&mut connection).await.unwrap(), "{}");
    assert!(!connection.rest());
    drop(let_go);
}

#[tokio::test]
async fn an_answer_wakes_the_task_that_waits_now() {
    let (mut connection, mut server) = connected().await;
    let (let_go, held) = oneshot::channel();
    tokio::spawn(async move {
        read(&mut server).await;
        held.await.unwrap();
        server.write_all(ANSWER).await.unwrap();
    });
    let mut asking = Box::pin(async move { asked(&mut connection).await.unwrap().status });
    // This task waits first, and then another.
    assert!(poll_fn(|cx| Poll::Ready(asking.as_mut().poll(cx))).await.is_pending());
    let waiting = tokio::spawn(asking);
    tokio::task::yield_now().await;
    let_go.send(()).unwrap();
    assert_eq!(waiting.await.unwrap(), 200);
}

#[tokio::test]
async fn large_bodies_get_more_room_for_as_long_as_they_last() {
    let (mut connection, mut server) = connected().await;
    let length = 10 << 20;
    tokio::spawn(async move {
        read(&mut server).await;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        server.write_all(head.as_bytes()).await.unwrap();
        server.write_all(&vec![b'x'; length]).await.unwrap();
        read(&mut server).await;
    });
    asked(&mut connection).await.unwrap();
    assert_eq!(body(&mut connection).await.unwrap().len(), length);
    assert_eq!(connection.input.len(), MAX_ROOM);
    assert!(connection.rest());
    assert_eq!((connection.input.len(), connection.input.capacity()), (ROOM, ROOM));
}
