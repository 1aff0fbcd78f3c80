//! [`Backoff`]: how long to wait before connecting again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(30);
/// The same for what was answered, and refused.
const RARE: Duration = Duration::from_secs(240);

/// Waits that double, each off by up to a quarter so that many gateways do not knock at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    n: u32,
    longest: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { n: 0, longest: LONGEST }
    }
}

impl Backoff {
    /// For what an upstream refuses: it is there, and may think better of it.
    pub(crate) fn rare() -> Backoff {
        Backoff { n: 0, longest: RARE }
    }

    /// The next wait; `chance` is any random byte.
    pub(crate) fn next(&mut self, chance: u8) -> Duration {
        let wait = FIRST.saturating_mul(1 << self.n.min(10)).min(self.longest);
        self.n = self.n.saturating_add(1);
        wait.mul_f64(0.75 + 0.5 * f64::from(chance) / 255.0)
    }

    /// The connection was good for something.
    pub(crate) fn reset(&mut self) {
        self.n = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_vary() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..10).map(|_| backoff.next(128).as_millis()).collect();
        assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]), "{waits:?}");
        assert!((240..260).contains(&waits[0]) && waits[9] < 30_200, "{waits:?}");
        backoff.reset();
        assert!(backoff.next(0) < backoff.next(0));
        backoff.reset();
        assert_eq!(backoff.next(0), FIRST.mul_f64(0.75));
        backoff.reset();
        assert_eq!(backoff.next(255), FIRST.mul_f64(1.25));
    }
}
