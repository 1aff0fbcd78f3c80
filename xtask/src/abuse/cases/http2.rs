//! HTTP/2 without its manners: streams that are reset at once, headers that never end, windows of a
//! byte.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::abuse::case::{AbuseCase, Attacker};
use crate::abuse::client::{AbusiveClient, Manner};
use crate::abuse::http2::{
    END_HEADERS, END_STREAM, FrameKind, FrameSequence, encode_bomb, encode_fields,
};
use crate::abuse::memory_limit::ONE_READER;
use crate::abuse::request::{RequestBytes, rpc_body};

pub(super) const CASES: [AbuseCase; 7] = [
    AbuseCase::new("h2-resets", "10,000 HTTP/2 streams, each reset at once", resets)
        .cpu(1.0)
        .quick(),
    AbuseCase::new("h2-streams", "20 connections with 1,000 unfinished bodies each", streams),
    AbuseCase::new("h2-continuation", "headers in 50,000 frames that never end", continuations)
        .cpu(1.0),
    AbuseCase::new("h2-header-lists", "header lists of 64 MB out of 16 KB", header_lists).cpu(1.0),
    AbuseCase::new("h2-windows", "answers of 4 MB through windows of a byte", windows)
        .prepared(super::answers::large_documents)
        .memory(ONE_READER),
    AbuseCase::new("h2-control", "100,000 pings and settings, unread", control),
    AbuseCase::new("h2-empty-data", "100,000 empty pieces of a body", empty_data).cpu(1.0),
];

/// How long a client reads what comes.
const READING: Duration = Duration::from_secs(2);

fn fields(attacker: &Attacker<'_>, tool: &str) -> Vec<u8> {
    let authorization = format!("Bearer {}", attacker.key);
    let mut fields = vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "127.0.0.1"),
        (":path", "/mcp"),
        ("authorization", &authorization),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
    ];
    match tool {
        "" => fields.push(("mcp-method", "tools/list")),
        tool => fields.extend([("mcp-method", "tools/call"), ("mcp-name", tool)]),
    }
    encode_fields(&fields)
}

/// The n-th stream a client opens.
fn stream(n: u32) -> u32 {
    2 * n + 1
}

fn flooding(frames: FrameSequence) -> AbusiveClient {
    let client = AbusiveClient::patient(vec![RequestBytes::opaque(frames.into_bytes())]);
    client.manner(Manner::Flood(READING)).pause(20)
}

fn resets(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let body = rpc_body("tools/list", json!({})).to_string();
    let headers = fields(attacker, "");
    let cancel = 8_u32.to_be_bytes();
    // Before the body, and after it, when the call may have begun.
    let sequence = |with_body: bool| {
        let mut frames = FrameSequence::open(&[]);
        for n in 0..10_000 {
            frames.push(FrameKind::Headers, END_HEADERS, stream(n), &headers);
            if with_body {
                frames.push(FrameKind::Data, END_STREAM, stream(n), body.as_bytes());
            }
            frames.push(FrameKind::ResetStream, 0, stream(n), &cancel);
        }
        flooding(frames)
    };
    Ok(vec![sequence(false).times(2), sequence(true).times(2)])
}

fn streams(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let headers = fields(attacker, "");
    let mut frames = FrameSequence::open(&[]);
    for n in 0..1000 {
        frames.push(FrameKind::Headers, END_HEADERS, stream(n), &headers);
        frames.push(FrameKind::Data, 0, stream(n), &[b' '; 60]);
    }
    let client = AbusiveClient::patient(vec![RequestBytes::opaque(frames.into_bytes())]);
    Ok(vec![client.manner(Manner::Hold(20)).pause(20)])
}

fn continuations(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let headers = fields(attacker, "");
    let field = encode_fields(&[("x-a", "b")]);
    let sequence = |piece: &[u8], n: usize| {
        let mut frames = FrameSequence::open(&[]);
        frames.push(FrameKind::Headers, 0, 1, &headers);
        for _ in 0..n {
            frames.push(FrameKind::Continuation, 0, 1, piece);
        }
        flooding(frames)
    };
    let long = encode_fields(&[("x-a", "b".repeat(16_000).as_str())]);
    Ok(vec![sequence(&[], 50_000), sequence(&field, 50_000), sequence(&long, 500)])
}

fn header_lists(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let mut frames = FrameSequence::open(&[]);
    let bomb = encode_bomb("x-a", &"b".repeat(4000), 12_000);
    for n in 0..100 {
        let mut block = fields(attacker, "");
        block.extend_from_slice(&bomb);
        block.truncate(16_384);
        frames.push(FrameKind::Headers, END_HEADERS | END_STREAM, stream(n), &block);
    }
    Ok(vec![flooding(frames).times(2)])
}

fn windows(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let arguments = json!({ "document_id": "abuse/large-0.txt" });
    let tool = "get_document_for_rewrite";
    let body = rpc_body("tools/call", json!({ "name": tool, "arguments": arguments })).to_string();
    let headers = fields(attacker, tool);
    let mut frames = FrameSequence::open(&[(INITIAL_WINDOW_SIZE, 1)]);
    for n in 0..100 {
        frames.push(FrameKind::Headers, END_HEADERS, stream(n), &headers);
        frames.push(FrameKind::Data, END_STREAM, stream(n), body.as_bytes());
    }
    for n in 0..20_000 {
        frames.push_window(stream(n % 100), 1);
    }
    Ok(vec![flooding(frames).manner(Manner::Hold(8)).pause(100)])
}

fn control(_: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let mut frames = FrameSequence::open(&[]);
    for n in 0..50_000_u32 {
        frames.push(FrameKind::Ping, 0, 0, &u64::from(n).to_be_bytes());
        frames.push(FrameKind::Settings, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]);
        frames.push(FrameKind::Priority, 0, stream(n % 1000), &[0, 0, 0, 0, 1]);
    }
    let unread = AbusiveClient::patient(vec![RequestBytes::opaque(frames.clone().into_bytes())]);
    Ok(vec![flooding(frames).times(2), unread.manner(Manner::Hold(10)).pause(100)])
}

fn empty_data(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let mut frames = FrameSequence::open(&[]);
    frames.push(FrameKind::Headers, END_HEADERS, 1, &fields(attacker, ""));
    for _ in 0..100_000 {
        frames.push(FrameKind::Data, 0, 1, &[]);
    }
    Ok(vec![flooding(frames).times(2)])
}
