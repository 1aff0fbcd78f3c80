//! Runs CPU-heavy work on texts away from the async threads, as many jobs at a time as there are processors.
//!
//! Parsing, patching and comparing texts of some megabytes takes up to a second. On an async thread that second is taken
//! from every other call.

use std::sync::{Arc, LazyLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, Result};

static SLOTS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(n_slots())));

/// Permission to do heavy work. Take it before loading what the work is about, so that waiting costs no memory.
#[derive(Debug)]
pub struct HeavySlot {
    _permit: OwnedSemaphorePermit,
}

impl HeavySlot {
    /// Waits for a free slot, first come, first served. Cancel safe: a caller that goes away leaves the queue.
    pub async fn acquire() -> Result<HeavySlot> {
        let permit = Arc::clone(&SLOTS).acquire_owned().await;
        permit
            .map(|permit| HeavySlot { _permit: permit })
            .map_err(|_| Error::unavailable("the server is stopping"))
    }

    /// Runs `work` on a blocking thread. Work that has begun goes on and keeps its slot if the caller goes away.
    pub async fn run<T, F>(self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let running = tokio::task::spawn_blocking(move || {
            let answer = work();
            drop(self);
            answer
        });
        running.await.map_err(|_| Error::internal("internal error in work on a text; see the log"))
    }
}

fn n_slots() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Keeps all heavy work from starting until it is dropped.
#[cfg(test)]
pub(crate) async fn take_all_slots() -> OwnedSemaphorePermit {
    Arc::clone(&SLOTS).acquire_many_owned(n_slots() as u32).await.unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_whose_caller_is_gone_is_never_started() {
        let all = take_all_slots().await;
        let started = Arc::new(());
        let mark = Arc::clone(&started);
        let work = async move { HeavySlot::acquire().await.unwrap().run(move || drop(mark)).await };
        let waiting = tokio::spawn(work);
        tokio::task::yield_now().await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert_eq!(Arc::strong_count(&started), 1, "what the work holds is freed");
        drop(all);
        HeavySlot::acquire().await.unwrap().run(|| ()).await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_gives_the_slot_back() {
        for _ in 0..2 * n_slots() {
            let slot = HeavySlot::acquire().await.unwrap();
            let ran = slot.run(|| panic!("a test panics")).await;
            assert_eq!(ran.unwrap_err().code(), crate::Code::Internal);
        }
    }
}
