//! How often and how soon a busy service is asked again.

use tokio::time::Duration;

/// Bounds on asking again.
#[derive(Debug, Clone)]
pub(super) struct Patience {
    /// Requests in all, the first included.
    pub(super) attempts: u32,
    /// The wait before the second request; doubled before each further one.
    pub(super) first: Duration,
    /// No single wait is longer, whatever the service asks for.
    pub(super) longest: Duration,
    /// No wait ends later than this after the first request.
    pub(super) total: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            attempts: 4,
            first: Duration::from_millis(500),
            longest: Duration::from_secs(20),
            total: Duration::from_secs(60),
        }
    }
}

impl Patience {
    /// How long to wait after `attempt` requests; `None` when it is for the indexer to come back.
    pub(super) fn wait(
        &self,
        attempt: u32,
        retry_after: Option<Duration>,
        elapsed: Duration,
    ) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        let own = self.first.saturating_mul(1 << attempt.saturating_sub(1).min(16));
        // Clients that failed together must not come back together: half as long again, at random.
        let wait = own.mul_f64(1.0 + jitter() / 2.0);
        let wait = match retry_after {
            // Asked to wait longer than we can: a slot held for nothing helps nobody.
            Some(asked) if asked > self.longest => return None,
            Some(asked) => wait.max(asked),
            None => wait.min(self.longest),
        };
        (elapsed + wait <= self.total).then_some(wait)
    }
}

/// At random, 0 to 1.
fn jitter() -> f64 {
    let [byte] = lyceum_http::random();
    f64::from(byte) / 255.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_grow_and_end() {
        let patience = Patience::default();
        for (attempt, least, most) in [(1, 500, 750), (2, 1000, 1500), (3, 2000, 3000)] {
            let wait = patience.wait(attempt, None, Duration::ZERO).unwrap().as_millis();
            assert!((least..=most).contains(&wait), "{attempt}: {wait}");
        }
        assert_eq!(patience.wait(4, None, Duration::ZERO), None);
        assert_eq!(patience.wait(u32::MAX, None, Duration::ZERO), None);
    }

    #[test]
    fn what_the_service_asks_for_is_honoured_within_bounds() {
        let patience = Patience::default();
        assert_eq!(patience.wait(1, Some(7 * SECOND), Duration::ZERO), Some(7 * SECOND));
        assert_eq!(patience.wait(1, Some(21 * SECOND), Duration::ZERO), None);
        assert_eq!(patience.wait(1, Some(7 * SECOND), 54 * SECOND), None);
        let wait = patience.wait(1, Some(Duration::ZERO), Duration::ZERO).unwrap();
        assert!(wait >= patience.first, "{wait:?}");
    }
}
