//! Refused callers, in the audit trail and in the metrics.

use lyceum_kb::store::AuditEntry;
use lyceum_kb::{Actor, Kb};
use tokio::sync::mpsc;

use super::{Budget, Denied};

/// Lines about callers that were not let in, which may be written at once.
const BURST: u32 = 60;
/// Lines about refused calls of those who were.
const CALLS: u32 = 600;
/// A request id or path with more characters than this is cut.
const LONGEST: usize = 256;

/// Takes note of refusals; never waits.
#[derive(Debug)]
pub(crate) struct Refusals {
    lines: mpsc::Sender<AuditEntry>,
    budget: Budget,
    calls: Budget,
}

impl Refusals {
    /// A recorder, and what its `write` takes.
    pub(crate) fn new() -> (Self, mpsc::Receiver<AuditEntry>) {
        let (lines, receiver) = mpsc::channel((BURST + CALLS) as usize);
        let (budget, calls) = (Budget::new(BURST), Budget::new(CALLS));
        (Self { lines, budget, calls }, receiver)
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
        let outcome = denied.code().to_owned();
        self.add(&self.budget, AuditEntry { actor, document: None, outcome });
    }

    /// Notes that a call by `actor` was refused.
    pub(crate) fn note(&self, actor: Actor, document: Option<String>, outcome: &str) {
        let document = document.map(|document| document.chars().take(LONGEST).collect());
        self.add(&self.calls, AuditEntry { actor, document, outcome: outcome.to_owned() });
    }

    /// Adds a line, or counts it when there were too many.
    fn add(&self, budget: &Budget, entry: AuditEntry) {
        let Some(omitted) = budget.allowed() else { return };
        let send = |entry| {
            if self.lines.try_send(entry).is_err() {
                budget.omit();
            }
        };
        if omitted > 0 {
            let outcome = Budget::summary(omitted);
            send(AuditEntry { actor: Actor::default(), document: None, outcome });
        }
        send(entry);
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
