//! What the writing thread tells about itself: how much it does, and whether documents can be written.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::{Duration, Instant};

use super::super::fault::{Reach, explain, reach};
use crate::{Error, Result};

/// After so long without a sign of life while jobs wait, the thread is blocked.
const BLOCKED: Duration = Duration::from_secs(5);

/// The least time between two attempts to find out whether writing works again.
const BETWEEN_PROBES: Duration = Duration::from_secs(2);

/// The state of the writing thread, shared with those who hand it work.
#[derive(Debug)]
pub(in super::super) struct Condition {
    /// Why no write is accepted until a restart.
    read_only: Mutex<Option<String>>,
    last_error: Mutex<Option<String>>,
    /// Why the last attempt to write failed; `None` once something has been written since.
    failing: Mutex<Option<String>>,
    probed: Mutex<Option<Instant>>,
    queued_bytes: AtomicUsize,
    writers: AtomicUsize,
    /// Jobs that are queued or being committed.
    waiting: AtomicUsize,
    /// When the thread gave its last sign of life, in milliseconds after `started`.
    beat: AtomicU64,
    started: Instant,
    commits: AtomicU64,
    jobs: AtomicU64,
}

impl Default for Condition {
    fn default() -> Condition {
        Condition {
            read_only: Mutex::default(),
            last_error: Mutex::default(),
            failing: Mutex::default(),
            probed: Mutex::default(),
            queued_bytes: AtomicUsize::new(0),
            writers: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            beat: AtomicU64::new(0),
            started: Instant::now(),
            commits: AtomicU64::new(0),
            jobs: AtomicU64::new(0),
        }
    }
}

impl Condition {
    /// Why writes are refused until a restart, if they are.
    pub(in super::super) fn read_only(&self) -> Option<String> {
        lock(&self.read_only).clone()
    }

    pub(in super::super) fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }

    /// Why documents cannot be written at present, if they cannot.
    pub(in super::super) fn unwritable(&self) -> Option<String> {
        let blocked = || {
            let silent = self.silent();
            (silent >= BLOCKED)
                .then(|| format!("writes have been waiting for {} seconds", silent.as_secs()))
        };
        self.read_only().or_else(|| lock(&self.failing).clone()).or_else(blocked)
    }

    /// Whether the last write failed and it is time to find out if the next one would.
    pub(in super::super) fn is_probe_due(&self) -> bool {
        if lock(&self.failing).is_none() || self.read_only().is_some() {
            return false;
        }
        let (mut probed, now) = (lock(&self.probed), Instant::now());
        let due = probed.is_none_or(|at| now.saturating_duration_since(at) >= BETWEEN_PROBES);
        if due {
            *probed = Some(now);
        }
        due
    }

    /// Commits so far, and the jobs in them.
    pub(in super::super) fn counts(&self) -> (u64, u64) {
        (self.commits.load(Ordering::Relaxed), self.jobs.load(Ordering::Relaxed))
    }

    /// The thread is alive and getting on.
    pub(super) fn beat(&self) {
        let since = self.started.elapsed().as_millis();
        self.beat.store(u64::try_from(since).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How long jobs have waited without a sign of life; nothing when none wait.
    fn silent(&self) -> Duration {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return Duration::ZERO;
        }
        let beat = Duration::from_millis(self.beat.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(beat)
    }

    /// Counts a job that waits; says how many bytes waited before.
    pub(super) fn enter(&self, bytes: usize, writes: usize) -> usize {
        // The first to wait starts the clock: until now there was nothing to do.
        if self.waiting.load(Ordering::Relaxed) == 0 {
            self.beat();
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.writers.fetch_add(writes, Ordering::Relaxed);
        self.queued_bytes.fetch_add(bytes, Ordering::Relaxed)
    }

    /// How many writes of documents are queued or being committed.
    pub(super) fn writers(&self) -> usize {
        self.writers.load(Ordering::Relaxed)
    }

    /// The counterpart of `enter`, for so many jobs.
    pub(super) fn leave(&self, jobs: usize, bytes: usize, writes: usize) {
        self.waiting.fetch_sub(jobs, Ordering::Relaxed);
        self.writers.fetch_sub(writes, Ordering::Relaxed);
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        match self.read_only() {
            None => Ok(()),
            Some(why) => Err(Error::unavailable(format!("the knowledge base is read-only: {why}"))),
        }
    }

    /// So many jobs are on disk.
    pub(super) fn committed(&self, jobs: usize) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.jobs.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    /// The disk took a change, so documents can be written.
    pub(super) fn changed(&self) {
        *lock(&self.failing) = None;
    }

    /// Remembers that tidying up failed. No write is lost by that, so only a failed fsync is more than a nuisance: the
    /// log may be overwritten once the file is believed to be on disk. That others use the file is none.
    pub(super) fn note(&self, error: &rusqlite::Error) {
        let reach = reach(error);
        let busy = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy);
        if reach == Reach::Store || !busy {
            self.failed(reach, &explain(error));
        }
    }

    /// Remembers a failure; one that reaches the store ends writing.
    pub(super) fn failed(&self, reach: Reach, error: &Error) {
        tracing::error!(error = error.message(), ?reach, "writing to the knowledge base failed");
        let text = Some(error.message().to_owned());
        if reach == Reach::Store {
            lock(&self.read_only)
                .get_or_insert_with(|| format!("{}; restart the server", error.message()));
        }
        lock(&self.failing).clone_from(&text);
        *lock(&self.last_error) = text;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_thread_is_blocked_only_while_something_waits() {
        let condition = Condition::default();
        tokio::time::advance(BLOCKED * 2).await;
        assert_eq!(condition.unwritable(), None, "nothing waits");
        condition.enter(1, 1);
        assert_eq!(condition.unwritable(), None, "it came just now");
        tokio::time::advance(BLOCKED).await;
        assert!(condition.unwritable().unwrap().contains("waiting for 5 seconds"));
        condition.beat();
        assert_eq!(condition.unwritable(), None, "it goes on");
        tokio::time::advance(BLOCKED).await;
        condition.leave(1, 1, 1);
        assert_eq!(condition.unwritable(), None, "it is done");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_write_counts_until_one_succeeds() {
        let condition = Condition::default();
        assert!(!condition.is_probe_due(), "nothing has failed");
        condition.failed(Reach::Batch, &Error::unavailable("the disk is full"));
        assert_eq!(condition.unwritable().as_deref(), Some("the disk is full"));
        assert!(condition.is_probe_due());
        assert!(!condition.is_probe_due(), "it was looked at just now");
        tokio::time::advance(BETWEEN_PROBES).await;
        assert!(condition.is_probe_due());
        condition.committed(1);
        assert!(condition.unwritable().is_some(), "a commit may have had nothing to write");
        condition.changed();
        assert_eq!(condition.unwritable(), None);
        assert_eq!(condition.last_error().as_deref(), Some("the disk is full"), "for the curious");
    }
}
