//! What the doctor knows about the server so far, and how a probe becomes a finding.

use lyceum_wire::Revision;

use super::ask::Ask;
use super::exchange::Seen;
use super::report::{Finding, Verdict};
use super::target::Target;

/// The server under examination.
pub(super) struct Patient {
    pub(super) target: Target,
    /// Whether it serves 2026-07-28.
    pub(super) modern: bool,
    /// The legacy session opened for the examination.
    pub(super) legacy: Option<LegacySession>,
}

/// A handshake that worked.
#[derive(Debug, Clone)]
pub(super) struct LegacySession {
    pub(super) revision: Revision,
    /// The session id, if the server gave one.
    pub(super) id: Option<String>,
}

/// What a probe's answer means.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    pub(super) fix: Option<&'static str>,
}

pub(super) const OK: Judgement = Judgement { verdict: Verdict::Ok, fix: None };

pub(super) const fn warn(fix: &'static str) -> Judgement {
    Judgement { verdict: Verdict::Warn, fix: Some(fix) }
}

pub(super) const fn bad(fix: &'static str) -> Judgement {
    Judgement { verdict: Verdict::Bad, fix: Some(fix) }
}

impl Patient {
    pub(super) fn new(target: Target) -> Self {
        Self { target, modern: false, legacy: None }
    }

    /// Whether there is any revision to ask in.
    pub(super) fn can_be_asked(&self) -> bool {
        self.modern || self.legacy.is_some()
    }

    /// A correct request in the newest era the server speaks.
    pub(super) fn request(&self, method: &str) -> Ask {
        match &self.legacy {
            Some(session) if !self.modern => session.request(method),
            _ => Ask::modern(method),
        }
    }

    /// Sends `ask` and judges the answer.
    pub(super) async fn probe(
        &self,
        check: &'static str,
        ask: &Ask,
        judge: impl Fn(&Seen) -> Judgement,
    ) -> Finding {
        match self.target.send(ask).await {
            Ok(seen) if seen.status >= 500 => finding(
                check,
                seen.describe(),
                bad("a request, however wrong, must not make the server fail; look at its log"),
            ),
            Ok(seen) => finding(check, seen.describe(), judge(&seen)),
            Err(error) => finding(
                check,
                format!("{error:#}"),
                bad("answer every request, and in time; look at the server's log"),
            ),
        }
    }
}

impl LegacySession {
    /// A correct request in this session.
    pub(super) fn request(&self, method: &str) -> Ask {
        self.carry(Ask::legacy(method))
    }

    /// The same request as part of this session.
    pub(super) fn carry(&self, ask: Ask) -> Ask {
        let ask = match &self.id {
            Some(id) => ask.with("mcp-session-id", id.clone()),
            None => ask,
        };
        if self.revision < Revision::V2025_06_18 {
            return ask;
        }
        ask.with("mcp-protocol-version", self.revision.as_str())
    }
}

/// A finding.
pub(super) fn finding(check: &'static str, seen: String, judgement: Judgement) -> Finding {
    Finding { check, seen, verdict: judgement.verdict, fix: judgement.fix }
}
