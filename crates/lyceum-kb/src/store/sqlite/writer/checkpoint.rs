//! Moving the log into the file, so that the log stays small.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::time::{Duration, Instant};

use super::Condition;

/// Pages (of 4 KiB) that only the log has from which moving them is worth it.
const SOME: i64 = 1024;

/// Pages from which the log must start again, even if readers are to be waited for. Without that, readers that
/// always overlap would let it grow for ever.
const MANY: i64 = 4096;

/// How long writers wait for readers then. Readers that begin meanwhile no longer need the log.
const PATIENCE: Duration = Duration::from_millis(20);

/// How long writers do not wait again when a reader did not end in time.
const RELIEF: Duration = Duration::from_millis(250);

/// A thread that moves pages while the writer goes on.
pub(super) struct Mover {
    ask: SyncSender<()>,
    thread: JoinHandle<()>,
    /// The log is not started again before.
    not_before: Cell<Instant>,
}

impl Mover {
    pub(super) fn start(connection: Connection, condition: Arc<Condition>) -> io::Result<Mover> {
        // One request waits while another is worked on; more would ask for the same.
        let (ask, asked) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("kb-checkpoint".to_owned()).spawn(move || {
            for () in asked {
                run(&connection, "PRAGMA wal_checkpoint(PASSIVE)")
                    .map_or_else(|error| condition.note(&error), drop);
            }
        })?;
        Ok(Mover { ask, thread, not_before: Cell::new(Instant::now()) })
    }

    /// Keeps the log of the writer's connection small.
    pub(super) fn after_commit(&self, connection: &Connection, condition: &Condition) {
        match run(connection, "PRAGMA wal_checkpoint(NOOP)") {
            Ok((pages, _)) if pages >= MANY && self.not_before.get() <= Instant::now() => {
                match restart(connection, "PRAGMA wal_checkpoint(RESTART)") {
                    Ok(true) => {}
                    Ok(false) => self.not_before.set(Instant::now() + RELIEF),
                    Err(error) => condition.note(&error),
                }
            }
            Ok((pages, moved)) if pages - moved >= SOME => {
                // If it does not fit, it was asked already.
                let _ = self.ask.try_send(());
            }
            Ok(_) => {}
            Err(error) => condition.note(&error),
        }
    }

    /// Moves what is left, before the writer's connection is closed.
    pub(super) fn finish(self, connection: &Connection, condition: &Condition) {
        drop(self.ask);
        if self.thread.join().is_err() {
            tracing::error!("the thread that moves the log ended with a panic");
        }
        if condition.check_writable().is_ok() {
            restart(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
                .map_or_else(|error| condition.note(&error), drop);
        }
    }
}

/// Does what `sql` says, and waits for readers as long as [`PATIENCE`] allows; whether that was long enough.
fn restart(connection: &Connection, sql: &str) -> rusqlite::Result<bool> {
    let patience: i64 = connection.pragma_query_value(None, "busy_timeout", |row| row.get(0))?;
    connection.busy_timeout(PATIENCE)?;
    let busy: rusqlite::Result<bool> =
        connection.prepare_cached(sql).and_then(|mut sql| sql.query_row([], |row| row.get(0)));
    connection.busy_timeout(Duration::from_millis(patience.unsigned_abs()))?;
    busy.map(|busy| !busy)
}

/// The pages in the log and how many of them the file has, too, after doing what `sql` says.
fn run(connection: &Connection, sql: &str) -> rusqlite::Result<(i64, i64)> {
    connection.prepare_cached(sql)?.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))
}
