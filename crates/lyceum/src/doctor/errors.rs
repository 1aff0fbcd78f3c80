//! How a server says no: deliberate mistakes, and strangers at the door.

use bytes::Bytes;

use super::ask::Ask;
use super::exchange::{Form, Seen};
use super::patient::{Judgement, OK, Patient, bad, warn};
use super::report::Finding;

pub(super) async fn examine(patient: &Patient) -> Vec<Finding> {
    let list = patient.request("tools/list");
    let mut findings = Vec::new();
    let broken = list.clone().saying("{\"jsonrpc\": ");
    findings.push(patient.probe("body is not JSON", &broken, |seen| coded(seen, -32700)).await);
    let empty = list.clone().saying("{}");
    findings.push(patient.probe("body is not JSON-RPC", &empty, |seen| coded(seen, -32600)).await);
    let batch = list.clone().saying([b"[", &list.body[..], b"]"].concat());
    findings.push(patient.probe("batch", &batch, judge_batch).await);
    let text = list.clone().with("content-type", "text/plain");
    findings.push(patient.probe("Content-Type: text/plain", &text, judge_type).await);
    let nowhere = Ask { path: Some(format!("{}-no-such", patient.target.path)), ..list.clone() };
    findings.push(patient.probe("unknown path", &nowhere, judge_path).await);
    let unknown = patient.request("no/such/method");
    let modern = patient.modern;
    findings
        .push(patient.probe("unknown method", &unknown, |seen| judge_method(seen, modern)).await);
    if patient.modern {
        findings.extend(modern_mistakes(patient, &list).await);
    }
    let local = patient.target.is_local();
    let origin = list.clone().with("origin", "https://evil.example");
    findings.push(patient.probe("foreign Origin", &origin, |seen| judge_origin(seen, local)).await);
    let host = list.with("host", "evil.example");
    findings.push(patient.probe("foreign Host", &host, |seen| judge_host(seen, local)).await);
    findings
}

async fn modern_mistakes(patient: &Patient, list: &Ask) -> Vec<Finding> {
    let version =
        Bytes::from(String::from_utf8_lossy(&list.body).replace("2026-07-28", "2999-01-01"));
    let future = list.clone().with("mcp-protocol-version", "2999-01-01").saying(version);
    let bare = list.clone().saying(Ask::legacy("tools/list").body);
    let wrong = list.clone().with("mcp-method", "tools/call");
    let headless = list.clone().without("mcp-protocol-version");
    vec![
        patient.probe("unknown protocol version", &future, |seen| coded(seen, -32022)).await,
        patient.probe("modern without _meta", &bare, |seen| coded(seen, -32602)).await,
        patient.probe("Mcp-Method disagrees", &wrong, |seen| coded(seen, -32020)).await,
        patient.probe("MCP-Protocol-Version absent", &headless, judge_headless).await,
    ]
}

/// A refusal that says which mistake it is about.
fn coded(seen: &Seen, code: i64) -> Judgement {
    let right_code = seen.code() == Some(code);
    match (seen.status, right_code, seen.form) {
        (400, true, Form::Json) => OK,
        (200, true, _) => warn("the HTTP status should be 400: proxies and logs go by it"),
        (_, _, _) if seen.succeeded() => bad("refuse it with HTTP 400 and a JSON-RPC error"),
        (_, false, _) if seen.refused() => match code {
            -32700 => warn("the JSON-RPC error code should be -32700"),
            -32600 => warn("the JSON-RPC error code should be -32600"),
            -32022 => bad("the JSON-RPC error code must be -32022, with data.supported"),
            -32602 => bad("the JSON-RPC error code must be -32602"),
            _ => bad("the JSON-RPC error code must be -32020"),
        },
        _ if seen.refused() => warn("the HTTP status should be 400"),
        _ => bad("refuse it with HTTP 400 and a JSON-RPC error"),
    }
}

/// A server that serves older clients too may take it for one of theirs.
fn judge_headless(seen: &Seen) -> Judgement {
    match (seen.code(), seen.refused()) {
        (Some(-32020), true) => OK,
        (_, true) => {
            warn("the JSON-RPC error code should be -32020: it tells the client what to add")
        }
        _ => bad("refuse it with HTTP 400 and -32020: proxies route by this header"),
    }
}

fn judge_batch(seen: &Seen) -> Judgement {
    match seen.status {
        400 => OK,
        200 => warn("batches exist in 2025-03-26 only: refuse them with 400 elsewhere"),
        _ => warn("refuse batches with HTTP 400 and -32600"),
    }
}

fn judge_type(seen: &Seen) -> Judgement {
    match seen.status {
        415 | 400 => OK,
        200 => {
            warn("pages can send text/plain without asking first: demand application/json (415)")
        }
        _ => warn("refuse it with HTTP 415"),
    }
}

fn judge_path(seen: &Seen) -> Judgement {
    match (seen.status, seen.code()) {
        (404, Some(-32601)) => {
            bad("404 with -32601 means «no such method»: use -32600 for a path that does not exist")
        }
        (404, _) => OK,
        (401 | 403, _) => OK,
        _ => warn("answer 404 at paths that do not exist"),
    }
}

fn judge_method(seen: &Seen, modern: bool) -> Judgement {
    match (modern, seen.status, seen.code()) {
        (true, 404, Some(-32601)) | (false, 200, Some(-32601)) => OK,
        (true, _, Some(-32601)) => bad("the HTTP status must be 404 in 2026-07-28"),
        (false, 404, _) => bad("legacy clients read 404 as «session gone»: answer 200 with -32601"),
        (_, _, Some(_)) => warn("the JSON-RPC error code should be -32601"),
        _ => bad("refuse methods that do not exist with -32601"),
    }
}

fn judge_origin(seen: &Seen, local: bool) -> Judgement {
    match seen.status {
        403 => OK,
        400..500 => warn("the HTTP status should be 403"),
        _ if local => bad("any web page can call this server: refuse foreign origins with 403"),
        _ => warn("foreign origins are served: make sure every call is authenticated"),
    }
}

fn judge_host(seen: &Seen, local: bool) -> Judgement {
    match seen.status {
        400..500 => OK,
        _ if local => {
            bad("DNS rebinding reaches this server: refuse foreign hosts with 421 or 403")
        }
        _ => warn("any Host is served: fine behind a proxy that checks it, risky without"),
    }
}
