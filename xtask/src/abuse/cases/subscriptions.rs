//! Sessions, subscriptions and streams: what the server keeps for those who stay.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::FIFTEEN_MB;
use crate::abuse::case::{AbuseCase, Attacker};
use crate::abuse::client::{AbusiveClient, Manner};
use crate::abuse::request::{self, BATCHING, NONCE, RequestHead};

pub(super) const CASES: [AbuseCase; 5] = [
    AbuseCase::new("subscribe", "subscriptions to URIs of 15 MB (M1)", subscribe).quick(),
    AbuseCase::new("listen", "40 streams that listen for a URI of 15 MB each (M1)", listen),
    AbuseCase::new("listen-many", "40 streams that listen for 100,000 URIs each", listen_many),
    AbuseCase::new("sessions", "sessions, opened as fast as they are given", sessions),
    AbuseCase::new("resume", "streams resumed from events that never were", resume),
];

/// Opens a session; its id.
pub(super) fn session(attacker: &Attacker<'_>) -> Result<String> {
    let Attacker { server, key } = *attacker;
    let answer = server.ask(&request::initialize(key))?;
    let id = answer.header("mcp-session-id").context("initialize answers no session id")?;
    let id = id.to_owned();
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    server.ask(&request::legacy(key, Some(&id), &initialized.to_string()))?;
    Ok(id)
}

fn subscribe(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let key = attacker.key;
    let uri = format!("kb:///{}{NONCE}", "u".repeat(FIFTEEN_MB));
    let params = json!({ "uri": uri });
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": params });
    let requests =
        (0..3).map(|_| Ok(request::legacy(key, Some(&session(attacker)?), &body.to_string())));
    Ok(vec![AbusiveClient::patient(requests.collect::<Result<_>>()?).pause(20)])
}

fn listening(attacker: &Attacker<'_>, uris: &Value) -> Vec<AbusiveClient> {
    let params = json!({ "notifications": { "resourceSubscriptions": uris } });
    let request = request::rpc(attacker.key, "subscriptions/listen", "", params);
    vec![AbusiveClient::patient(vec![request]).manner(Manner::Hold(40)).pause(100)]
}

fn listen(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    Ok(listening(attacker, &json!([format!("kb:///{}{NONCE}", "u".repeat(FIFTEEN_MB))])))
}

fn listen_many(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let uris: Vec<String> = (0..100_000).map(|n| format!("kb:///abuse/{n}{NONCE}")).collect();
    Ok(listening(attacker, &json!(uris)))
}

fn sessions(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let request = request::initialize(attacker.key);
    Ok(vec![AbusiveClient::patient(vec![request]).times(4).pause(2)])
}

fn resume(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let key = attacker.key;
    let session = session(attacker)?;
    let headers = format!(
        "Accept: text/event-stream\r\nMCP-Protocol-Version: {BATCHING}\r\n\
         Mcp-Session-Id: {session}\r\nLast-Event-ID: {NONCE}-1\r\n"
    );
    let head = RequestHead { method: "GET", target: "/mcp", key, headers: &headers };
    let client = AbusiveClient::patient(vec![request::raw(head, b"")]);
    Ok(vec![client.times(4).manner(Manner::Hold(100)).pause(5)])
}
