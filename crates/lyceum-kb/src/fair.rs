//! A fair semaphore: slots for expensive work, shared between callers.
//!
//! Waiting requests are granted to the caller that holds the fewest slots, then to the one that was served longest
//! ago, and first come, first served within a caller. While several callers are active, none of them gets the last
//! slot as well, and neither do all heavy callers together (`cpu_share.rs`): their work holds a slot for long, above all
//! at low priority, and small requests would wait behind it. A caller with too many waiting requests is refused, and a request that has held its slot for a
//! second is cancelled when others wait for it (load shedding by cost).

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::num::NonZero;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use lyceum_work::{run_bulk, thread_cpu_time};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{Duration, Instant, timeout};

use crate::cancel::{CancelFlag, CancelOnDrop, CancelReason, DEADLINE};
use crate::cpu_share::CPU_SHARES;
use crate::{CallerId, Error, Result};

/// Requests of one caller that may wait; more are refused.
const MAX_WAITING: usize = 128;
/// How long a request keeps its slot for certain.
const SLICE: Duration = Duration::from_secs(1);
/// How often a waiting request looks for one that has used up its slice.
const LOOK: Duration = Duration::from_millis(50);
/// How long a caller counts as active after its last request.
const ACTIVE: Duration = Duration::from_secs(60);

/// As many slots for work that takes a processor for a while as there are processors.
pub(crate) static COMPUTE: LazyLock<FairGate> =
    LazyLock::new(|| FairGate::new(available_parallelism().map_or(2, NonZero::get)));

/// Shares a fixed number of slots between callers. Clones share the slots.
#[derive(Debug, Clone)]
pub(crate) struct FairGate {
    slots: usize,
    queues: Arc<Mutex<Queues>>,
}

/// The right to run one piece of work; given back when dropped.
#[derive(Debug)]
pub struct WorkSlot {
    number: u64,
    /// Set when the work should stop.
    pub(crate) cancel: CancelFlag,
    caller: CallerId,
    /// `None` when there is nothing to give back.
    gate: Option<FairGate>,
}

#[derive(Debug, Default)]
struct Queues {
    callers: HashMap<CallerId, CallerQueue>,
    running: HashMap<u64, RunningWork>,
    /// Counts grants.
    granted: u64,
}

#[derive(Debug)]
struct CallerQueue {
    waiting: VecDeque<oneshot::Sender<WorkSlot>>,
    running: usize,
    /// The number of its last grant.
    served: u64,
    last_seen: Instant,
}

#[derive(Debug)]
struct RunningWork {
    caller: CallerId,
    /// Whether its caller was a heavy one when it began.
    is_heavy: bool,
    since: Instant,
    cancel: CancelFlag,
}

impl FairGate {
    pub(crate) fn new(slots: usize) -> FairGate {
        FairGate { slots: slots.max(1), queues: Arc::default() }
    }

    /// Waits for a slot. Cancel safe: a dropped future gives up its place.
    ///
    /// # Errors
    /// UNAVAILABLE when too many requests of this caller wait already.
    pub(crate) async fn acquire(&self, caller: &CallerId) -> Result<WorkSlot> {
        let mut granted = {
            let mut queues = self.lock();
            let queue = queues.enter(caller);
            if queue.waiting.len() >= MAX_WAITING && !caller.is_internal() {
                return Err(Error::unavailable(format!(
                    "{MAX_WAITING} of your requests are waiting already; send fewer at a time"
                )));
            }
            let (sender, granted) = oneshot::channel();
            queue.waiting.push_back(sender);
            self.grant(&mut queues);
            granted
        };
        loop {
            match timeout(LOOK, &mut granted).await {
                Ok(slot) => return slot.map_err(|_| Error::unavailable("the store is closing")),
                Err(_) => self.lock().shed(),
            }
        }
    }

