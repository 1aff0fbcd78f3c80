//! The echo call as bytes on the wire, the opening of a session, and the proof that an answer is one.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::answer::{Answer, header};
use crate::case::{Case, Era, Program, Shape};
use crate::client::Client;

/// The text every server must send back; bare hyper's constant answer carries it too.
pub(crate) const TEXT: &str = "sixty-four bytes of plain text, so that each answer is as large.";

const BOTH: &str = "application/json, text/event-stream";
/// How long a gateway may take to connect to the server behind it.
const CONNECTING: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);
/// As long as our session ids.
const SESSION_CHARACTERS: usize = 91;
const LEGACY: &str = "mcp-protocol-version: 2025-11-25\r\n";
const META: &str = concat!(
    r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"#,
    r#""io.modelcontextprotocol/clientCapabilities":{}}"#
);
const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","#,
    r#""capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#
);
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The whole request of `case`, sent unchanged as often as wanted.
pub(crate) fn request(case: &Case, port: u16, session: Option<&str>) -> Vec<u8> {
    let session = session.map(session_header).unwrap_or_default();
    let (headers, body) = call(case.era, case.tool);
    post(port, case.path, case.accept, &format!("{headers}{session}"), &body)
}

/// A modern call of the echo, by the name it has there.
pub(crate) fn modern_call(port: u16, path: &str, tool: &str) -> Vec<u8> {
    let (headers, body) = call(Era::Modern, tool);
    post(port, path, BOTH, &headers, &body)
}

/// The headers and the body of a call.
fn call(era: Era, tool: &str) -> (String, String) {
    let (headers, meta) = match era {
        Era::Legacy => (LEGACY.to_owned(), ""),
        Era::Modern => (modern_headers(tool), META),
    };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"{TEXT}"}}{meta}}}}}"#
    );
    (headers, body)
}

fn modern_headers(tool: &str) -> String {
    format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n")
}

/// The request of `case`, in a session of its own if the case has sessions.
pub(crate) fn request_in_place(case: &Case, port: u16) -> anyhow::Result<Vec<u8>> {
    if !case.session {
        return Ok(request(case, port, None));
    }
    let session = match case.program {
        // It opens none, but must read as much as the others.
        Program::Hyper => "x".repeat(SESSION_CHARACTERS),
        _ => open_session(&mut Client::connect(port)?, case.path)?,
    };
    Ok(request(case, port, Some(&session)))
}

/// Initializes a legacy session and answers its id.
pub(crate) fn open_session(client: &mut Client, path: &str) -> anyhow::Result<String> {
    let answer = client.call(&initialize(client.port(), path))?;
    ensure!(answer.status == 200, "initialize was answered {}: {}", answer.status, answer.text());
    let session = header(&answer.head, "mcp-session-id")
        .with_context(|| format!("initialize opened no session: {}", answer.head))?
        .to_owned();
    let headers = format!("{LEGACY}{}", session_header(&session));
    let answer = client.call(&post(client.port(), path, BOTH, &headers, INITIALIZED))?;
    ensure!(answer.status == 202, "initialized was answered {}: {}", answer.status, answer.text());
    Ok(session)
}

/// The first request of a legacy session.
pub(crate) fn initialize(port: u16, path: &str) -> Vec<u8> {
    post(port, path, BOTH, "", INITIALIZE)
}

/// A legacy message outside any session.
pub(crate) fn legacy_post(port: u16, path: &str, body: &str) -> Vec<u8> {
    post(port, path, BOTH, LEGACY, body)
}

/// A plain GET.
pub(crate) fn get(port: u16, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n").into_bytes()
}

/// A GET that opens the listening stream, of a session if there is one.
pub(crate) fn open_stream(port: u16, path: &str, session: Option<&str>) -> Vec<u8> {
    let headers =
        session.map(|session| format!("{LEGACY}{}", session_header(session))).unwrap_or_default();
    format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\naccept: text/event-stream\r\n{headers}\r\n")
        .into_bytes()
}

/// Sends one request and requires the echoed text in a result of the right shape. What passes
/// requests on has some time to find out where.
pub(crate) fn check(case: &Case, port: u16) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        match check_once(case, port) {
            Err(_) if is_front(case) && start.elapsed() < CONNECTING => thread::sleep(STEP),
            checked => return checked,
        }
    }
}

fn is_front(case: &Case) -> bool {
    matches!(case.program, Program::Front(..))
}

fn check_once(case: &Case, port: u16) -> anyhow::Result<()> {
    let request = request_in_place(case, port)?;
    let answer = Client::connect(port)?.call(&request)?;
    verify(case.shape, &answer)
        .with_context(|| format!("checking {}: {}\n{}", case.name, answer.head, answer.text()))
}

fn verify(shape: Shape, answer: &Answer) -> anyhow::Result<()> {
    ensure!(answer.status == 200, "status {}", answer.status);
    let kind = header(&answer.head, "content-type").unwrap_or_default();
    let (wanted, messages) = match shape {
        Shape::Json => ("application/json", vec![answer.text()]),
        Shape::Sse => ("text/event-stream", event_data(&answer.text())),
    };
    ensure!(kind.starts_with(wanted), "content type {kind:?} instead of {wanted}");
    for message in messages.iter().filter(|message| !message.is_empty()) {
        let message: Value = serde_json::from_str(message).context("an answer that is not JSON")?;
        if message["id"] == 1 && message["result"]["content"][0]["text"] == TEXT {
            return Ok(());
        }
    }
    bail!("no result carries the text");
}

fn event_data(stream: &str) -> Vec<String> {
    let data = |event: &str| {
        let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
        lines.map(str::trim_start).collect::<Vec<_>>().join("\n")
    };
    stream.split("\n\n").map(data).collect()
}

fn session_header(session: &str) -> String {
    format!("mcp-session-id: {session}\r\n")
}

fn post(port: u16, path: &str, accept: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n\
         accept: {accept}\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(shape: Shape, kind: &str, body: &str, good: bool) {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n");
        let answer = Answer { status: 200, head, body: body.as_bytes().to_vec() };
        let verdict = verify(shape, &answer);
        assert_eq!(verdict.is_ok(), good, "{body}: {verdict:?}");
    }

    fn result(text: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
        )
    }

    #[test]
    fn only_a_result_with_the_text_in_the_right_shape_is_an_answer() {
        let (json, sse) = ("application/json", "text/event-stream; charset=utf-8");
        check(Shape::Json, json, &result(TEXT), true);
        check(Shape::Json, json, &result("other"), false);
        check(Shape::Json, json, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601}}"#, false);
        check(Shape::Json, sse, &result(TEXT), false);
        check(Shape::Sse, json, &format!("data: {}\n\n", result(TEXT)), false);
        check(Shape::Sse, sse, &format!("id: 0\ndata:\n\ndata: {}\n\n", result(TEXT)), true);
        check(Shape::Sse, sse, "event: message\ndata: {}\n\n", false);
    }

    #[test]
    fn a_request_announces_its_exact_length() {
        for case in crate::case::CASES.iter().chain(crate::case::HOPS) {
            let request = String::from_utf8(request(case, 1, Some("s"))).unwrap();
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert_eq!(header(head, "content-length"), Some(body.len().to_string().as_str()));
            let _json: Value = serde_json::from_str(body).unwrap();
        }
    }
}
