//! [`Timers`]: timers for waits that hardly ever last as long as they may.
//!
//! Nearly every call ends long before its time is up. A timer that was set for it is kept for the next
//! one, and set again only when it rings too early for it: that costs a fraction of making, entering and
//! removing another.
//!
//! The spare ones of an endpoint, or of a client, are under one lock, which every wait takes twice: to
//! pop a timer, and to push it back.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::runtime::{Handle, Id};
use tokio::task::coop::{has_budget_remaining, unconstrained};
use tokio::time::{Duration, Instant, Sleep, sleep_until};

/// How many timers are kept. Each keeps the waker of whoever waited for it last, and with it that
/// task's memory, until it is used again or rings, which wakes that task once more, for nothing.
const MAX_SPARE: usize = 64;

/// Longer than anybody waits, and not so long that no time can be told.
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// The time so much later, as far as there is one.
pub(crate) fn later(time: Instant, by: Duration) -> Instant {
    time + by.min(FAR)
}

/// Timers nobody waits for.
#[derive(Debug, Default)]
pub(crate) struct Timers(Mutex<Vec<Set>>);

/// A timer, and the runtime in which it rings.
#[derive(Debug)]
struct Set {
    // Boxed, because timers lie on boundaries of 128 bytes, and so would every future around one,
    // which allocators find hard.
    sleep: Pin<Box<Sleep>>,
    runtime: Id,
}

impl Timers {
    /// Waits until `deadline`.
    pub(crate) fn wait(&self, deadline: Instant) -> Wait<'_> {
        let runtime = Handle::current().id();
        let spare = self.lock().pop();
        // Another's does not ring here. So far tokio gives no id twice, though it does not promise that.
        let set = match spare.filter(|spare| spare.runtime == runtime) {
            Some(mut spare) => {
                // One that rings too early is set again then, which most waits do not live to see.
                if spare.sleep.deadline() > deadline {
                    spare.sleep.as_mut().reset(deadline);
                }
                spare
            }
            None => Set { sleep: Box::pin(sleep_until(deadline)), runtime },
        };
        Wait { timers: self, deadline, set: Some(set) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Set>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Set {
    /// Whether it rings. Whoever never pauses leaves its task nothing to look at a timer with, and must
    /// be given up all the same.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match has_budget_remaining() {
            true => self.sleep.as_mut().poll(cx),
            false => pin!(unconstrained(self.sleep.as_mut())).poll(cx),
        }
    }
}

/// Ends when its timer rings.
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    timers: &'a Timers,
    deadline: Instant,
    /// `None` once it has rung.
    set: Option<Set>,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        if let Some(set) = &mut self.set {
            std::task::ready!(set.poll(cx));
            if set.sleep.deadline() < deadline {
                set.sleep.as_mut().reset(deadline);
                std::task::ready!(set.poll(cx));
            }
            self.set = None;
        }
        Poll::Ready(())
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let Some(set) = self.set.take() else { return };
        let mut spare = self.timers.lock();
        if spare.len() < MAX_SPARE {
            spare.push(set);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How long a wait of so many seconds took, given at most `limit` seconds.
    async fn wait(timers: &Timers, seconds: u32, limit: u32) -> Duration {
        let start = Instant::now();
        let _ = timeout(limit * SECOND, timers.wait(start + seconds * SECOND)).await;
        start.elapsed()
    }

    fn spare(timers: &Timers) -> usize {
        timers.lock().len()
    }

    #[tokio::test(start_paused = true)]
    async fn timers_ring_when_they_are_set_for_however_they_were_set_before() {
        let timers = Timers::default();
        for (seconds, limit, took) in [(10, 1, 1), (20, 90, 20), (60, 1, 1), (5, 90, 5), (9, 3, 3)]
        {
            assert_eq!(wait(&timers, seconds, limit).await.as_secs(), took, "{seconds} {limit}");
        }
        assert_eq!(spare(&timers), 1);
        // It rings with nobody waiting for it.
        tokio::time::sleep(30 * SECOND).await;
        assert_eq!(wait(&timers, 2, 90).await.as_secs(), 2);
        assert_eq!(spare(&timers), 0);
    }

    #[tokio::test]
    async fn only_so_many_are_kept() {
        let timers = Timers::default();
        let deadline = Instant::now() + SECOND;
        let waits: Vec<_> = (0..2 * MAX_SPARE).map(|_| timers.wait(deadline)).collect();
        drop(waits);
        assert_eq!(spare(&timers), MAX_SPARE);
    }

    #[test]
    fn timers_of_a_runtime_that_is_gone_are_not_used() {
        let timers = Timers::default();
        for _ in 0..2 {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let now = Instant::now();
                let _ = timeout(SECOND / 100, timers.wait(now + 60 * SECOND)).await;
                timers.wait(now + SECOND / 20).await;
                let _ = timeout(SECOND / 100, timers.wait(now + 60 * SECOND)).await;
            });
            assert_eq!(spare(&timers), 1);
        }
    }
}
