//! The worker that gives documents their vectors: outbox in, vectors out, whatever happens in between.
//!
//! The outbox row was committed with the write, so nothing is forgotten; a lease keeps two workers apart, and the
//! store's revision fence makes a late answer harmless. Several indexers may run, in one process or many.

mod batch;

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use tokio::runtime;
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant, interval_at, timeout};

use crate::embed::Embedder;
use crate::kb::Kb;
use crate::store::{DeadLetters, Job, Lease, VectorSet};
use crate::{Error, Result};

/// How often the outbox is looked at without being told, for writes of other processes and retries that fall due.
const POLL: Duration = Duration::from_millis(500);
/// How often documents that somehow lack vectors are looked for, unless the caller says otherwise.
const SWEEP: Duration = Duration::from_secs(15 * 60);
/// How long after a worker's last sign of life its documents are given to another.
const LEASE: Duration = Duration::from_secs(5);
/// How often a worker gives a sign of life.
const RENEW: Duration = Duration::from_secs(1);
/// What our leases begin with; the store makes each of them unique.
const WORKER: &str = "indexer";
/// Documents taken at a time.
const CLAIM: usize = 32;

/// How long stopping waits: for leases to be given back, and for what is being worked on.
const GIVING_BACK: Duration = Duration::from_secs(1);
const ENDING: Duration = Duration::from_secs(2);

/// The leases of what is being worked on, to be given back when the work is stopped: a lease that just ends counts as an
/// attempt that ended its worker.
#[derive(Debug, Default)]
struct HeldLeases(Mutex<Vec<Lease>>);

/// A running indexer. Dropping it stops it, and waits for what it is doing just then.
#[derive(Debug)]
pub struct Indexer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Indexer {
    /// Starts indexing what is waiting and everything written from now on.
    ///
    /// It has threads of its own, which leave the processor to calls.
    pub fn start(kb: Kb) -> Result<Indexer> {
        Indexer::start_sweeping(kb, SWEEP)
    }

    /// The same, and looks for documents that lack vectors every `sweep`.
    pub fn start_sweeping(kb: Kb, sweep: Duration) -> Result<Indexer> {
        let (stop, stopped) = oneshot::channel();
        let thread = start(kb, sweep, stopped)
            .map_err(|error| Error::unavailable(format!("cannot start the indexer: {error}")))?;
        Ok(Indexer { stop: Some(stop), thread: Some(thread) })
    }
}

impl HeldLeases {
    fn put(&self, leases: Vec<Lease>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = leases;
    }

    async fn release(&self, kb: &Kb) {
        let leases = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if !leases.is_empty() {
            // If it cannot be done, the leases end by themselves.
            let _ = timeout(GIVING_BACK, kb.store.release(leases)).await;
        }
    }
}

impl Drop for Indexer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the indexer ended with a panic");
        }
    }
}

/// Runs the indexer in a thread that has a runtime of its own, so that what the runtime does aside gives way, too.
fn start(kb: Kb, sweep: Duration, stopped: oneshot::Receiver<()>) -> io::Result<JoinHandle<()>> {
    let (begin, begun) = mpsc::channel();
    let thread = thread::Builder::new().name("kb-indexer".to_owned()).spawn(move || {
        lyceum_work::lower_priority();
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name("kb-indexer")
            .on_thread_start(lyceum_work::lower_priority)
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(begin.send(Err(error))),
        };
        let _ = begin.send(Ok(()));
        let held = HeldLeases::default();
        runtime.block_on(async {
            tokio::select! {
                () = run(&kb, &held, sweep) => {}
                _ = stopped => {}
            }
            held.release(&kb).await;
        });
        // Stopping does not wait for a document that takes long to cut up.
        runtime.shutdown_timeout(ENDING);
    })?;
    begun.recv().map_err(io::Error::other)?.map(|()| thread)
}

