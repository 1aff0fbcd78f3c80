//! What a server does with sessions. Runs last: it ends the session the others used.

use http::Method;

use super::ask::Ask;
use super::exchange::Seen;
use super::patient::{Judgement, LegacySession, OK, Patient, bad, finding, warn};
use super::report::Finding;

pub(super) async fn examine(patient: &Patient) -> Vec<Finding> {
    let mut findings = Vec::new();
    if patient.modern {
        let stray = Ask::modern("tools/list").with("mcp-session-id", "no-such-session");
        findings.push(patient.probe("2026-07-28 with a session id", &stray, judge_modern).await);
    }
    let Some(session) = &patient.legacy else { return findings };
    let initialized = session.carry(Ask::notification("notifications/initialized"));
    findings.push(patient.probe("notification", &initialized, judge_notification).await);
    match &session.id {
        Some(id) => findings.extend(with_id(patient, session, id).await),
        None => findings.push(finding("session id", "none given".to_owned(), OK)),
    }
    findings
}

async fn with_id(patient: &Patient, session: &LegacySession, id: &str) -> Vec<Finding> {
    let visible = id.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    let judgement = if visible { OK } else { bad("session ids must be visible ASCII") };
    let mut findings = vec![finding("session id", format!("{} characters", id.len()), judgement)];
    let list = session.request("tools/list");
    let none = list.clone().without("mcp-session-id");
    findings.push(patient.probe("request without the id", &none, judge_without).await);
    let wrong = list.clone().with("mcp-session-id", "no-such-session");
    findings.push(patient.probe("request with an unknown id", &wrong, judge_unknown).await);
    let end = session.carry(Ask::method(Method::DELETE));
    let ended = patient.probe("DELETE", &end, judge_delete).await;
    let deleted = ended.seen.starts_with('2');
    findings.push(ended);
    if deleted {
        findings.push(patient.probe("request after DELETE", &list, judge_ended).await);
    }
    findings
}

fn judge_modern(seen: &Seen) -> Judgement {
    match (seen.succeeded() || seen.code() == Some(-32601), seen.header("mcp-session-id")) {
        (true, None) => OK,
        (true, Some(_)) => warn("2026-07-28 has no sessions: send no Mcp-Session-Id back"),
        _ => bad("2026-07-28 has no sessions: ignore the header"),
    }
}

fn judge_notification(seen: &Seen) -> Judgement {
    match seen.status {
        202 => OK,
        200 | 204 => warn("an accepted notification is answered with 202 and no body"),
        _ => bad("accept notifications with 202 and no body"),
    }
}

fn judge_without(seen: &Seen) -> Judgement {
    match seen.status {
        400 => OK,
        200 => OK,
        _ => warn("answer 400 where a session id is required"),
    }
}

fn judge_unknown(seen: &Seen) -> Judgement {
    match seen.status {
        404 => OK,
        _ if seen.succeeded() => bad("an id nobody was given must not work: answer 404"),
        _ => bad("answer 404: that is what makes clients start a new session"),
    }
}

fn judge_delete(seen: &Seen) -> Judgement {
    match seen.status {
        200 | 202 | 204 | 405 => OK,
        _ => warn("answer DELETE with 2xx, or 405 where sessions cannot be ended"),
    }
}

fn judge_ended(seen: &Seen) -> Judgement {
    match seen.status {
        404 => OK,
        _ => bad("an ended session must be gone: answer 404"),
    }
}
