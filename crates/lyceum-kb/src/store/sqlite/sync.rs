//! Keeping documents and vectors in step: what is missing, what is left over, and changing the active set.

use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Fault;
use super::vectors;
use super::writer::Batch;
use crate::Error;
use crate::store::SyncReport;

/// How many documents are looked at in one transaction, so that writers need not wait long.
const STEP: usize = 500;

/// How many documents a report names.
const NAMED: usize = 100;

/// Living documents from a key on, and whether they lack current vectors in a set.
const LOOK: &str = "SELECT document.key, vector.text_revision IS NOT document.text_revision \
                    AND document.vector_status <> 'skipped' AND outbox.document IS NULL \
                    FROM document \
                    LEFT JOIN vector ON vector.document = document.key AND vector.set_id = ?1 \
                    LEFT JOIN outbox ON outbox.document = document.key AND outbox.set_id = ?1 \
                    WHERE document.key > ?2 AND document.deleted_at IS NULL ORDER BY document.key LIMIT ?3";

const ADD: &str = "INSERT INTO outbox (set_id, document, queued_at, due, attempts) \
                   VALUES (?1, ?2, ?3, ?3, 0)";

const REVIVE: &str = "UPDATE outbox SET queued_at = ?2, due = ?2, attempts = 0, lease = NULL, dead = NULL \
                      WHERE set_id = ?1 AND dead IS NOT NULL RETURNING document";

const PENDING: &str = "UPDATE document SET vector_status = 'pending', vector_error = NULL WHERE key = ?1 \
                       AND ?2 = (SELECT id FROM vector_set WHERE state = 'active')";

/// Living documents without current vectors in a set.
macro_rules! without_vectors {
    () => {
        " FROM document LEFT JOIN vector ON vector.document = document.key AND vector.set_id = ?1 \
         WHERE document.deleted_at IS NULL AND document.vector_status <> 'skipped' \
         AND vector.text_revision IS NOT document.text_revision"
    };
}

/// Vectors that no living document owns.
macro_rules! orphans {
    () => {
        " FROM vector LEFT JOIN document ON document.key = vector.document AND document.deleted_at IS NULL \
         WHERE vector.n > 0 AND document.key IS NULL"
    };
}

/// The statements that make a set the only one. Documents' status follows the active set.
const ACTIVATE: [&str; 6] = [
    "UPDATE vector_set SET state = CASE id WHEN ?1 THEN 'active' ELSE 'dropped' END",
    "DELETE FROM outbox WHERE set_id <> ?1",
    "UPDATE document SET vector_status = 'pending', vector_error = NULL \
     WHERE key IN (SELECT document.key FROM document \
                   LEFT JOIN vector ON vector.document = document.key AND vector.set_id = ?1 \
                   WHERE document.deleted_at IS NULL AND document.vector_status IN ('ready', 'error') \
                   AND vector.text_revision IS NOT document.text_revision)",
    "UPDATE document SET vector_status = 'ready', vector_error = NULL \
     WHERE key IN (SELECT document.key FROM document \
                   JOIN vector ON vector.document = document.key AND vector.set_id = ?1 \
                   WHERE document.deleted_at IS NULL AND document.vector_status IN ('pending', 'error') \
                   AND vector.text_revision = document.text_revision)",
    "UPDATE document SET vector_status = 'error', vector_error = outbox.dead FROM outbox \
     WHERE outbox.document = document.key AND outbox.set_id = ?1 AND outbox.dead IS NOT NULL",
    // Documents that no set has heard of wait for `enqueue_missing`, as always.
    "INSERT INTO outbox (set_id, document, queued_at, due, attempts) \
     SELECT ?1, key, updated_at, 0, 0 FROM document WHERE deleted_at IS NULL AND vector_status = 'pending' \
     ON CONFLICT DO NOTHING",
];

/// A part of the work of finding documents without vectors.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) added: usize,
    /// Where to go on; `None` at the end.
    pub(super) next: Option<i64>,
}

