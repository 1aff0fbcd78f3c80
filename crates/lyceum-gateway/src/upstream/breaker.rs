//! [`Breaker`]: stops asking an upstream that keeps failing, and lets one call try again later.

use std::time::Duration;

use tokio::time::Instant;

/// Failures in a row that open it.
const THRESHOLD: u32 = 3;
/// How long it stays open at first, and at most.
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(60);

/// Counts failures in a row. Time is given, never taken.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    failures: u32,
    /// How often it opened since the last success.
    openings: u32,
    open_until: Option<Instant>,
    /// One call may try, and nobody knows yet what became of it.
    is_tried: bool,
}

impl Breaker {
    /// Whether a call may be made; otherwise for how long not. When the time is up, one call may,
    /// and the others wait for what becomes of it.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        match self.open_until {
            Some(until) if now < until => Err(until - now),
            Some(_) => {
                self.open_until = Some(now + self.pause());
                self.is_tried = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Whether every call may be made, whatever the time.
    pub(crate) fn is_closed(&self) -> bool {
        self.open_until.is_none()
    }

    /// A call was answered, with whatever; whether that closes it.
    pub(crate) fn succeeded(&mut self) -> bool {
        std::mem::take(self).open_until.is_some()
    }

    /// A call was not answered; whether that opens it.
    pub(crate) fn failed(&mut self, now: Instant) -> bool {
        self.failures += 1;
        if self.failures < THRESHOLD {
            return false;
        }
        let opens = self.is_closed();
        // Calls that were under way when it opened say nothing new.
        if std::mem::take(&mut self.is_tried) || !self.is_open(now) {
            self.open_until = Some(now + self.pause());
            self.openings += 1;
        }
        opens
    }

    /// Whether calls are refused at the moment.
    pub(crate) fn is_open(&self, now: Instant) -> bool {
        self.open_until.is_some_and(|until| now < until)
    }

    fn pause(&self) -> Duration {
        FIRST.saturating_mul(1 << self.openings.min(6)).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_call_try() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        breaker.failed(start);
        breaker.failed(start);
        breaker.succeeded();
        breaker.failed(start);
        breaker.failed(start);
        assert_eq!(breaker.admit(start), Ok(()));
        breaker.failed(start);
        assert!(breaker.is_open(start));
        assert_eq!(breaker.admit(at(1)), Err(Duration::from_secs(1)));
        assert_eq!(breaker.admit(at(2)), Ok(()), "one may try");
        assert!(breaker.admit(at(2)).is_err(), "the others wait");
        breaker.failed(at(3));
        assert_eq!(breaker.admit(at(3)), Err(Duration::from_secs(4)), "each time longer");
        breaker.succeeded();
        assert_eq!(breaker.admit(at(3)), Ok(()));
    }

    #[test]
    fn the_pause_has_an_end() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..200 {
            breaker.failed(now);
        }
        assert_eq!(breaker.admit(now), Err(FIRST), "what fails together is one failure");
        let mut now = now;
        for _ in 0..10 {
            now += LONGEST;
            assert_eq!(breaker.admit(now), Ok(()));
            breaker.failed(now);
        }
        assert_eq!(breaker.admit(now), Err(LONGEST));
    }
}
