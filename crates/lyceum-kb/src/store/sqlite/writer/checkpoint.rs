//! Moving the log into the file, so that the log stays small.

use std::time::Duration;

use rusqlite::Connection;

use super::Condition;

/// Pages (of 4 KiB) that only the log has from which moving them is worth it: a page that changes often is moved once.
const SOME: i64 = 2048;

/// Pages from which the log must start again, even if readers are to be waited for. Without that, readers that
/// always overlap would let it grow for ever.
const MANY: i64 = 4096;

/// How long writers wait for readers then. Readers that begin meanwhile no longer need the log.
const PATIENCE: Duration = Duration::from_millis(200);

pub(super) fn after_commit(connection: &Connection, condition: &Condition) {
    match run(connection, "PRAGMA wal_checkpoint(NOOP)") {
        Ok((pages, _)) if pages >= MANY => restart(connection),
        Ok((pages, moved)) if pages - moved >= SOME => {
            run(connection, "PRAGMA wal_checkpoint(PASSIVE)").map(drop)
        }
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
    .unwrap_or_else(|error| condition.note(&error));
}

pub(super) fn before_close(connection: &Connection, condition: &Condition) {
    if condition.check_writable().is_ok() {
        restart(connection).unwrap_or_else(|error| condition.note(&error));
    }
}

fn restart(connection: &Connection) -> rusqlite::Result<()> {
    let patience: i64 = connection.pragma_query_value(None, "busy_timeout", |row| row.get(0))?;
    connection.busy_timeout(PATIENCE)?;
    let result = run(connection, "PRAGMA wal_checkpoint(TRUNCATE)").map(drop);
    connection.busy_timeout(Duration::from_millis(patience.unsigned_abs()))?;
    result
}

/// The pages in the log and how many of them the file has, too, after doing what `sql` says.
fn run(connection: &Connection, sql: &str) -> rusqlite::Result<(i64, i64)> {
    connection.prepare_cached(sql)?.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))
}