async fn run(kb: &Kb, held: &HeldLeases, period: Duration) {
    // Sets that have been looked through since we started.
    let mut swept = HashSet::new();
    let mut sweep = interval_at(Instant::now() + period, period);
    let mut last_failure: Option<Instant> = None;
    loop {
        let due = tokio::select! {
            biased;
            _ = sweep.tick() => true,
            _ = timeout(POLL, kb.wake.notified()) => false,
        };
        if let Err(error) = round(kb, held, &mut swept, due).await {
            // What failed is the store, and not the documents at hand.
            held.release(kb).await;
            // A store that is down fails every half second; once a minute is enough to know.
            if last_failure.is_none_or(|at| at.elapsed() > Duration::from_secs(60)) {
                tracing::warn!(%error, "the indexer cannot work; it keeps trying");
                last_failure = Some(Instant::now());
            }
        }
    }
}

/// Indexes until nothing is left, then lets searches see it.
async fn round(kb: &Kb, held: &HeldLeases, swept: &mut HashSet<i64>, sweep: bool) -> Result<()> {
    for embedder in kb.embedders.iter() {
        let Some(mut set) = set_to_fill(kb, embedder).await? else { continue };
        if sweep {
            kb.store.retry_dead(set.id, DeadLetters::Refused).await?;
        }
        if sweep || !swept.contains(&set.id) {
            kb.store.enqueue_missing(set.id).await?;
            swept.insert(set.id);
        }
        while fill(kb, held, embedder, &set).await? {
            kb.index.refresh(&*kb.store).await?;
            if set.dimensions.is_none() {
                set = kb.store.vector_set(embedder.fingerprint()).await?;
                set.dimensions.into_iter().for_each(|length| embedder.expect_length(length));
            }
        }
        if !set.active && kb.store.is_complete(set.id).await? {
            kb.store.activate_set(set.id).await?;
            tracing::info!(model = set.fingerprint.0, "searches use the new model's vectors now");
        }
    }
    kb.index.refresh(&*kb.store).await
}

/// The set `embedder` writes to: always for the configured model, for others only while searches use it.
async fn set_to_fill(kb: &Kb, embedder: &Arc<dyn Embedder>) -> Result<Option<VectorSet>> {
    let active = kb.store.active_set().await?;
    let active = active.filter(|set| set.fingerprint == *embedder.fingerprint());
    let configured = Arc::ptr_eq(embedder, &kb.embedders[0]);
    let set = match active {
        None if configured => Some(kb.store.vector_set(embedder.fingerprint()).await?),
        active => active,
    };
    // Another process may have stored the first vectors.
    let length = set.as_ref().and_then(|set| set.dimensions);
    length.into_iter().for_each(|length| embedder.expect_length(length));
    Ok(set)
}

/// Takes one lot of documents and embeds it; false when there was none.
async fn fill(
    kb: &Kb,
    held: &HeldLeases,
    embedder: &Arc<dyn Embedder>,
    set: &VectorSet,
) -> Result<bool> {
    let jobs = kb.store.claim(set.id, WORKER, CLAIM, LEASE).await?;
    if jobs.is_empty() {
        return Ok(false);
    }
    let leases: Vec<Lease> = jobs.iter().map(Job::leased).collect();
    held.put(leases.clone());
    tokio::select! {
        indexed = batch::index(kb, &**embedder, set.dimensions, jobs) => indexed?,
        () = keep(kb, leases) => {}
    }
    held.put(Vec::new());
    Ok(true)
}

/// Keeps jobs ours while they are worked on; never ends.
async fn keep(kb: &Kb, leases: Vec<Lease>) {
    let mut signs = interval_at(Instant::now() + RENEW, RENEW);
    loop {
        signs.tick().await;
        // A lease that could not be renewed may be lost, which the fence makes harmless.
        let _ = kb.store.renew(leases.clone(), LEASE).await;
    }
}

/// How long a document that failed `attempts` times waits, and whether it is given up.
fn retry_in(job: &Job) -> Option<Duration> {
    /// Seconds before each further attempt, about 20 minutes in all.
    const WAITS: [u64; 8] = [1, 2, 5, 15, 60, 120, 300, 600];
    let seconds = WAITS.get(job.attempts.saturating_sub(1) as usize)?;
    // Documents that failed together come back spread over half as long again.
    let jitter = job.document.meta.key.unsigned_abs().wrapping_mul(0x9e37_79b9) % (seconds * 500);
    Some(Duration::from_millis(seconds * 1000 + jitter))
}
