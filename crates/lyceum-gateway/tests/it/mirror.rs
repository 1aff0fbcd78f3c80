//! An upstream that records every byte it gets and answers with oddities: a plain JSON-POST server
//! without sessions, as old gateways know them, or whatever a test makes of it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lyceum_gateway::{Target, UpstreamConfig};
use lyceum_testkit::Server as Running;
use lyceum_wire::{ErrorCode, Message, Request, RpcError, encode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const REFUSAL: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";

pub(crate) struct Mirror {
    pub(crate) running: Running,
    record: Arc<Record>,
}

/// What one answer is.
pub(crate) enum Reply {
    /// This result.
    Result(String),
    /// There is no such method.
    Unknown,
    /// An error with this code.
    Error(i32),
    /// A refusal without a word.
    Refused,
    /// These bytes, HTTP or not, and then the connection closes.
    Bytes(Vec<u8>),
    /// These bytes, and then these for ever.
    Endless(String, Vec<u8>),
    /// These bytes, one each second.
    Slow(&'static str),
}

/// What was asked for, and how much of endless answers was taken.
#[derive(Default)]
struct Record {
    seen: Mutex<Vec<(String, String)>>,
    /// Requests by their method.
    counts: Mutex<HashMap<String, usize>>,
    n_taken: AtomicU64,
}

/// What it says to a request; None stands for a GET.
type Answers = Arc<dyn Fn(Option<&Request>) -> Reply + Send + Sync>;

impl Mirror {
    pub(crate) async fn start() -> Mirror {
        Mirror::answering(|request| plain(&request.method)).await
    }

    /// A server with other answers, but none to those who want a stream.
    pub(crate) async fn answering(
        answers: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Mirror {
        let refused = || Reply::Refused;
        Mirror::streaming(move |request| request.map_or_else(refused, &answers)).await
    }

    /// A server with other answers, to GET as well.
    pub(crate) async fn streaming(
        answers: impl Fn(Option<&Request>) -> Reply + Send + Sync + 'static,
    ) -> Mirror {
        let record = Arc::<Record>::default();
        let (answers, recording): (Answers, _) = (Arc::new(answers), Arc::clone(&record));
        let running = Running::start(|listener, _| async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&recording), Arc::clone(&answers)));
            }
        })
        .await;
        Mirror { running, record }
    }

    pub(crate) fn config(&self, name: &str) -> UpstreamConfig {
        UpstreamConfig::new(name, Target::Http(format!("http://{}/mcp", self.running.address())))
    }

    /// The last request, head and body.
    pub(crate) fn last(&self) -> String {
        let seen = self.record.seen.lock().unwrap();
        seen.last().map(|(head, body)| format!("{head}\r\n\r\n{body}")).unwrap_or_default()
    }

    pub(crate) fn everything(&self) -> String {
        let seen = self.record.seen.lock().unwrap();
        let texts: Vec<_> =
            seen.iter().map(|(head, body)| format!("{head}\r\n\r\n{body}")).collect();
        texts.join("\n")
    }

    /// The bodies of all requests of this method.
    pub(crate) fn bodies(&self, method: &str) -> Vec<String> {
        let method = format!(r#""method":"{method}""#);
        let seen = self.record.seen.lock().unwrap();
        seen.iter()
            .filter(|(_, body)| body.contains(&method))
            .map(|(_, body)| body.clone())
            .collect()
    }

    /// How many requests of this method there were.
    pub(crate) fn n_seen(&self, method: &str) -> usize {
        self.record.counts.lock().unwrap().get(method).copied().unwrap_or(0)
    }

    /// The body of the last request.
    pub(crate) fn last_body(&self) -> String {
        let seen = self.record.seen.lock().unwrap();
        seen.last().map(|(_, body)| body.clone()).unwrap_or_default()
    }

    /// How many bytes of endless answers were taken.
    pub(crate) fn n_taken(&self) -> u64 {
        self.record.n_taken.load(Ordering::Relaxed)
    }
}

