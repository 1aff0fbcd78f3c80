//! [`Retired`]: shared connections in whose place there is another one, until their calls have ended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Connection;

/// Connections that may be on their way out at once; beyond that the oldest one is cut short.
const MAX_RETIRED: usize = 4;
/// How long nobody must have used one: somebody may just have looked at it in order to call.
const QUIET: Duration = Duration::from_secs(1);

/// Connections that get no further calls, unless about tasks of theirs, and when they are closed
/// whatever they do.
#[derive(Debug, Default)]
pub(super) struct Retired(Mutex<Vec<(Arc<Connection>, Instant)>>);

impl Retired {
    /// Closes a connection when its calls have ended, or after `patience`.
    pub(super) fn add(&self, connection: Arc<Connection>, patience: Duration) {
        let mut retired = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        retired.push((connection, Instant::now() + patience));
    }

    /// The connection with this number.
    pub(super) fn numbered(&self, number: u64) -> Option<Arc<Connection>> {
        let retired = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connections = retired.iter().map(|(connection, _)| connection);
        connections.find(|connection| connection.number == number).cloned()
    }

    /// Whether calls are under way on any of them.
    pub(super) fn are_busy(&self) -> bool {
        let retired = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        retired.iter().any(|(connection, _)| connection.is_busy())
    }

    /// Closes what is done or late; everything `at_once`.
    pub(super) async fn sweep(&self, at_once: bool) {
        let over = self.take_over(at_once);
        let mut closing = tokio::task::JoinSet::new();
        for connection in over {
            closing.spawn(async move { connection.close().await });
        }
        closing.join_all().await;
    }

    fn take_over(&self, at_once: bool) -> Vec<Arc<Connection>> {
        let mut retired = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut n_kept = retired.len();
        let is_over = |(connection, until): &mut (Arc<Connection>, Instant)| {
            let is_over = at_once
                || n_kept > MAX_RETIRED
                || Instant::now() >= *until
                || connection.idle() >= QUIET;
            n_kept -= usize::from(is_over);
            is_over
        };
        retired.extract_if(.., is_over).map(|(connection, _)| connection).collect()
    }
}
