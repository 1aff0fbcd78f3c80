//! What the log says of each call: its way, its revisions, its connection, its repeats, its times.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use lyceum_http::client::CallOptions;
use lyceum_wire::{Revision, RevisionSet, encode};
use serde_json::{Value, json};

use crate::healing::{cutter, modern};
use crate::house::{House, Way};
use crate::log::Log;
use crate::mirror::{Mirror, Reply, plain};

type Fields = BTreeMap<String, String>;

/// The fields of every call of a tool that was told so far.
fn told(log: &Log) -> Vec<Fields> {
    let field = |word: &str| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    };
    let text = log.text();
    let lines = text.lines().filter(|line| line.contains(" relayed "));
    lines
        .map(|line| line.split(' ').filter_map(field).collect::<Fields>())
        .filter(|fields| fields["method"] == "tools/call")
        .collect()
}

fn check(fields: &Fields, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        let told = fields.get(*name).map(String::as_str).unwrap_or_default();
        assert_eq!(told, *value, "{name} in {fields:?}");
    }
    for name in ["total_ms", "connect_ms"] {
        let is_resumed = name == "connect_ms" && fields["is_resumed"] == "true";
        let told = fields.get(name).map(|told| told.parse::<u64>().is_ok());
        assert_eq!(told, (!is_resumed).then_some(true), "{name} in {fields:?}");
    }
    assert_eq!(fields["connection"].len(), 16, "{fields:?}");
}

#[tokio::test]
async fn a_plain_call_is_told_with_its_way() {
    let (log, _catching) = Log::catch();
    for (served, revision) in
        [(RevisionSet::LEGACY, "2025-11-25"), (RevisionSet::MODERN, "2026-07-28")]
    {
        let house = House::new(Way::Http, served).await;
        let before = told(&log).len();
        for client in [Revision::V2025_06_18, Revision::V2026_07_28] {
            let (peer, _) = house.client(client).await;
            let params = json!({"name": "up_echo", "arguments": {"text": "a"},
                "_meta": {"traceparent": "00-a-b-01"}});
            peer.call("tools/call", params.to_string()).await.unwrap();
            let fields = told(&log).pop().expect("a call");
            check(
                &fields,
                &[
                    ("name", "up_echo"),
                    ("upstream", "up"),
                    ("own_name", "echo"),
                    ("client_revision", client.as_str()),
                    ("upstream_revision", revision),
                    ("legacy_session", &(client != Revision::V2026_07_28).to_string()),
                    ("is_resumed", "false"),
                    ("retries", "0"),
                    ("traceparent", "00-a-b-01"),
                    ("outcome", "ok"),
                    ("error_code", ""),
                ],
            );
        }
        let calls = &told(&log)[before..];
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0]["connection"], calls[1]["connection"], "everybody's connection");
        house.gateway.close().await;
    }
    let calls = told(&log);
    assert_ne!(calls[0]["connection"], calls[2]["connection"], "another upstream");
}

#[tokio::test]
async fn a_refused_call_is_told_with_the_code_the_client_got() {
    let (log, _catching) = Log::catch();
    let house = House::new(Way::Http, RevisionSet::MODERN).await;
    let peer = modern(&house).await;
    let refused = peer.call_tool("up_ask", "{}", &CallOptions::new()).await.unwrap_err();
    let code = refused.rpc().expect("an answer").code.0.to_string();
    let fields = told(&log).pop().expect("a call");
    check(&fields, &[("name", "up_ask"), ("outcome", "ok"), ("error_code", &code)]);
    house.gateway.close().await;
}

#[tokio::test]
async fn a_repeated_call_is_told_once_with_its_repeats() {
    let (log, _catching) = Log::catch();
    let (_running, config, _) = cutter().await;
    let house = House::with(vec![config], None).await;
    let (peer, _) = house.client(Revision::V2026_07_28).await;
    for (tool, retries, outcome) in [("act", "0", "error"), ("look", "1", "ok")] {
        let name = format!("up_{tool}");
        peer.call_tool(&name, "{}", &CallOptions::new()).await.unwrap();
        let expected = [
            ("name", name.as_str()),
            ("own_name", tool),
            ("upstream_revision", "2025-06-18"),
            ("retries", retries),
            ("outcome", outcome),
        ];
        check(&told(&log).pop().expect("a call"), &expected);
    }
    assert_eq!(told(&log).len(), 2);
}

#[tokio::test]
async fn a_resumed_call_is_told_with_the_connection_it_has_had() {
    for way in [Way::Http, Way::Stdio] {
        let (log, _catching) = Log::catch();
        let house = House::new(way, RevisionSet::LEGACY).await;
        let (peer, _) = house.client(Revision::V2026_07_28).await;
        let options = CallOptions::new().hand_back_input_requests();
        let asked = peer.call_tool("up_ask", "{}", &options).await.unwrap();
        let asked: Value = serde_json::from_slice(&asked).unwrap();
        let retry = json!({"name": "up_ask", "requestState": asked["requestState"],
            "inputResponses": {"elicitation-1": {"action": "accept", "content": {"name": "Ada"}}}});
        peer.call_with("tools/call", retry.to_string(), &options).await.unwrap();
        let calls = told(&log);
        assert_eq!(calls.len(), 2);
        for (fields, is_resumed) in calls.iter().zip(["false", "true"]) {
            let expected = [
                ("name", "up_ask"),
                ("client_revision", "2026-07-28"),
                ("upstream_revision", "2025-11-25"),
                ("is_resumed", is_resumed),
                ("retries", "0"),
                ("outcome", "ok"),
            ];
            check(fields, &expected);
        }
        assert_eq!(calls[0]["connection"], calls[1]["connection"], "{way:?}");
        house.gateway.close().await;
    }
}

#[tokio::test]
async fn a_call_whose_session_was_forgotten_is_told_to_have_been_repeated() {
    let (log, _catching) = Log::catch();
    let n_calls = AtomicUsize::new(0);
    let upstream = Mirror::answering(move |request| match request.method.as_str() {
        "initialize" => {
            let Reply::Result(result) = plain("initialize") else { panic!("no result") };
            let body = encode::result(&request.id, result.as_bytes());
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: s\r\n\
                 content-length: {}\r\n\r\n",
                body.len()
            );
            Reply::Bytes([head.as_bytes(), &body].concat())
        }
        "tools/call" if n_calls.fetch_add(1, Ordering::SeqCst) == 1 => {
            Reply::Bytes(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec())
        }
        method => plain(method),
    })
    .await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let peer = modern(&house).await;
    for (retries, n_opened) in [("0", 1), ("1", 2), ("0", 2)] {
        peer.call_tool("up_mirror", "{}", &CallOptions::new()).await.unwrap();
        let fields = told(&log).pop().expect("a call");
        check(&fields, &[("retries", retries), ("outcome", "ok")]);
        assert_eq!(upstream.n_seen("initialize"), n_opened);
    }
    assert_eq!(upstream.n_seen("tools/call"), 4);
}
