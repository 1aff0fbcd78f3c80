//! Wall-clock time of steps and deadlines of children.

use std::time::Duration;

#[expect(
    clippy::disallowed_types,
    reason = "there is no async runtime here, and nothing to pause"
)]
use std::time::Instant;

/// Started when made.
#[derive(Debug)]
#[expect(clippy::disallowed_types, reason = "see the import")]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_types, reason = "see the import")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Whether more than `limit` has gone by.
    pub(crate) fn is_past(&self, limit: Duration) -> bool {
        self.elapsed() > limit
    }
}

/// `7.3 s` or `12 min 04 s`, for people.
pub(crate) fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}
