//! HTTP/1.1 messages cut as badly as the standard allows: chunks of a byte, chunk extensions, requests
//! in a row.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::abuse::case::{AbuseCase, Attacker};
use crate::abuse::client::{AbusiveClient, Manner};
use crate::abuse::request::{self, RequestBytes, rpc_body};

pub(super) const CASES: [AbuseCase; 5] = [
    AbuseCase::new("chunks-of-a-byte", "bodies of a million chunks of a byte", chunks)
        .cpu(0.6)
        .quick(),
    AbuseCase::new("chunk-extensions", "chunks with long, many and endless extensions", extensions),
    AbuseCase::new("pipelined", "2,000 requests in a row, answers read late", pipelined),
    AbuseCase::new("pipelined-unread", "2,000 requests in a row, no answer read", unread),
    AbuseCase::new("guesses-at-once", "64 clients that guess 1,000 keys in a row", guesses)
        .cpu(1.5),
];

const READING: Duration = Duration::from_secs(2);

/// The head of a chunked request.
fn chunked_head(attacker: &Attacker<'_>) -> Vec<u8> {
    let body = rpc_body("tools/list", json!({})).to_string();
    let whole = request::modern(attacker.key, "tools/list", "", body.as_bytes());
    let text = String::from_utf8_lossy(&whole.whole(0)).into_owned();
    let head = text.split_once("\r\n\r\n").map_or(text.as_str(), |(head, _)| head);
    let lines = head.lines().filter(|line| !line.starts_with("Content-Length"));
    let head: String = lines.map(|line| format!("{line}\r\n")).collect();
    format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes()
}

fn chunked(attacker: &Attacker<'_>, chunks: &[u8]) -> RequestBytes {
    let mut bytes = chunked_head(attacker);
    bytes.extend_from_slice(chunks);
    RequestBytes::opaque(bytes)
}

fn chunks(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let spaces = b"1\r\n \r\n".repeat(1_000_000);
    let end = b"1\r\nx\r\n0\r\n\r\n";
    let client = AbusiveClient::patient(vec![chunked(attacker, &[&spaces[..], end].concat())]);
    Ok(vec![client.times(8).pause(100)])
}

fn extensions(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let many = b"1;a=b\r\n \r\n".repeat(100_000);
    let long = [b"1;a=".to_vec(), vec![b'x'; 4_000_000], b"\r\n \r\n".to_vec()].concat();
    let zeros = [vec![b'0'; 4_000_000], b"1\r\n \r\n".to_vec()].concat();
    let trailers = [b"0\r\n".to_vec(), b"X-A: b\r\n".repeat(200_000)].concat();
    let requests = [many, long, zeros, trailers].map(|chunks| chunked(attacker, &chunks));
    Ok(vec![AbusiveClient::patient(requests.to_vec()).times(2).pause(20)])
}

/// Requests in one piece, none of which waits for an answer.
fn row(key: &str, n: usize) -> RequestBytes {
    let request = request::rpc(key, "tools/list", "", json!({})).whole(0);
    RequestBytes::opaque(request.repeat(n))
}

fn pipelined(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let client = AbusiveClient::patient(vec![row(attacker.key, 2000)]);
    Ok(vec![client.times(4).manner(Manner::Flood(READING)).pause(20)])
}

fn unread(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let client = AbusiveClient::patient(vec![row(attacker.key, 2000)]);
    Ok(vec![client.times(4).manner(Manner::Hold(20)).pause(20)])
}

fn guesses(_: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let guess =
        |n: usize| request::rpc(&format!("lyc_guess{n}"), "tools/list", "", json!({})).whole(0);
    let row: Vec<u8> = (0..1000).flat_map(guess).collect();
    let client = AbusiveClient::patient(vec![RequestBytes::opaque(row)]);
    Ok(vec![client.times(64).manner(Manner::Flood(READING)).pause(200)])
}