/// Looks at some documents after `after` and enqueues those that lack vectors.
pub(super) fn enqueue_missing(
    batch: &Batch<'_>,
    set: i64,
    after: i64,
) -> std::result::Result<Step, Fault> {
    let connection = batch.connection;
    let mut look = connection.prepare_cached(LOOK)?;
    let found = look
        .query_map(params![set, after, STEP], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<Vec<(i64, bool)>>>()?;
    let mut added = 0;
    for (key, _) in found.iter().filter(|(_, missing)| *missing) {
        connection.prepare_cached(ADD)?.execute([set, *key, batch.now])?;
        connection.prepare_cached(PENDING)?.execute([*key, set])?;
        added += 1;
    }
    let next = if found.len() < STEP { None } else { found.last().map(|(key, _)| *key) };
    Ok(Step { added, next })
}

pub(super) fn retry_dead(batch: &Batch<'_>, set: i64) -> std::result::Result<usize, Fault> {
    let mut revive = batch.connection.prepare_cached(REVIVE)?;
    let keys = revive
        .query_map([set, batch.now], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<i64>>>()?;
    for key in &keys {
        batch.connection.prepare_cached(PENDING)?.execute([*key, set])?;
    }
    Ok(keys.len())
}

pub(super) fn activate(batch: &Batch<'_>, set: i64) -> std::result::Result<(), Fault> {
    let known: Option<i64> = batch
        .connection
        .prepare_cached("SELECT id FROM vector_set WHERE id = ?1 AND state <> 'dropped'")?
        .query_row([set], |row| row.get(0))
        .optional()?;
    if known.is_none() {
        return Err(Error::not_found(format!("no vector set {set}")).into());
    }
    for sql in ACTIVATE {
        batch.connection.prepare_cached(sql)?.execute([set])?;
    }
    Ok(())
}

/// Whether nothing waits for the set, and at most one document in twenty is without vectors in it.
pub(super) fn is_complete(connection: &Connection, set: i64) -> std::result::Result<bool, Fault> {
    let waiting: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM outbox WHERE set_id = ?1 AND dead IS NULL)")?
        .query_row([set], |row| row.get(0))?;
    if waiting {
        return Ok(false);
    }
    let missing: usize = connection
        .prepare_cached(concat!("SELECT count(*)", without_vectors!()))?
        .query_row([set], |row| row.get(0))?;
    Ok(missing * 20 <= super::integrity::count_documents(connection)?)
}

/// Deletes some vectors of dropped sets; whether there may be more.
pub(super) fn sweep(batch: &Batch<'_>) -> std::result::Result<bool, Fault> {
    let connection = batch.connection;
    let swept = connection
        .prepare_cached(
            "DELETE FROM vector WHERE seq IN (SELECT vector.seq FROM vector_set \
             JOIN vector ON vector.set_id = vector_set.id WHERE vector_set.state = 'dropped' LIMIT ?1)",
        )?
        .execute([STEP])?;
    if swept == STEP {
        return Ok(true);
    }
    connection.prepare_cached("DELETE FROM vector_set WHERE state = 'dropped'")?.execute([])?;
    Ok(false)
}

/// Whether a dropped set is still there.
pub(super) fn to_sweep(connection: &Connection) -> std::result::Result<bool, Fault> {
    let sql = "SELECT EXISTS (SELECT 1 FROM vector_set WHERE state = 'dropped')";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

pub(super) fn report(connection: &Connection) -> std::result::Result<SyncReport, Fault> {
    let set = vectors::active(connection)?.map_or(0, |set| set.id);
    let names =
        concat!("SELECT document.path", without_vectors!(), " ORDER BY document.path LIMIT ?2");
    let mut names = connection.prepare_cached(names)?;
    Ok(SyncReport {
        documents_without_vectors: names
            .query_map(params![set, NAMED], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?,
        n_documents_without_vectors: connection
            .prepare_cached(concat!("SELECT count(*)", without_vectors!()))?
            .query_row([set], |row| row.get(0))?,
        vectors_without_documents: connection
            .prepare_cached(concat!("SELECT count(*)", orphans!(), " AND vector.set_id = ?1"))?
            .query_row([set], |row| row.get(0))?,
    })
}

/// How many entries of vectors have no living document.
pub(super) fn count_orphans(connection: &Connection) -> std::result::Result<usize, Fault> {
    let sql = concat!("SELECT count(*)", orphans!());
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Removes some of them; how many.
pub(super) fn remove_orphans(batch: &Batch<'_>) -> std::result::Result<usize, Fault> {
    let sql = concat!("SELECT vector.document", orphans!(), " LIMIT ?1");
    let keys = batch
        .connection
        .prepare_cached(sql)?
        .query_map([STEP], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<i64>>>()?;
    for key in &keys {
        vectors::remove(batch.connection, *key)?;
    }
    Ok(keys.len())
}
