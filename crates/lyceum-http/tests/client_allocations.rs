//! How often a small call of the client allocates, HTTP included: a budget, because every call
//! through a gateway pays for it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use lyceum_http::client::{CallOptions, Client, Peer};
use lyceum_wire::RevisionSet;

const WARM_UP: u64 = 50;
const CALLS: u64 = 500;
const PARAMS: &str =
    r#"{"name":"echo","arguments":{"text":"the quick brown fox jumps over the lazy dog"}}"#;
const RESULT: &str = r#"{"content":[{"type":"text","text":"the quick brown fox jumps over the lazy dog"}],"resultType":"complete"}"#;

#[test]
fn small_modern_call() {
    check(RevisionSet::MODERN, 15);
}

#[test]
fn small_legacy_call() {
    check(RevisionSet::LEGACY, 15);
}

#[track_caller]
fn check(versions: RevisionSet, budget: u64) {
    let few = allocations(versions, WARM_UP);
    let many = allocations(versions, WARM_UP + CALLS);
    let per_call = (many - few) as f64 / CALLS as f64;
    assert!(per_call <= budget as f64, "{per_call} allocations per call, budget {budget}");
    // A count of nothing would mean that the wrong thread was watched.
    assert!(per_call >= 1.0, "{per_call} allocations per call cannot be right");
}

/// Allocations of a client's only thread while it makes `calls` calls over one connection.
fn allocations(versions: RevisionSet, calls: u64) -> u64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The thread ends with its connections, which end with the client.
    std::thread::spawn(move || {
        for stream in listener.incoming().take(1) {
            serve(stream.unwrap());
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let counted = allocation_counter::measure(|| {
        runtime.block_on(async {
            let peer = connect(address, versions).await;
            let options = CallOptions::new();
            for _ in 0..calls {
                let result = peer.call_with("tools/call", PARAMS, &options).await.unwrap();
                assert_eq!(result, RESULT);
            }
        });
    });
    counted.count_total
}

async fn connect(address: SocketAddr, versions: RevisionSet) -> Peer {
    let client = Client::builder(format!("http://{address}/mcp")).name("c", "1");
    let client = client.versions(versions).standing_stream(false).build().unwrap();
    client.connect().await.unwrap()
}

/// Answers every request on a connection with the same result.
fn serve(mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            length =
                line.strip_prefix("content-length: ").map_or(length, |n| n.trim().parse().unwrap());
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        stream.write_all(&answer(&String::from_utf8(body).unwrap())).unwrap();
    }
}

fn answer(body: &str) -> Vec<u8> {
    let Some(id) = body.split(r#""id":"#).nth(1) else {
        return b"HTTP/1.1 202 X\r\ncontent-length: 0\r\n\r\n".to_vec();
    };
    let id = id.split(',').next().unwrap();
    let result = if body.contains("server/discover") {
        r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#
    } else if body.contains(r#""initialize""#) {
        r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#
    } else {
        RESULT
    };
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    let length = body.len();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";
    format!("{head}: {length}\r\n\r\n{body}").into_bytes()
}
