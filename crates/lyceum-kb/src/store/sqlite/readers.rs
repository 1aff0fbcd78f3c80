//! The connections that read, in lanes: searches cannot keep documents waiting, and nothing keeps keys waiting.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use super::connection::open_reader;
use super::fault::{Fault, explain};
use crate::cancel::CancelFlag;
use crate::fair::FairGate;
use crate::{CallerId, Result};

/// Connections that read documents, lists and history. More would only wait for the processor.
const READERS: usize = 3;
/// Connections that search.
const SEARCHERS: usize = 3;
/// Steps of SQLite's virtual machine between two looks at the cancel flag. FTS5 takes a few for each page it reads, so
/// that a query for a phrase stops within milliseconds as well.
const STEPS: i32 = 100;

/// The page cache of a connection for small reads; negative, so SQLite takes it for kB.
const SMALL_CACHE: i32 = -1024;

/// Reads on behalf of one caller. Cheap to clone; all clones share the connections.
#[derive(Debug, Clone)]
pub(super) struct Readers {
    lanes: Arc<ReaderLanes>,
    caller: CallerId,
}

/// Connections by what they are for, each with a queue of its own.
#[derive(Debug)]
struct ReaderLanes {
    documents: ReaderLane,
    searches: ReaderLane,
    /// Small reads that watch over the rest: health, what was written, what is active.
    status: ReaderLane,
    /// The API keys alone, so that a revocation takes effect whatever else runs.
    keys: ReaderLane,
}

#[derive(Debug)]
struct ReaderLane {
    free: Arc<Mutex<Vec<Connection>>>,
    gate: FairGate,
}

/// A connection in use; given back when dropped, also when the work panics.
struct BorrowedConnection {
    connection: Option<Connection>,
    free: Arc<Mutex<Vec<Connection>>>,
}

/// One state of the database that can be interrupted; ends when dropped, also when the work panics.
struct Snapshot<'a> {
    connection: &'a mut Connection,
}

impl Readers {
    pub(super) fn open(path: &Path) -> Result<Readers> {
        let lanes = ReaderLanes {
            documents: ReaderLane::open(path, READERS)?,
            searches: ReaderLane::open(path, SEARCHERS)?,
            status: ReaderLane::open_small(path)?,
            keys: ReaderLane::open_small(path)?,
        };
        Ok(Readers { lanes: Arc::new(lanes), caller: CallerId::INTERNAL })
    }

    pub(super) fn caller(&self) -> &CallerId {
        &self.caller
    }

    /// The same connections, for another caller.
    pub(super) fn on_behalf_of(&self, caller: CallerId) -> Readers {
        Readers { lanes: Arc::clone(&self.lanes), caller }
    }

    /// Whether no connection is searching.
    #[cfg(test)]
    pub(super) fn all_searchers_are_free(&self) -> bool {
        lock(&self.lanes.searches.free).len() == SEARCHERS
    }

    /// Runs `work` on one state of the database, away from the async threads.
    pub(super) async fn run<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> std::result::Result<T, Fault> + Send + 'static,
    {
        self.lanes.documents.run(&self.caller, |connection, _| work(connection)).await
    }

    /// Runs `work` that may take long, such as a scan of all documents, without a deadline.
    pub(super) async fn run_maintenance<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> std::result::Result<T, Fault> + Send + 'static,
    {
        self.lanes.documents.run(&CallerId::INTERNAL, |connection, _| work(connection)).await
    }

    /// Runs a search.
    pub(super) async fn run_search<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &CancelFlag) -> std::result::Result<T, Fault> + Send + 'static,
    {
        self.lanes.searches.run(&self.caller, work).await
    }

    /// Runs a small read that never waits behind documents and searches.
    pub(super) async fn run_priority<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> std::result::Result<T, Fault> + Send + 'static,
    {
        self.lanes.status.run(&CallerId::INTERNAL, |connection, _| work(connection)).await
    }

    /// Reads API keys, which wait for nothing else.
    pub(super) async fn run_keys<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> std::result::Result<T, Fault> + Send + 'static,
    {
        self.lanes.keys.run(&CallerId::INTERNAL, |connection, _| work(connection)).await
    }
}

impl ReaderLane {
    fn open(path: &Path, size: usize) -> Result<ReaderLane> {
        let connections = (0..size).map(|_| open_reader(path)).collect::<Result<Vec<_>>>()?;
        Ok(ReaderLane { free: Arc::new(Mutex::new(connections)), gate: FairGate::new(size) })
    }

    /// One connection with a small page cache.
    fn open_small(path: &Path) -> Result<ReaderLane> {
        let lane = ReaderLane::open(path, 1)?;
        let shrink =
            |connection: &Connection| connection.pragma_update(None, "cache_size", SMALL_CACHE);
        lock(&lane.free).iter().try_for_each(shrink).map_err(|error| explain(&error))?;
        Ok(lane)
    }

    async fn run<T, F>(&self, caller: &CallerId, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &CancelFlag) -> std::result::Result<T, Fault> + Send + 'static,
    {
        let free = Arc::clone(&self.free);
        let run = move |cancel: &CancelFlag| {
            let mut borrowed = BorrowedConnection { connection: None, free };
            borrowed.connection = lock(&borrowed.free).pop();
            let connection =
                borrowed.connection.as_mut().expect("there are as many slots as connections");
            in_snapshot(connection, cancel, work)
                .map_err(|fault| cancel.error().unwrap_or_else(|| fault.into_error()))
        };
        self.gate.run(caller, run).await
    }
}

impl Drop for BorrowedConnection {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            lock(&self.free).push(connection);
        }
    }
}

fn in_snapshot<T>(
    connection: &mut Connection,
    cancel: &CancelFlag,
    work: impl FnOnce(&Connection, &CancelFlag) -> std::result::Result<T, Fault>,
) -> std::result::Result<T, Fault> {
    connection.prepare_cached("BEGIN")?.execute([])?;
    let snapshot = Snapshot { connection };
    let flag = cancel.clone();
    snapshot.connection.progress_handler(STEPS, Some(move || flag.is_cancelled()))?;
    work(snapshot.connection, cancel)
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        let mut end = || {
            // The end of a snapshot is never interrupted.
            self.connection.progress_handler(STEPS, None::<fn() -> bool>)?;
            self.connection.prepare_cached("COMMIT")?.execute([])
        };
        if let Err(error) = end() {
            tracing::error!(%error, "cannot end a snapshot");
        }
    }
}

fn lock(free: &Mutex<Vec<Connection>>) -> MutexGuard<'_, Vec<Connection>> {
    free.lock().unwrap_or_else(PoisonError::into_inner)
}
