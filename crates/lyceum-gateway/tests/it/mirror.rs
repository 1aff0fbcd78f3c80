//! An upstream that records every byte it gets and answers with oddities: a plain JSON-POST server
//! without sessions, as old gateways know them.

use std::sync::{Arc, Mutex};

use lyceum_gateway::{Target, UpstreamConfig};
use lyceum_testkit::Server as Running;
use lyceum_wire::{Message, RpcError, encode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) struct Mirror {
    running: Running,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Mirror {
    pub(crate) async fn start() -> Mirror {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&seen);
        let running = Running::start(|listener, _| async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&record)));
            }
        })
        .await;
        Mirror { running, seen }
    }

    pub(crate) fn config(&self, name: &str) -> UpstreamConfig {
        UpstreamConfig::new(name, Target::Http(format!("http://{}/mcp", self.running.address())))
    }

    /// The last request, head and body.
    pub(crate) fn last(&self) -> String {
        self.seen.lock().unwrap().last().cloned().unwrap_or_default()
    }

    pub(crate) fn everything(&self) -> String {
        self.seen.lock().unwrap().join("\n")
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Vec<String>>>) {
    let mut buffer = Vec::new();
    while let Some((head, body)) = request(&mut stream, &mut buffer).await {
        seen.lock().unwrap().push(format!("{head}\r\n\r\n{body}"));
        let answer = match Message::parse(&body.into()) {
            Ok(Message::Request(request)) => {
                let answered = match result(&request.method) {
                    Some(result) => encode::result(&request.id, result.as_bytes()),
                    None => encode::error(Some(&request.id), &RpcError::method_not_found("it")),
                };
                json(std::str::from_utf8(&answered).unwrap())
            }
            // Such servers have never heard of notifications.
            _ => "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_owned(),
        };
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn result(method: &str) -> Option<&'static str> {
    Some(match method {
        "initialize" => {
            r#"{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"m","version":"1"}}"#
        }
        "tools/list" => {
            r#"{"tools":[{"name":"mirror","inputSchema":{"type":"object"},"odd":1.0}]}"#
        }
        "tools/call" => r#"{"content":[],"odd":{"b":1.0,"a":1e3}}"#,
        _ => return None,
    })
}

fn json(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
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
