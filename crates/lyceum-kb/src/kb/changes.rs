//! What is written, by this process or by another that uses the same store.
//!
//! The history says what was written, so nothing is missed and nothing told twice; this process's own writes only wake
//! whoever reads it.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Duration, sleep, timeout};

use crate::DocPath;
use crate::store::Store;
use crate::write::Status;

/// How often the history is looked at without being told, for the writes of other processes.
const POLL: Duration = Duration::from_millis(500);
/// How long writes are gathered after the first: a document written ten times in between is told of once, and an
/// import does not flood anybody.
const GATHER: Duration = Duration::from_millis(100);
/// Writes read at a time.
const PAGE: usize = 1000;

/// A document that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Its place among all writes.
    pub seq: i64,
    pub path: DocPath,
    pub status: Status,
}

/// Follows the writes from some moment on.
pub struct Changes {
    store: Arc<dyn Store>,
    own: watch::Receiver<()>,
    seq: i64,
    /// Whether there may be more to read at once.
    more: bool,
}

impl Changes {
    pub(super) fn new(store: Arc<dyn Store>, own: watch::Receiver<()>, seq: i64) -> Changes {
        Changes { store, own, seq, more: false }
    }

    /// Waits for writes and tells of them, the oldest first. May be dropped and called again without missing any.
    pub async fn next(&mut self) -> Vec<Changed> {
        loop {
            if !self.more {
                // A closed channel means that nobody in this process can write any more; others may.
                match timeout(POLL, self.own.changed()).await {
                    Ok(Ok(())) => sleep(GATHER).await,
                    Ok(Err(_)) => sleep(POLL).await,
                    Err(_) => {}
                }
            }
            // A store that cannot be read now is asked again; the indexer warns of it.
            let changed = self.store.writes_after(self.seq, PAGE).await.unwrap_or_default();
            self.more = changed.len() == PAGE;
            if let Some(last) = changed.last() {
                self.seq = last.seq;
                return changed;
            }
        }
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").field("seq", &self.seq).finish_non_exhaustive()
    }
}
