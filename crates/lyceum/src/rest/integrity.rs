//! Reading and checking the whole store now and then, and what came of it, for `/health`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lyceum_kb::Kb;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::{Duration, sleep};

use super::health::State;

/// The most problems that are told.
const MAX_PROBLEMS: usize = 20;

/// How long after a check that did not find the store whole it is repeated.
const AGAIN: Duration = Duration::from_secs(600);

/// When everything is read and checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckTimes {
    /// After the start: not while the server is busy with that.
    pub(crate) first: Duration,
    /// After a check that found the store whole.
    pub(crate) every: Duration,
    /// After one that found damage, which may be repaired meanwhile, or could not be completed.
    pub(crate) again: Duration,
}

/// What the last full check found.
#[derive(Debug, Default)]
pub(crate) struct Integrity {
    findings: Mutex<Findings>,
}

#[derive(Debug, Default)]
struct Findings {
    checked: bool,
    problems: Vec<String>,
    /// Why the last check could not be completed.
    not_checked: Option<String>,
}

/// Whether stored data is whole.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct IntegrityAnswer {
    pub(super) status: State,
    /// Whether everything was read and checked since the start.
    checked: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    /// Why the last check could not be completed. That is no damage; it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

impl CheckTimes {
    pub(crate) fn new(first: Duration, every: Duration) -> Self {
        Self { first, every, again: every.min(AGAIN) }
    }
}

/// Checks the store for ever, now and then.
pub(crate) async fn check_integrity(kb: Kb, integrity: Arc<Integrity>, times: CheckTimes) {
    sleep(times.first).await;
    loop {
        let found = kb.store().check_integrity().await;
        sleep(integrity.take(found, &times)).await;
    }
}

impl Integrity {
    /// Remembers what a check found and tells the log what is new; says how long to wait for the next.
    fn take(&self, found: lyceum_kb::Result<Vec<String>>, times: &CheckTimes) -> Duration {
        let mut findings = self.findings();
        let mut problems = match found {
            Ok(problems) => problems,
            Err(error) => {
                tracing::warn!(%error, "the store could not be checked; it is tried again");
                findings.not_checked = Some(error.to_string());
                return times.again;
            }
        };
        problems.truncate(MAX_PROBLEMS);
        for problem in problems.iter().filter(|problem| !findings.problems.contains(problem)) {
            tracing::error!("the store is damaged: {problem}; restore a backup");
        }
        if problems.is_empty() && !findings.problems.is_empty() {
            tracing::info!("the store is whole again");
        }
        let wait = if problems.is_empty() { times.every } else { times.again };
        *findings = Findings { checked: true, problems, not_checked: None };
        wait
    }

    /// What a caller is told: everything, or just the state. Damage does not keep other documents from being read and
    /// written, so it is not for a load balancer to act on.
    pub(super) fn answer(&self, trusted: bool) -> IntegrityAnswer {
        let Findings { checked, problems, not_checked } = &*self.findings();
        let status = if problems.is_empty() { State::Ok } else { State::Degraded };
        let (problems, last_error) = match trusted {
            true => (problems.clone(), not_checked.clone()),
            false => (Vec::new(), None),
        };
        IntegrityAnswer { status, checked: *checked, problems, last_error }
    }

    fn findings(&self) -> MutexGuard<'_, Findings> {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use lyceum_kb::Error;

    use super::*;

    #[test]
    fn damage_stands_until_a_check_finds_none_and_a_check_that_failed_is_no_damage() {
        let (integrity, times) = (Integrity::default(), CheckTimes::new(AGAIN / 10, AGAIN * 100));
        let damaged = || Ok(vec!["text 1 is damaged".to_owned()]);
        let failed = || Err(Error::unavailable("the disk is busy"));
        // What a check says, how long to wait then, whether there is damage, whether it was ever checked.
        let rows = [
            (failed(), times.again, 0, false),
            (Ok(Vec::new()), times.every, 0, true),
            (damaged(), times.again, 1, true),
            (failed(), times.again, 1, true),
            (damaged(), times.again, 1, true),
            (Ok(Vec::new()), times.every, 0, true),
        ];
        for (found, wait, n_problems, checked) in rows {
            let said = format!("{found:?}");
            let failed = found.is_err();
            assert_eq!(integrity.take(found, &times), wait, "{said}");
            let told = integrity.answer(true);
            assert_eq!((told.problems.len(), told.checked), (n_problems, checked), "{said}");
            assert_eq!(told.last_error.is_some(), failed, "{said}");
            let status = if n_problems == 0 { State::Ok } else { State::Degraded };
            assert_eq!(told.status, status, "{said}");
            assert!(integrity.answer(false).problems.is_empty());
        }
    }
}
