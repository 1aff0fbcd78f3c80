//! The processor time each caller takes, as a token bucket: a caller that has used up its share works on at low priority.
//!
//! Nothing is refused or delayed while processors are idle. When they are not, callers that ask for little go first. A
//! caller whose work took long at once counts as heavy for a while, which keeps it out of slots that others need.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use tokio::time::{Duration, Instant};

use crate::CallerId;

/// Processor time a caller may take at once at normal priority,
const BURST: Duration = Duration::from_millis(500);
/// and the part of each second that it gets back.
const REFILL: f64 = 0.05;
/// Processor time of one piece of work that makes its caller a heavy one,
const HEAVY_WORK: Duration = Duration::from_millis(20);
/// for so long.
const HEAVY_TIME: Duration = Duration::from_secs(10);
/// Callers that are remembered; beyond that, those with a full bucket are forgotten.
const MAX_CALLERS: usize = 1024;

/// The shares of all callers of this process.
pub(crate) static CPU_SHARES: LazyLock<CpuShares> = LazyLock::new(CpuShares::default);

#[derive(Debug, Default)]
pub(crate) struct CpuShares {
    buckets: Mutex<HashMap<CallerId, CpuBucket>>,
}

#[derive(Debug)]
struct CpuBucket {
    used: Duration,
    at: Instant,
    /// When its last heavy work ended.
    heavy_at: Option<Instant>,
}

impl CpuBucket {
    /// What is used now, after what was given back since.
    fn used(&self, now: Instant) -> Duration {
        self.used.saturating_sub(now.saturating_duration_since(self.at).mul_f64(REFILL))
    }

    fn is_heavy(&self, now: Instant) -> bool {
        self.heavy_at.is_some_and(|at| now.saturating_duration_since(at) < HEAVY_TIME)
    }
}

impl CpuShares {
    /// Whether the caller's work may hold a slot for long: it took long lately, or has low priority.
    pub(crate) fn is_heavy(&self, caller: &CallerId) -> bool {
        let now = Instant::now();
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.get(caller);
        bucket.is_some_and(|bucket| bucket.is_heavy(now) || bucket.used(now) > BURST)
    }

    /// Whether the caller's work should give way to that of others. The knowledge base's own never does.
    pub(crate) fn is_used_up(&self, caller: &CallerId) -> bool {
        let now = Instant::now();
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.get(caller).is_some_and(|bucket| bucket.used(now) > BURST)
    }

    /// Counts processor time that work for the caller took.
    pub(crate) fn charge(&self, caller: &CallerId, took: Duration) {
        if caller.is_internal() {
            return;
        }
        let now = Instant::now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_CALLERS && !buckets.contains_key(caller) {
            buckets.retain(|_, bucket| bucket.used(now) > Duration::ZERO || bucket.is_heavy(now));
            if buckets.len() >= MAX_CALLERS {
                return;
            }
        }
        let fresh = CpuBucket { used: Duration::ZERO, at: now, heavy_at: None };
        let bucket = buckets.entry(caller.clone()).or_insert(fresh);
        // Debt is bounded, so that a caller that stops is a normal one again after a while.
        bucket.used = (bucket.used(now) + took).min(2 * BURST);
        bucket.at = now;
        if took >= HEAVY_WORK {
            bucket.heavy_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, pause};

    use super::*;

    #[tokio::test]
    async fn a_used_up_share_comes_back_with_time() {
        pause();
        let (shares, busy) = (CpuShares::default(), CallerId::new("busy"));
        shares.charge(&busy, BURST);
        assert!(!shares.is_used_up(&busy), "the burst itself is allowed");
        shares.charge(&busy, Duration::from_millis(1));
        assert!(shares.is_used_up(&busy));
        assert!(!shares.is_used_up(&CallerId::new("other")));
        advance(Duration::from_secs(1)).await;
        assert!(!shares.is_used_up(&busy));
    }

    #[tokio::test]
    async fn long_work_makes_a_caller_heavy_for_a_while() {
        pause();
        let (shares, busy) = (CpuShares::default(), CallerId::new("busy"));
        shares.charge(&busy, HEAVY_WORK - Duration::from_millis(1));
        assert!(!shares.is_heavy(&busy));
        shares.charge(&busy, HEAVY_WORK);
        assert!(shares.is_heavy(&busy) && !shares.is_heavy(&CallerId::new("other")));
        advance(HEAVY_TIME).await;
        assert!(!shares.is_heavy(&busy));
    }

    #[tokio::test]
    async fn debt_is_bounded() {
        pause();
        let (shares, busy) = (CpuShares::default(), CallerId::new("busy"));
        shares.charge(&busy, 1000 * BURST);
        advance(BURST.div_f64(REFILL)).await;
        assert!(!shares.is_used_up(&busy));
    }

    #[tokio::test]
    async fn callers_without_debt_are_forgotten() {
        pause();
        let shares = CpuShares::default();
        for n in 0..3 * MAX_CALLERS {
            shares.charge(&CallerId::new(&n.to_string()), Duration::from_micros(1));
            advance(Duration::from_millis(1)).await;
        }
        assert!(shares.buckets.lock().unwrap().len() <= MAX_CALLERS);
        shares.charge(&CallerId::INTERNAL, 10 * BURST);
        assert!(!shares.is_used_up(&CallerId::INTERNAL));
    }
}
