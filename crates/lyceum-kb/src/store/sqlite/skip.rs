//! Bringing documents in line with skip rules that have changed since they were written.

use rusqlite::{Connection, params};

use super::fault::Fault;
use super::writer::Batch;
use super::{outbox, vectors};
use crate::store::Skips;

/// How many documents are looked at in one transaction, so that writers need not wait long.
const STEP: usize = 500;

const LOOK: &str = "SELECT key, path, vector_status = 'skipped', body FROM document \
                    WHERE key > ?1 AND deleted_at IS NULL ORDER BY key LIMIT ?2";

const SKIPPED: &str =
    "UPDATE document SET vector_status = 'skipped', vector_error = NULL WHERE key = ?1";

const PENDING: &str = "UPDATE document SET vector_status = 'pending' WHERE key = ?1";

/// What came of some documents, and where to go on; `None` at the end.
pub(super) type Step = (Skips, Option<i64>);

/// A living document.
struct Looked {
    key: i64,
    path: String,
    skipped: bool,
    body: i64,
}

/// Looks at some documents after `after` and corrects those that the rules mean otherwise.
pub(super) fn apply(batch: &Batch<'_>, after: i64) -> std::result::Result<Step, Fault> {
    let connection = batch.connection;
    let found = look(connection, after)?;
    let mut skips = Skips::default();
    for document in &found {
        let skip = batch.policy.skips(&document.path);
        if skip && !document.skipped {
            vectors::remove(connection, document.key)?;
            outbox::remove(connection, document.key)?;
            connection.prepare_cached(SKIPPED)?.execute([document.key])?;
            skips.skipped += 1;
        } else if !skip && document.skipped && !is_blank(connection, document.body)? {
            connection.prepare_cached(PENDING)?.execute([document.key])?;
            outbox::enqueue(connection, document.key, batch.now)?;
            skips.queued += 1;
        }
        if batch.is_slice_used() {
            return Ok((skips, Some(document.key)));
        }
    }
    let more = found.len() == STEP;
    Ok((skips, found.last().filter(|_| more).map(|document| document.key)))
}

fn look(connection: &Connection, after: i64) -> std::result::Result<Vec<Looked>, Fault> {
    let mut statement = connection.prepare_cached(LOOK)?;
    let rows = statement.query_map(params![after, STEP], |row| {
        Ok(Looked { key: row.get(0)?, path: row.get(1)?, skipped: row.get(2)?, body: row.get(3)? })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Whether there is nothing to embed, whatever the rules.
fn is_blank(connection: &Connection, body: i64) -> std::result::Result<bool, Fault> {
    let mut statement = connection.prepare_cached("SELECT text FROM body WHERE key = ?1")?;
    Ok(statement.query_row([body], |row| Ok(row.get_ref(0)?.as_str()?.trim().is_empty()))?)
}
