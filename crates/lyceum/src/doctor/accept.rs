//! How a server reads `Accept`: each form clients are known to send.

use super::exchange::{Form, Seen};
use super::patient::{Judgement, OK, Patient, bad, warn};
use super::report::Finding;

/// One form of the header, and what its answer means.
type Row = (&'static str, Option<&'static str>, fn(&Seen) -> Judgement);

const ROWS: &[Row] = &[
    ("Accept: json, sse", Some("application/json, text/event-stream"), judge_both),
    ("Accept: json", Some("application/json"), judge_json),
    ("Accept: sse", Some("text/event-stream"), judge_sse),
    ("Accept: */*", Some("*/*"), judge_any),
    ("Accept absent", None, judge_any),
    ("Accept: application/xml", Some("application/xml"), judge_xml),
];

pub(super) async fn examine(patient: &Patient) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (check, accept, judge) in ROWS {
        let ask = patient.request("tools/list");
        let ask = match accept {
            Some(accept) => ask.with("accept", *accept),
            None => ask.without("accept"),
        };
        findings.push(patient.probe(check, &ask, judge).await);
    }
    findings
}

fn judge_both(seen: &Seen) -> Judgement {
    match seen.form {
        _ if seen.code() == Some(-32601) => OK,
        Form::Json | Form::Sse if seen.succeeded() => buffering(seen),
        _ => bad("this is what every client sends: answer it with a result"),
    }
}

fn judge_json(seen: &Seen) -> Judgement {
    match (seen.form, seen.status) {
        (Form::Json, 200) => OK,
        (_, 406) => warn("clients that take only JSON cannot connect: answer them with JSON"),
        (Form::Sse, _) => bad("the client cannot read an event stream: answer with JSON, or 406"),
        _ => bad("answer with JSON, or 406"),
    }
}

fn judge_sse(seen: &Seen) -> Judgement {
    match (seen.form, seen.status) {
        (Form::Sse, 200) => buffering(seen),
        (_, 406) => warn("clients that take only event streams cannot connect: answer with one"),
        (Form::Json, 200) => {
            bad("the client cannot read JSON: answer with an event stream, or 406")
        }
        _ => bad("answer with an event stream, or 406"),
    }
}

fn judge_any(seen: &Seen) -> Judgement {
    match seen.status {
        200 => OK,
        406 => warn("a client that accepts anything is refused: answer it with JSON"),
        _ => bad("answer with JSON"),
    }
}

fn judge_xml(seen: &Seen) -> Judgement {
    match seen.status {
        406 => OK,
        200 => warn("the client says it cannot read this answer: 406 would tell it why"),
        _ => bad("answer 406"),
    }
}

/// Event streams should ask proxies not to hold them back.
fn buffering(seen: &Seen) -> Judgement {
    let cached = !seen.header("cache-control").is_some_and(|value| value.contains("no-cache"));
    let buffered = seen.header("x-accel-buffering") != Some("no");
    if seen.form == Form::Sse && (cached || buffered) {
        return warn(
            "send Cache-Control: no-cache and X-Accel-Buffering: no, or proxies hold events back",
        );
    }
    OK
}
