//! Thread priorities: work that takes a processor for a while gives way to small calls.
//!
//! The operating system's scheduler does the sharing. Bulk work runs on threads of lower priority, so it takes every
//! processor that is idle and none that a small call wants.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinError;

/// The niceness of upkeep such as indexing: where others want the processor, a thread gets about a tenth of their share.
const UPKEEP_NICENESS: i32 = 10;
/// The niceness of bulk work, of which many threads run at a time: each gets about a hundredth.
const BULK_NICENESS: i32 = 19;

/// Threads for bulk work; what comes while all are busy waits for one of them.
const BULK_THREADS: usize = 16;

/// Bytes of a message that are parsed on the thread that received them; a longer one is parsed as bulk work, because other
/// requests would wait for it.
pub const MAX_PARSED_INLINE: usize = 128 << 10;

/// A runtime for its blocking threads alone. `None` where the machine gives no more threads.
static BULK: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    let mut builder = Builder::new_current_thread();
    builder
        .thread_name("bulk-work")
        .max_blocking_threads(BULK_THREADS)
        .on_thread_start(|| set_niceness(BULK_NICENESS));
    builder
        .build()
        .inspect_err(|error| tracing::warn!(%error, "bulk work competes with small calls"))
        .ok()
});

/// Lowers the priority of this thread, which does upkeep, so that it gives way to calls.
pub fn lower_priority() {
    set_niceness(UPKEEP_NICENESS);
}

/// Only Linux has priorities of single threads; elsewhere they compete, which changes nothing but the speed.
fn set_niceness(niceness: i32) {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, niceness) {
        tracing::debug!(%error, "a thread keeps its priority");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = niceness;
}

/// Runs `work` on a thread of low priority. It goes on when the returned future is dropped.
///
/// # Errors
/// When `work` panics.
pub async fn run_bulk<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    match BULK.as_ref() {
        Some(runtime) => runtime.spawn_blocking(work).await,
        None => tokio::task::spawn_blocking(work).await,
    }
}

/// The processor time this thread has taken so far; zero where the system does not tell.
pub fn thread_cpu_time() -> Duration {
    #[cfg(not(unix))]
    return Duration::ZERO;
    #[cfg(unix)]
    unix_thread_cpu_time()
}

#[cfg(unix)]
fn unix_thread_cpu_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn bulk_work_has_lower_priority() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let before = niceness();
        assert_eq!(run_bulk(niceness).await.unwrap(), BULK_NICENESS);
        assert_eq!(niceness(), before, "the thread that waits keeps its priority");
    }

    #[tokio::test]
    async fn a_panic_ends_only_its_own_work() {
        let panicking: fn() = || panic!("on purpose");
        assert!(run_bulk(panicking).await.unwrap_err().is_panic());
        assert_eq!(run_bulk(|| 7).await.unwrap(), 7);
    }

    #[test]
    fn processor_time_grows_with_work_and_not_with_waiting() {
        let start = thread_cpu_time();
        std::thread::sleep(Duration::from_millis(20));
        let waited = thread_cpu_time();
        assert!(waited - start < Duration::from_millis(20));
        let mut n = 0_u64;
        while thread_cpu_time() == waited {
            n = std::hint::black_box(n + 1);
        }
    }
}
