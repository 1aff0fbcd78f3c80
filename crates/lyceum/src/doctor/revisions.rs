//! Which revisions a server speaks: `server/discover`, and a handshake with each legacy one.

use lyceum_wire::{Era, Revision};
use serde_json::Value;

use super::ask::Ask;
use super::exchange::Seen;
use super::patient::{Judgement, LegacySession, OK, Patient, bad, finding, warn};
use super::report::Finding;

/// The handshakes tried, newest first.
const HANDSHAKES: &[(&str, Revision)] = &[
    ("initialize 2025-11-25", Revision::V2025_11_25),
    ("initialize 2025-06-18", Revision::V2025_06_18),
    ("initialize 2025-03-26", Revision::V2025_03_26),
    ("initialize 2024-11-05", Revision::V2024_11_05),
];

/// Finds out what the server speaks, and opens the session for the other probes.
pub(super) async fn examine(patient: &mut Patient) -> Vec<Finding> {
    let mut findings = vec![discover(patient).await];
    for &(check, revision) in HANDSHAKES {
        findings.push(handshake(patient, check, revision).await);
    }
    if !patient.can_be_asked() {
        let fix =
            "serve 2026-07-28 requests or the initialize handshake at this URL; check the path";
        findings.push(finding("any revision", "none".to_owned(), bad(fix)));
        return findings;
    }
    if patient.legacy.is_some() {
        let unknown = Ask::initialize("1999-01-01");
        findings.push(
            patient.probe("initialize with an unknown version", &unknown, judge_unknown).await,
        );
        let newest = Ask::initialize("2026-07-28");
        findings.push(patient.probe("initialize with 2026-07-28", &newest, judge_newest).await);
    }
    findings
}

async fn discover(patient: &mut Patient) -> Finding {
    const CHECK: &str = "server/discover";
    let seen = match patient.target.send(&Ask::modern("server/discover")).await {
        Ok(seen) => seen,
        Err(error) => {
            return finding(CHECK, format!("{error:#}"), bad("answer every request in time"));
        }
    };
    let Some(result) = seen.result() else {
        let fix = "2026-07-28 is not served: modern clients must fall back to initialize";
        return finding(CHECK, seen.describe(), warn(fix));
    };
    patient.modern = true;
    let versions = result["supportedVersions"]
        .as_array()
        .map(|versions| versions.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
    let complete = result["resultType"] == "complete"
        && result["ttlMs"].is_number()
        && result["cacheScope"].is_string();
    match versions {
        Some(versions) if complete => finding(CHECK, versions, OK),
        Some(versions) => {
            finding(CHECK, versions, bad("the result needs resultType, ttlMs and cacheScope"))
        }
        None => finding(CHECK, seen.describe(), bad("the result needs supportedVersions")),
    }
}

async fn handshake(patient: &mut Patient, check: &'static str, revision: Revision) -> Finding {
    let seen = match patient.target.send(&Ask::initialize(revision.as_str())).await {
        Ok(seen) => seen,
        Err(error) => {
            return finding(check, format!("{error:#}"), bad("answer every request in time"));
        }
    };
    let Some(answered) = version(&seen) else {
        let fix = "not served: older clients cannot connect";
        return finding(check, seen.describe(), warn(fix));
    };
    let shown = format!("{} {answered}", seen.describe());
    let Some(answered) = Revision::parse(&answered).filter(|known| known.era() == Era::Legacy)
    else {
        return finding(
            check,
            shown,
            bad("initialize must answer with a revision that has a handshake"),
        );
    };
    if patient.legacy.is_none() {
        let id = seen.header("mcp-session-id").map(str::to_owned);
        let session = LegacySession { revision: answered, id };
        let initialized = session.carry(Ask::notification("notifications/initialized"));
        // Its status is a finding of `sessions`; here it only makes the session usable.
        let _ = patient.target.send(&initialized).await;
        patient.legacy = Some(session);
    } else if let Some(id) = seen.header("mcp-session-id") {
        let end = Ask::method(http::Method::DELETE).with("mcp-session-id", id);
        let _ = patient.target.send(&end).await;
    }
    let judgement = if answered == revision {
        OK
    } else {
        warn("another revision was offered: clients that know only this one will leave")
    };
    finding(check, shown, judgement)
}

fn version(seen: &Seen) -> Option<String> {
    Some(seen.result()?["protocolVersion"].as_str()?.to_owned())
}

fn judge_unknown(seen: &Seen) -> Judgement {
    match version(seen) {
        Some(_) => OK,
        None => bad("offer the newest revision with a handshake instead of an error"),
    }
}

fn judge_newest(seen: &Seen) -> Judgement {
    match version(seen).as_deref() {
        Some("2026-07-28") => bad("2026-07-28 has no handshake: offer 2025-11-25 instead"),
        Some(_) => OK,
        None => warn("offer the newest revision with a handshake instead of an error"),
    }
}
