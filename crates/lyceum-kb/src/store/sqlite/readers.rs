//! A few connections that read, shared by all callers.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::connection::open_reader;
use super::fault::Fault;
use crate::{Error, Result};

/// More would only wait for the processor.
const READERS: usize = 4;

#[derive(Debug)]
pub(super) struct Readers {
    free: Arc<Mutex<Vec<Connection>>>,
    turns: Arc<Semaphore>,
}

/// Gives the connection back, also when the work panics.
struct Borrowed {
    connection: Option<Connection>,
    free: Arc<Mutex<Vec<Connection>>>,
}

/// One state of the database; ends when dropped, also when the work panics.
struct Snapshot<'a> {
    connection: &'a Connection,
}

impl Readers {
    pub(super) fn open(path: &Path) -> Result<Readers> {
        let connections = (0..READERS).map(|_| open_reader(path)).collect::<Result<Vec<_>>>()?;
        Ok(Readers {
            turns: Arc::new(Semaphore::new(connections.len())),
            free: Arc::new(Mutex::new(connections)),
        })
    }

    /// Runs `work` on one state of the database, away from the async threads.
    pub(super) async fn run<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> std::result::Result<T, Fault> + Send + 'static,
    {
        let closing = || Error::unavailable("the store is closing");
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| closing())?;
        let free = Arc::clone(&self.free);
        let task = tokio::task::spawn_blocking(move || {
            let mut borrowed = Borrowed { connection: None, free };
            borrowed.connection = lock(&borrowed.free).pop();
            let connection =
                borrowed.connection.as_ref().expect("there are as many turns as connections");
            let answer = in_snapshot(connection, work);
            drop(borrowed);
            drop(turn);
            answer
        });
        match task.await {
            Ok(answer) => answer.map_err(Fault::into_error),
            Err(error) if error.is_panic() => {
                Err(Error::internal("reading failed by a defect; see the log"))
            }
            Err(_) => Err(closing()),
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            lock(&self.free).push(connection);
        }
    }
}

fn in_snapshot<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> std::result::Result<T, Fault>,
) -> std::result::Result<T, Fault> {
    connection.prepare_cached("BEGIN")?.execute([])?;
    let _snapshot = Snapshot { connection };
    work(connection)
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        let end = || self.connection.prepare_cached("COMMIT")?.execute([]);
        if let Err(error) = end() {
            tracing::error!(%error, "cannot end a snapshot");
        }
    }
}

fn lock(free: &Mutex<Vec<Connection>>) -> std::sync::MutexGuard<'_, Vec<Connection>> {
    free.lock().unwrap_or_else(PoisonError::into_inner)
}
