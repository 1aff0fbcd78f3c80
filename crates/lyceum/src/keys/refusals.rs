//! Refused callers, in the audit trail and in the metrics.
//!
//! Anyone can cause a refusal, so the trail is kept short: a burst is written in full, then one line
//! a second, and what was left out is told as a number.

use std::sync::Mutex;

use lyceum_kb::store::AuditEntry;
use lyceum_kb::{Actor, Kb};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant};

use super::Denied;

/// Lines that may be written at once, and that may wait to be.
const BURST: u32 = 60;
/// How long a new line takes to become allowed.
const REFILL: Duration = Duration::from_secs(1);
/// A request id or path with more characters than this is cut.
const LONGEST: usize = 256;

/// Takes note of refusals; never waits.
#[derive(Debug)]
pub(crate) struct Refusals {
    lines: mpsc::Sender<AuditEntry>,
    budget: Mutex<Budget>,
}

/// How many lines may still be written.
#[derive(Debug)]
struct Budget {
    left: u32,
    refilled: Instant,
    /// Refusals that got no line.
    omitted: u64,
}

impl Refusals {
    /// A recorder, and what its `write` takes.
    pub(crate) fn new() -> (Self, mpsc::Receiver<AuditEntry>) {
        let (lines, receiver) = mpsc::channel(BURST as usize);
        let budget = Budget { left: BURST, refilled: Instant::now(), omitted: 0 };
        (Self { lines, budget: Mutex::new(budget) }, receiver)
    }

    /// Notes that `door` refused `caller`, who is empty when unknown.
    pub(crate) fn record(&self, door: &str, caller: &str, denied: Denied, request_id: &str) {
        let labels = [("endpoint", door.to_owned()), ("reason", denied.code().to_lowercase())];
        metrics::counter!("lyceum_refused_total", &labels).increment(1);
        let actor = Actor {
            principal: caller.to_owned(),
            profile: door.to_owned(),
            tool: String::new(),
            request_id: request_id.chars().take(LONGEST).collect(),
        };
        self.note(actor, None, denied.code());
    }

    /// Notes that a call by `actor` was refused.
    pub(crate) fn note(&self, actor: Actor, document: Option<String>, outcome: &str) {
        let Some(omitted) = self.allowed() else { return };
        if omitted > 0 {
            let outcome = format!("REFUSED {omitted} MORE");
            self.send(AuditEntry { actor: Actor::default(), document: None, outcome });
        }
        let document = document.map(|document| document.chars().take(LONGEST).collect());
        self.send(AuditEntry { actor, document, outcome: outcome.to_owned() });
    }

    /// Whether a line may be written; if so, how many refusals got none since the last one.
    fn allowed(&self) -> Option<u64> {
        let mut budget = self.budget.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let refills = budget.refilled.elapsed().as_secs() / REFILL.as_secs();
        if refills > 0 {
            budget.left =
                budget.left.saturating_add(u32::try_from(refills).unwrap_or(BURST)).min(BURST);
            budget.refilled = Instant::now();
        }
        if budget.left == 0 {
            budget.omitted += 1;
            return None;
        }
        budget.left -= 1;
        Some(std::mem::take(&mut budget.omitted))
    }

    fn send(&self, entry: AuditEntry) {
        if self.lines.try_send(entry).is_err() {
            let mut budget = self.budget.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            budget.omitted += 1;
        }
    }

    /// Writes lines to the audit trail for ever.
    pub(crate) async fn write(mut lines: mpsc::Receiver<AuditEntry>, kb: Kb) {
        while let Some(entry) = lines.recv().await {
            if let Err(error) = kb.store().audit(entry).await {
                tracing::warn!("a refusal could not be written to the audit trail: {error}");
            }
        }
    }
}
