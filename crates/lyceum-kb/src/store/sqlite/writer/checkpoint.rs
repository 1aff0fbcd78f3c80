//! Moving the log into the file, so that the log stays small.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;

use super::Condition;

/// Pages (of 4 KiB) that only the log has from which moving them is worth it.
const SOME: i64 = 1024;

/// Pages from which the log must start again, even if readers are to be waited for. Without that, readers that
/// always overlap would let it grow for ever.
const MANY: i64 = 4096;

/// How long writers wait for readers then. Readers that begin meanwhile no longer need the log.
const PATIENCE: Duration = Duration::from_millis(200);

/// A thread that moves pages while the writer goes on.
pub(super) struct Mover {
    ask: SyncSender<()>,
    thread: JoinHandle<()>,
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
        Ok(Mover { ask, thread })
    }

    /// Keeps the log of the writer's connection small.
    pub(super) fn after_commit(&self, connection: &Connection, condition: &Condition) {
        match run(connection, "PRAGMA wal_checkpoint(NOOP)") {
            Ok((pages, _)) if pages >= MANY => {
                restart(connection, "PRAGMA wal_checkpoint(RESTART)")
                    .unwrap_or_else(|error| condition.note(&error));
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
                .unwrap_or_else(|error| condition.note(&error));
        }
    }
}

/// Does what `sql` says, and waits for readers as long as [`PATIENCE`] allows.
fn restart(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    let patience: i64 = connection.pragma_query_value(None, "busy_timeout", |row| row.get(0))?;
    connection.busy_timeout(PATIENCE)?;
    let result = run(connection, sql).map(drop);
    connection.busy_timeout(Duration::from_millis(patience.unsigned_abs()))?;
    result
}

/// The pages in the log and how many of them the file has, too, after doing what `sql` says.
fn run(connection: &Connection, sql: &str) -> rusqlite::Result<(i64, i64)> {
    connection.prepare_cached(sql)?.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))
}
