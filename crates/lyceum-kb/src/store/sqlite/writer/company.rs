//! Waiting for company: whoever was answered just now is likely to write again in a moment.
//!
//! Without waiting, the first of them to come back starts a commit alone and the others miss it, so that writers fall
//! into groups that wait for each other's commits. Waiting pays as long as it is shorter than the commit it saves. A
//! writer that is alone never waits.

use tokio::time::{Duration, Instant};

/// The longest wait, so that a disk that hangs once does not make the next commit late, too.
const LONGEST: Duration = Duration::from_millis(10);

/// Who is expected, and until when.
#[derive(Debug)]
pub(super) struct Company {
    writers: usize,
    until: Instant,
}

impl Company {
    pub(super) fn none() -> Company {
        Company { writers: 0, until: Instant::now() }
    }

    /// After a commit that took so long and ends now: the writers it answers, and those that wait already.
    pub(super) fn after(writers: usize, commit: Duration, now: Instant) -> Company {
        Company { writers, until: now + (commit / 2).min(LONGEST) }
    }

    /// How much longer a commit with so many writes in it waits for more.
    pub(super) fn patience(&self, writes: usize, now: Instant) -> Option<Duration> {
        let expected = self.writers > 1 && writes < self.writers;
        let left = self.until.saturating_duration_since(now);
        (expected && !left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writers_that_may_come_back_in_time_are_waited_for() {
        let ms = Duration::from_millis;
        // Writers of the last commit and before this one, how long ago it ended, writes already there.
        let rows = [
            (8, 0, 0, Some(ms(1))),
            (8, 0, 7, Some(ms(1))),
            (2, 0, 1, Some(ms(1))),
            // All are there.
            (8, 0, 8, None),
            (8, 0, 9, None),
            // Whoever is not back by now is not likely to come.
            (8, 1, 0, None),
            (8, 5, 0, None),
            // Nobody else writes.
            (1, 0, 0, None),
            (0, 0, 0, None),
        ];
        for (writers, ago, writes, expected) in rows {
            let ended = Instant::now();
            let patience = Company::after(writers, ms(2), ended).patience(writes, ended + ms(ago));
            assert_eq!(patience, expected, "{writers} {ago} {writes}");
        }
    }

    #[test]
    fn a_disk_that_hangs_is_not_waited_for_twice() {
        let ended = Instant::now();
        let company = Company::after(8, Duration::from_secs(5), ended);
        assert_eq!(company.patience(1, ended), Some(LONGEST));
    }
}
