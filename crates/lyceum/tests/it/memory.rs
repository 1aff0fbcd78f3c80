//! How much memory the server takes when callers ask for as much as they can and read nothing.
//!
//! Named `release_…`: the figures it prints are those of the optimized binary.

use std::net::Ipv4Addr;

use lyceum_testkit::Request;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Duration, sleep};

use crate::lyceum::Lyceum;

const MIB: u64 = 1 << 20;
const N_DOCUMENTS: usize = 8;
const TEXT_BYTES: usize = 2 * MIB as usize;
const CONFIG: &str = r#"
[documents]
max_bytes = 2097152

[index]
skip_prefixes = ["big/"]

[limits]
body_bytes = 16777216
bodies_bytes = 100663296
answer_bytes = 16777216
answers_bytes = 67108864
work_bytes = 67108864
"#;
/// The formula of `docs/operations.md`, for the settings above, without what is not asked for here.
const BOUND_MIB: u64 = 256 + 2 * 96 + 64 + 5 * 16 + 64 + 64 + 80;

/// A connection from an address of its own: another caller.
async fn connect(server: &Lyceum, caller: u8) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, caller), 0).into()).unwrap();
    socket.connect(server.address).await.unwrap()
}

async fn post(stream: &mut TcpStream, body: &Value) {
    let body = body.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
}

fn batch_read(id: usize) -> Value {
    let paths: Vec<String> =
        (0..20).map(|at| format!("big/{}.md", (id + at) % N_DOCUMENTS)).collect();
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
           "params": {"name": "batch_read", "arguments": {"paths": paths, "full": true}}})
}

async fn upload(server: &Lyceum, path: &str, content: &str) {
    let body = json!({"path": path, "content": content}).to_string();
    let response = server.call(&Request::post("/documents", body)).await;
    assert_eq!(response.status(), 201, "{}", response.text());
}

#[tokio::test]
async fn release_memory_stays_within_the_documented_formula() {
    let data = tempfile::tempdir().unwrap();
    let config = data.path().join("lyceum.toml");
    std::fs::write(&config, CONFIG).unwrap();
    let server = Lyceum::start(data.path(), &["--config", config.to_str().unwrap()]).await;
    upload(&server, "small.md", "A small document.").await;
    for at in 0..N_DOCUMENTS {
        let piece = ["plain text, ", "\u{1}\u{2}\u{3}", "\"\\\"\n", "\u{2028}"][at % 4];
        let text = piece.repeat(TEXT_BYTES / piece.len());
        upload(&server, &format!("big/{at}.md"), &text).await;
    }
    let idle = server.resident_mib();
    for round in 0..3 {
        let mut unread = Vec::new();
        for caller in 2..8 {
            for at in 0..4 {
                let mut stream = connect(&server, caller).await;
                match at {
                    0 => post(&mut stream, &(0..50).map(batch_read).collect()).await,
                    _ => post(&mut stream, &batch_read(at + round)).await,
                }
                unread.push(stream);
            }
        }
        for _ in 0..20 {
            sleep(Duration::from_millis(100)).await;
            let read = server.call(&Request::new("GET", "/documents/small.md")).await;
            assert_eq!(read.status(), 200, "a bystander is served: {}", read.text());
        }
        // Some read a little, all hang up.
        for stream in unread.iter_mut().step_by(2) {
            let mut some = [0; 1024];
            let _ = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut some)).await;
        }
    }
    let peak = server.peak_mib();
    eprintln!("idle {idle} MiB, peak {peak} MiB, bound {BOUND_MIB} MiB");
    assert!(peak <= BOUND_MIB, "{peak} MiB");
    sleep(Duration::from_secs(3)).await;
    eprintln!("afterwards {} MiB", server.resident_mib());
    // Calls of legacy clients outlive their connections; once they are over, there is room again.
    let asked = Request::post("/mcp", batch_read(0).to_string());
    let mut answer = server.call(&asked).await.text().to_owned();
    for _ in 0..60 {
        if answer.len() > MIB as usize {
            return;
        }
        sleep(Duration::from_secs(1)).await;
        answer = server.call(&asked).await.text().to_owned();
    }
    panic!("what was asked for is large: {answer}");
}

#[tokio::test]
async fn texts_that_grow_when_escaped_are_measured_as_they_are_sent() {
    let data = tempfile::tempdir().unwrap();
    let config = data.path().join("lyceum.toml");
    let limits = "[limits]\nanswer_bytes = 1048576\n[index]\nskip_prefixes = [\"big/\"]\n";
    std::fs::write(&config, limits).unwrap();
    let server = Lyceum::start(data.path(), &["--config", config.to_str().unwrap()]).await;
    // 100 KB, 600 KB as JSON, 700 KB more as JSON within JSON.
    upload(&server, "big/0.md", &"\u{1}".repeat(100_000)).await;
    upload(&server, "big/1.md", &"x".repeat(100_000)).await;
    let call = async |name: &str, arguments: Value| {
        let params = json!({ "name": name, "arguments": arguments });
        let request = Request::modern("/mcp", 1, "tools/call", params);
        server.call(&request).await.json()["result"].clone()
    };
    let whole = call("get_document_for_rewrite", json!({"document_id": "big/0.md"})).await;
    let refusal = &whole["structuredContent"]["error"];
    assert_eq!(refusal["code"], "INVALID_ARGUMENT", "{whole}");
    assert!(refusal["message"].as_str().unwrap().contains("lines or section"), "{refusal}");
    let paths = json!({"paths": ["big/0.md", "big/1.md"], "full": true});
    let several = call("batch_read", paths).await;
    let items = several["structuredContent"]["items"].as_array().unwrap().clone();
    let truncated: Vec<&Value> = items.iter().map(|item| &item["truncated"]).collect();
    assert_eq!(truncated, [true, false]);
    // As HTTP sends it once only, it fits there.
    let read = server.call(&Request::new("GET", "/documents/big/0.md")).await;
    assert_eq!(read.status(), 200);
}