async fn serve(mut stream: TcpStream, record: Arc<Record>, answers: Answers) {
    let mut buffer = Vec::new();
    while let Some((head, body)) = request(&mut stream, &mut buffer).await {
        let is_get = head.starts_with("GET ");
        record.seen.lock().unwrap().push((head, body.clone()));
        let request = match Message::parse(&body.into()) {
            Ok(Message::Request(request)) => Some(request),
            _ => None,
        };
        if let Some(request) = &request {
            let mut counts = record.counts.lock().unwrap();
            *counts.entry(request.method.to_string()).or_default() += 1;
        }
        // Such servers have never heard of notifications.
        let known = is_get || request.is_some();
        let reply = known.then(|| answers(request.as_ref()));
        let id = request.as_ref().map(|request| &request.id);
        let answer = match (reply, id) {
            (Some(Reply::Result(result)), Some(id)) => json(&encode::result(id, result.as_bytes())),
            (Some(Reply::Unknown), id) => {
                json(&encode::error(id, &RpcError::method_not_found("it")))
            }
            (Some(Reply::Error(code)), id) => {
                json(&encode::error(id, &RpcError::new(ErrorCode(code), "no")))
            }
            (Some(Reply::Bytes(bytes)), _) => {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
                return;
            }
            (Some(Reply::Endless(head, piece)), _) => {
                return pour(stream, &head, &piece, &record).await;
            }
            (Some(Reply::Slow(text)), _) => return drip(stream, text.as_bytes()).await,
            _ => REFUSAL.to_vec(),
        };
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

async fn pour(mut stream: TcpStream, head: &str, piece: &[u8], record: &Record) {
    if stream.write_all(head.as_bytes()).await.is_err() {
        return;
    }
    if piece.is_empty() {
        // It says no more, and does not hang up either.
        let _ = stream.read(&mut [0; 1]).await;
        return;
    }
    while stream.write_all(piece).await.is_ok() {
        record.n_taken.fetch_add(piece.len() as u64, Ordering::Relaxed);
    }
}

async fn drip(mut stream: TcpStream, text: &[u8]) {
    for byte in text {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if stream.write_all(&[*byte]).await.is_err() {
            return;
        }
    }
}

/// What a plain server says.
pub(crate) fn plain(method: &str) -> Reply {
    let result = match method {
        "initialize" => {
            r#"{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"m","version":"1"}}"#
        }
        "tools/list" => {
            r#"{"tools":[{"name":"mirror","inputSchema":{"type":"object"},"odd":1.0}]}"#
        }
        "tools/call" => r#"{"content":[],"odd":{"b":1.0,"a":1e3}}"#,
        _ => return Reply::Unknown,
    };
    Reply::Result(result.to_owned())
}

/// What a plain modern server says.
pub(crate) fn plain_modern(request: &Request) -> Reply {
    let offers = r#""capabilities":{"tools":{"listChanged":true}}"#;
    let acknowledged = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}"#;
    match request.method.as_str() {
        "server/discover" => Reply::Result(format!(
            r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],{offers}}}"#
        )),
        "initialize" => Reply::Unknown,
        "subscriptions/listen" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            Reply::Endless(format!("{head}data: {acknowledged}\n\n"), Vec::new())
        }
        method => plain(method),
    }
}

fn json(body: &[u8]) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
    [format!("{head} {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

/// The body of the next request on a connection that carries one at a time.
pub(crate) async fn body(stream: &mut TcpStream) -> Option<bytes::Bytes> {
    request(stream, &mut Vec::new()).await.map(|(_, body)| body.into())
}

async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, String)> {
    loop {
        let text = String::from_utf8_lossy(buffer).into_owned();
        if let Some((head, rest)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
            });
            let length: usize = length.unwrap_or(0);
            if rest.len() >= length {
                let (head, body) = (head.to_owned(), rest[..length].to_owned());
                buffer.drain(..head.len() + 4 + length);
                return Some((head, body));
            }
        }
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => buffer.extend_from_slice(&chunk[..n]),
        }
    }
}
