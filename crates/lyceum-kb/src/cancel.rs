//! Stopping work that runs on another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::time::Duration;

use crate::{Error, Result};

/// How long a caller's query, or one stage of its search, may run.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);

/// Tells work on a blocking thread to stop. Clones share the flag; checking it is one atomic load.
#[derive(Debug, Clone, Default)]
pub(crate) struct CancelFlag(Arc<AtomicU8>);

/// Why work was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum CancelReason {
    /// The caller hung up.
    Abandoned = 1,
    /// It ran for longer than [`DEADLINE`].
    Deadline = 2,
    /// It was slow, and others were waiting.
    Shed = 3,
}

/// Cancels the work with [`CancelReason::Abandoned`] when dropped: the caller's future is gone.
#[derive(Debug)]
pub(crate) struct CancelOnDrop(pub(crate) CancelFlag);

impl CancelFlag {
    /// Asks the work to stop; the first reason stands.
    pub(crate) fn cancel(&self, reason: CancelReason) {
        let _ = self.0.compare_exchange(0, reason as u8, Ordering::AcqRel, Ordering::Acquire);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Fails when the work should stop.
    pub(crate) fn check(&self) -> Result<()> {
        self.error().map_or(Ok(()), Err)
    }

    /// What the caller is told, if the work was stopped.
    pub(crate) fn error(&self) -> Option<Error> {
        let message = match self.0.load(Ordering::Acquire) {
            0 => return None,
            reason if reason == CancelReason::Deadline as u8 => format!(
                "the query took longer than {} s; use fewer or rarer words, or a narrower filter",
                DEADLINE.as_secs()
            ),
            reason if reason == CancelReason::Shed as u8 => {
                "the server is busy and this query is expensive; use fewer or rarer words, or try \
                 again later"
                    .to_owned()
            }
            _ => "the caller hung up".to_owned(),
        };
        Some(Error::unavailable(message))
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel(CancelReason::Abandoned);
    }
}
