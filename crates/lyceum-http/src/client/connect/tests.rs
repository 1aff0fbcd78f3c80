//! Which answer to a probe means what.

use std::time::Duration;

use lyceum_wire::RpcError;

use super::*;
use crate::client::error::RefusedStatus;
use crate::client::reply::Refused;

fn rpc(code: i32, data: &'static str) -> Result<Bytes, ClientError> {
    let error = RpcError::new(ErrorCode(code), "no");
    Err(ClientError::Rpc(if data.is_empty() { error } else { error.with_data(data) }))
}

fn status(code: u16) -> Result<Bytes, ClientError> {
    Err(ClientError::Status(refusal(code)))
}

fn refusal(code: u16) -> RefusedStatus {
    let status = StatusCode::from_u16(code).unwrap();
    RefusedStatus { status, challenge: None, location: None, excerpt: String::new() }
}

fn check(answer: Result<Bytes, ClientError>, ours: RevisionSet, expected: &str) {
    let shown = format!("{answer:?}");
    let verdict = match judge(answer, ours) {
        Verdict::Modern(revision) => revision.to_string(),
        Verdict::Legacy => "legacy".to_owned(),
        Verdict::Hopeless(error) => error.to_string(),
    };
    assert!(verdict.contains(expected), "{shown}: {verdict}");
}

#[test]
fn a_server_that_knows_discover_says_what_it_speaks() {
    for (result, expected) in [
        (r#"{"supportedVersions":["2026-07-28","2025-11-25"]}"#, "2026-07-28"),
        (r#"{"supportedVersions":["2099-01-01","2026-07-28",7]}"#, "2026-07-28"),
        (r#"{"supportedVersions":["2025-11-25"]}"#, "legacy"),
        (r#"{"supportedVersions":["2099-01-01"]}"#, "the server offers: [\"2099-01-01\"]"),
        (r#"{"supportedVersions":[]}"#, "no common protocol version"),
        (r#"{"supportedVersions":"2026-07-28"}"#, "legacy"),
        ("{}", "legacy"),
        ("[]", "legacy"),
    ] {
        check(Ok(Bytes::from_static(result.as_bytes())), RevisionSet::ALL, expected);
    }
}

#[test]
fn errors_of_modern_servers_never_lead_to_a_handshake() {
    check(rpc(-32020, ""), RevisionSet::ALL, "(-32020)");
    check(rpc(-32021, ""), RevisionSet::ALL, "(-32021)");
    check(rpc(-32022, ""), RevisionSet::ALL, "(-32022)");
    check(rpc(-32022, r#"{"supported":["2099-01-01"]}"#), RevisionSet::ALL, "no common");
    check(rpc(-32022, r#"{"supported":["2025-11-25"]}"#), RevisionSet::ALL, "legacy");
    check(rpc(-32022, r#"{"supported":["2025-11-25"]}"#), RevisionSet::MODERN, "no common");
}

#[test]
fn signs_of_age_lead_to_a_handshake() {
    for code in [-32601, -32600, -32602, -32000, -32700] {
        check(rpc(code, ""), RevisionSet::ALL, "legacy");
        check(rpc(code, ""), RevisionSet::MODERN, "no");
    }
    for code in [400, 404, 405, 406, 415, 422, 500, 501] {
        check(status(code), RevisionSet::ALL, "legacy");
    }
    check(Err(ClientError::Silent(Duration::ZERO)), RevisionSet::ALL, "legacy");
    check(Err(ClientError::protocol("x")), RevisionSet::ALL, "legacy");
    check(Err(ClientError::Interrupted), RevisionSet::ALL, "legacy");
}

#[test]
fn a_server_that_is_unwell_is_reported_as_it_is() {
    for code in [301, 307, 401, 403, 407, 429, 502, 503, 504] {
        check(status(code), RevisionSet::ALL, &format!("HTTP {code}"));
    }
    check(Err(ClientError::Unreachable("x".into())), RevisionSet::ALL, "cannot be reached");
    check(Err(ClientError::Broken("x".into())), RevisionSet::ALL, "connection broke");
}

#[test]
fn only_old_looking_refusals_lead_to_http_sse() {
    for (code, error, expected) in [
        (400, None, true),
        (404, None, true),
        (405, None, true),
        (404, Some(-32600), true),
        (400, Some(-32000), true),
        (404, Some(-32601), false),
        (400, Some(-32022), false),
        (400, Some(-32020), false),
        (401, None, false),
        (403, None, false),
        (406, None, false),
        (500, None, false),
    ] {
        let error = error.map(|code| RpcError::new(ErrorCode(code), "no"));
        let refused = NoSession::Refused(Refused { status: refusal(code), error, id: None });
        assert_eq!(may_be_older(&refused), expected, "{refused:?}");
    }
}
