//! Moving the log into the file, so that the log stays small.

use std::time::Duration;

use rusqlite::Connection;

use super::super::fault::{Reach, explain, reach};
use super::Condition;

/// Pages (of 4 KiB) in the log from which a checkpoint is worth it.
const SOME: i64 = 1024;

/// Pages from which the log must start again, even if readers are to be waited for. Without that, readers that
/// always overlap would let it grow for ever.
const MANY: i64 = 4096;

/// How long writers wait for readers then. Readers that begin meanwhile no longer need the log.
const PATIENCE: Duration = Duration::from_millis(200);

pub(super) fn after_commit(connection: &Connection, condition: &Condition) {
    match pages(connection, "PRAGMA wal_checkpoint(NOOP)") {
        Ok(pages) if pages < SOME => Ok(()),
        Ok(pages) if pages < MANY => run(connection, "PRAGMA wal_checkpoint(PASSIVE)"),
        Ok(_) => restart(connection),
        Err(error) => Err(error),
    }
    .unwrap_or_else(|error| note(&error, condition));
}

pub(super) fn before_close(connection: &Connection, condition: &Condition) {
    if condition.check_writable().is_ok() {
        restart(connection).unwrap_or_else(|error| note(&error, condition));
    }
}

fn restart(connection: &Connection) -> rusqlite::Result<()> {
    let patience: i64 = connection.pragma_query_value(None, "busy_timeout", |row| row.get(0))?;
    connection.busy_timeout(PATIENCE)?;
    let result = run(connection, "PRAGMA wal_checkpoint(TRUNCATE)");
    connection.busy_timeout(Duration::from_millis(patience.unsigned_abs()))?;
    result
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    pages(connection, sql).map(drop)
}

/// The pages in the log, after doing what `sql` says.
fn pages(connection: &Connection, sql: &str) -> rusqlite::Result<i64> {
    connection.prepare_cached(sql)?.query_row([], |row| row.get(1))
}

/// What is committed stays committed in the log, so only a failed fsync is more than a nuisance: the log may be
/// overwritten once the file is believed to be on disk.
fn note(error: &rusqlite::Error, condition: &Condition) {
    let reach = reach(error);
    if reach == Reach::Store || error.sqlite_error_code() != Some(rusqlite::ErrorCode::DatabaseBusy)
    {
        condition.failed(reach, &explain(error));
    }
}
