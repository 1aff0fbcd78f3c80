//! What GET and other methods do on the endpoint.

use http::Method;

use super::ask::Ask;
use super::exchange::{Form, Seen};
use super::patient::{Judgement, OK, Patient, bad, warn};
use super::report::Finding;

pub(super) async fn examine(patient: &Patient) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(session) = &patient.legacy {
        let stream = session.carry(Ask::stream());
        findings.push(patient.probe("GET stream in a session", &stream, judge_stream).await);
    }
    if patient.modern {
        let stream = Ask::stream().with("mcp-protocol-version", "2026-07-28");
        findings.push(patient.probe("GET stream, 2026-07-28", &stream, judge_modern).await);
    }
    let plain = Ask::method(Method::GET).with("accept", "application/json");
    findings.push(patient.probe("GET without a stream", &plain, judge_plain).await);
    let put = Ask::method(Method::PUT).with("accept", "application/json");
    findings.push(patient.probe("PUT", &put, judge_put).await);
    findings
}

fn judge_stream(seen: &Seen) -> Judgement {
    match (seen.status, seen.form) {
        (200, Form::Sse) => OK,
        (405, _) => OK,
        (200, _) => bad("a stream is text/event-stream: answer with one, or 405"),
        _ => warn("answer with a stream, or 405 where there is none"),
    }
}

fn judge_modern(seen: &Seen) -> Judgement {
    match seen.status {
        405 => OK,
        _ => warn("2026-07-28 has no GET: answer 405 with Allow: POST"),
    }
}

fn judge_plain(seen: &Seen) -> Judgement {
    match seen.status {
        200 | 400 | 405 | 406 => OK,
        _ => warn("answer 405, 406, or a document that says what this is"),
    }
}

fn judge_put(seen: &Seen) -> Judgement {
    match (seen.status, seen.header("allow")) {
        (405, Some(_)) => OK,
        (405, None) => warn("a 405 needs an Allow header"),
        _ => warn("answer 405 with an Allow header"),
    }
}
