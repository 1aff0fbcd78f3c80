//! Floods of HTTP/2 frames (reliability row 27): the connection ends or waits, the server goes on.

use std::io;

use lyceum_http::ServeOptions;
use lyceum_testkit::Connection;
use serde_json::json;
use tokio::time::{Duration, timeout};

use crate::lab::{Lab, modern, resident_kb};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// `POST /` at `localhost`, as HPACK writes it without its tables.
fn post() -> Vec<u8> {
    let mut block = vec![0x83, 0x86, 0x84, 0x41, 9];
    block.extend(b"localhost");
    block
}

/// The `n`th stream a client opens.
fn stream(n: u32) -> u32 {
    2 * n + 1
}

/// Sends `flood(0)`, `flood(1)`, … until the server has had enough; says whether it had.
async fn flood(connection: &mut Connection, flood: impl Fn(u32) -> Vec<u8>) -> bool {
    let mut send = async || -> io::Result<()> {
        connection.try_send([PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await?;
        for round in 0..2000 {
            let frames: Vec<u8> = (round * 500..(round + 1) * 500).flat_map(&flood).collect();
            connection.try_send(frames).await?;
        }
        Ok(())
    };
    // A server that stops reading has had enough too; it ends such connections by its write stall.
    !matches!(timeout(Duration::from_secs(30), send()).await, Ok(Ok(())))
}

/// Floods a server, and looks after it.
async fn check(name: &str, frames: impl Fn(u32) -> Vec<u8>) {
    let lab = Lab::new();
    let options =
        ServeOptions { write_stall: Duration::from_millis(300), ..ServeOptions::default() };
    let server = lab.serve_with(options).await;
    let before = resident_kb();
    let mut connection = server.connect().await;
    assert!(flood(&mut connection, frames).await, "{name}: the server took it all");
    let mut other = server.connect().await;
    assert_eq!(other.call(&modern(1, "echo", json!({}))).await.status(), 200, "{name}");
    let grown = resident_kb().saturating_sub(before);
    assert!(grown < 100 << 10, "{name}: {grown} KiB");
    assert!(connection.closes_within(Duration::from_secs(10)).await, "{name}: still open");
}

#[tokio::test]
async fn rapid_resets_end_the_connection() {
    check("rapid reset", |n| {
        let headers = frame(HEADERS, END_HEADERS, stream(n), &post());
        [headers, frame(RST_STREAM, 0, stream(n), &[0, 0, 0, 8])].concat()
    })
    .await;
}

#[tokio::test]
async fn endless_continuations_end_the_connection() {
    check("continuation", |n| match n {
        0 => frame(HEADERS, 0, 1, &post()),
        // A header of its own in each, so that the list grows.
        _ => frame(CONTINUATION, 0, 1, b"\x00\x01a\x7f\x21aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    })
    .await;
}

#[tokio::test]
async fn endless_empty_data_ends_the_connection() {
    check("empty data", |n| match n {
        0 => frame(HEADERS, END_HEADERS, 1, &post()),
        _ => frame(DATA, 0, 1, &[]),
    })
    .await;
}

#[tokio::test]
async fn endless_settings_end_the_connection() {
    check("settings", |_| frame(SETTINGS, 0, 0, &[])).await;
}

#[tokio::test]
async fn endless_pings_end_the_connection() {
    check("ping", |_| frame(PING, 0, 0, &[0; 8])).await;
}