    /// Waits for a slot and runs `work` in it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        caller: &CallerId,
        work: impl FnOnce(&CancelFlag) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.acquire(caller).await?.run(work).await
    }

    /// Gives free slots to waiting requests.
    fn grant(&self, queues: &mut Queues) {
        while queues.running.len() < self.slots {
            let Some(caller) = queues.next_caller(self.slots) else { return };
            let number = queues.granted + 1;
            let Some(queue) = queues.callers.get_mut(&caller) else { return };
            let Some(sender) = queue.waiting.pop_front() else { return };
            let cancel = CancelFlag::default();
            let slot = WorkSlot {
                number,
                cancel: cancel.clone(),
                caller: caller.clone(),
                gate: Some(self.clone()),
            };
            match sender.send(slot) {
                // The request was dropped. Its slot must not be given back while the queues are locked.
                Err(mut unwanted) => unwanted.gate = None,
                Ok(()) => {
                    queue.running += 1;
                    queue.served = number;
                    queues.granted = number;
                    let (since, is_heavy) = (Instant::now(), CPU_SHARES.is_heavy(&caller));
                    queues.running.insert(number, RunningWork { caller, is_heavy, since, cancel });
                }
            }
        }
    }

    fn release(&self, number: u64) {
        let mut queues = self.lock();
        if let Some(work) = queues.running.remove(&number)
            && let Some(queue) = queues.callers.get_mut(&work.caller)
        {
            queue.running -= 1;
        }
        self.grant(&mut queues);
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkSlot {
    /// Runs `work` on a blocking thread; it goes on when the returned future is dropped, and keeps the slot until then.
    pub async fn run_to_end<T: Send + 'static>(
        self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run(move |_| work()).await
    }

    /// Runs `work` on a blocking thread, of low priority if the caller has used up its share of the processor. It is
    /// told to stop when the returned future is dropped and, unless the caller is internal, when the deadline has
    /// passed. The slot is free when the work has ended.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce(&CancelFlag) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let abandoned = CancelOnDrop(self.cancel.clone());
        let has_deadline = !self.caller.is_internal();
        let is_bulk = CPU_SHARES.is_used_up(&self.caller);
        let metered = move || {
            self.cancel.check()?;
            let start = thread_cpu_time();
            let answer = work(&self.cancel);
            CPU_SHARES.charge(&self.caller, thread_cpu_time().saturating_sub(start));
            answer
        };
        let task = async {
            match is_bulk {
                true => run_bulk(metered).await,
                false => spawn_blocking(metered).await,
            }
        };
        let joined = match has_deadline {
            false => task.await,
            true => match timeout(DEADLINE, task).await {
                Ok(joined) => joined,
                Err(_) => {
                    abandoned.0.cancel(CancelReason::Deadline);
                    return Err(abandoned.0.error().expect("it was cancelled just now"));
                }
            },
        };
        match joined {
            Ok(answer) => answer,
            Err(error) if error.is_panic() => {
                Err(Error::internal("internal error while reading; see the server log"))
            }
            Err(_) => Err(Error::unavailable("the store is closing")),
        }
    }
}

impl Queues {
    /// The queue of a caller that is here now; forgets requests that were dropped and callers that went away.
    fn enter(&mut self, caller: &CallerId) -> &mut CallerQueue {
        let now = Instant::now();
        if !self.callers.contains_key(caller) {
            self.callers.retain(|_, queue| !queue.is_idle(now));
        }
        let queue = self.callers.entry(caller.clone()).or_insert_with(|| CallerQueue {
            waiting: VecDeque::new(),
            running: 0,
            served: 0,
            last_seen: now,
        });
        queue.last_seen = now;
        queue.waiting.retain(|sender| !sender.is_closed());
        queue
    }

    /// Whose request is granted next.
    fn next_caller(&self, slots: usize) -> Option<CallerId> {
        let share = if self.callers.len() > 1 { slots.saturating_sub(1).max(1) } else { slots };
        let n_heavy = self.running.values().filter(|work| work.is_heavy).count();
        let waiting = self.callers.iter().filter(|(caller, queue)| {
            !queue.waiting.is_empty()
                && queue.running < share
                && (n_heavy < share || !CPU_SHARES.is_heavy(caller))
        });
        let next = waiting.min_by_key(|(_, queue)| (queue.running, queue.served));
        next.map(|(caller, _)| caller.clone())
    }

    /// Cancels the request that has held its slot the longest, if that is longer than its slice.
    fn shed(&self) {
        let callers = || self.running.values().filter(|work| !work.caller.is_internal());
        if callers().any(|work| work.cancel.is_cancelled()) {
            return;
        }
        let oldest = callers().min_by_key(|work| work.since);
        if let Some(work) = oldest.filter(|work| work.since.elapsed() > SLICE) {
            work.cancel.cancel(CancelReason::Shed);
        }
    }
}

impl CallerQueue {
    fn is_idle(&self, now: Instant) -> bool {
        let waits = self.waiting.iter().any(|sender| !sender.is_closed());
        self.running == 0 && !waits && now.duration_since(self.last_seen) > ACTIVE
    }
}

impl Drop for WorkSlot {
    fn drop(&mut self) {
        if let Some(gate) = self.gate.take() {
            gate.release(self.number);
        }
    }
}
