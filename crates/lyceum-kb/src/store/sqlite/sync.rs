//! Keeping documents and vectors in step: what is missing, what is left over, and changing the active set.

use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Fault;
use super::vectors;
use super::writer::Batch;
use crate::Error;
use crate::store::{DeadLetters, SyncReport};

/// How many documents are looked at in one transaction, so that writers need not wait long.
const STEP: usize = 500;

/// How many documents a report names.
const NAMED: usize = 100;

/// Living documents from a key on; whether they lack current vectors in a set, or have them without their status saying
/// so. Neither is known of documents on the outbox.
const LOOK: &str = "SELECT document.key, \
                    outbox.document IS NULL AND document.vector_status <> 'skipped' \
                    AND vector.text_revision IS NOT document.text_revision, \
                    outbox.document IS NULL AND document.vector_status IN ('pending', 'error') \
                    AND coalesce(vector.n, 0) > 0 \
                    AND vector.text_revision IS document.text_revision \
                    FROM document \
                    LEFT JOIN vector ON vector.document = document.key AND vector.set_id = ?1 \
                    LEFT JOIN outbox ON outbox.document = document.key AND outbox.set_id = ?1 \
                    WHERE document.key > ?2 AND document.deleted_at IS NULL ORDER BY document.key LIMIT ?3";

const ADD: &str = "INSERT INTO outbox (set_id, document, queued_at, due, attempts) \
                   VALUES (?1, ?2, ?3, ?3, 0)";

/// Dead letters of a set from a document on, all (?3) or only those that were not abandoned.
const DEAD: &str = "SELECT document FROM outbox WHERE set_id = ?1 AND document > ?2 AND dead IS NOT NULL \
                    AND (?3 OR abandoned = 0) ORDER BY document LIMIT ?4";

const REVIVE: &str = "UPDATE outbox SET queued_at = ?3, due = ?3, attempts = 0, abandoned = 0, lease = NULL, \
                      dead = NULL WHERE set_id = ?1 AND document = ?2";

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

/// The statements that bring a document in line with the active set.
const ALIGN: [&str; 4] = [
    "UPDATE document SET vector_status = 'pending', vector_error = NULL \
     WHERE key = ?2 AND deleted_at IS NULL AND vector_status IN ('ready', 'error') AND text_revision IS NOT \
     (SELECT vector.text_revision FROM vector WHERE vector.document = ?2 AND vector.set_id = ?1)",
    "UPDATE document SET vector_status = 'ready', vector_error = NULL \
     WHERE key = ?2 AND deleted_at IS NULL AND vector_status IN ('pending', 'error') AND text_revision = \
     (SELECT vector.text_revision FROM vector WHERE vector.document = ?2 AND vector.set_id = ?1)",
    "UPDATE document SET vector_status = 'error', vector_error = outbox.dead FROM outbox \
     WHERE document.key = ?2 AND outbox.document = ?2 AND outbox.set_id = ?1 AND outbox.dead IS NOT NULL",
    // Documents that no set has heard of wait for `enqueue_missing`, as always.
    "INSERT INTO outbox (set_id, document, queued_at, due, attempts) \
     SELECT ?1, key, updated_at, 0, 0 FROM document \
     WHERE key = ?2 AND deleted_at IS NULL AND vector_status = 'pending' ON CONFLICT DO NOTHING",
];

/// A part of a walk over documents.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) changed: usize,
    /// Where to go on; `None` at the end.
    pub(super) next: Option<i64>,
}

/// Does `work` for each of some keys, until this transaction has taken long enough; says where to go on.
fn in_slices(
    batch: &Batch<'_>,
    keys: &[i64],
    mut work: impl FnMut(i64) -> std::result::Result<(), Fault>,
) -> std::result::Result<Option<i64>, Fault> {
    for key in keys {
        work(*key)?;
        if batch.is_slice_used() {
            return Ok(Some(*key));
        }
    }
    Ok(if keys.len() < STEP { None } else { keys.last().copied() })
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
        .query_map(params![set, after, STEP], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<Vec<(i64, bool, bool)>>>()?;
    let keys: Vec<i64> = found.iter().map(|(key, ..)| *key).collect();
    let mut looked = found.iter();
    let mut changed = 0;
    let next = in_slices(batch, &keys, |key| {
        let (_, is_missing, is_there) = looked.next().copied().unwrap_or_default();
        if is_missing {
            connection.prepare_cached(ADD)?.execute([set, key, batch.now])?;
            connection.prepare_cached(PENDING)?.execute([key, set])?;
            changed += 1;
        } else if is_there {
            connection.prepare_cached(vectors::READY)?.execute([key, set])?;
        }
        Ok(())
    })?;
    Ok(Step { changed, next })
}

/// Gives some dead letters after `after` another chance.
pub(super) fn retry_dead(
    batch: &Batch<'_>,
    set: i64,
    which: DeadLetters,
    after: i64,
) -> std::result::Result<Step, Fault> {
    let keys = batch
        .connection
        .prepare_cached(DEAD)?
        .query_map(params![set, after, which == DeadLetters::All, STEP], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<i64>>>()?;
    let mut changed = 0;
    let next = in_slices(batch, &keys, |key| {
        batch.connection.prepare_cached(REVIVE)?.execute([set, key, batch.now])?;
        batch.connection.prepare_cached(PENDING)?.execute([key, set])?;
        changed += 1;
        Ok(())
    })?;
    Ok(Step { changed, next })
}

/// Makes a set the only one; documents are brought in line by [`align`].
pub(super) fn activate(batch: &Batch<'_>, set: i64) -> std::result::Result<(), Fault> {
    let known: Option<i64> = batch
        .connection
        .prepare_cached("SELECT id FROM vector_set WHERE id = ?1 AND state <> 'dropped'")?
        .query_row([set], |row| row.get(0))
        .optional()?;
    if known.is_none() {
        return Err(Error::not_found(format!("no vector set {set}")).into());
    }
    batch
        .connection
        .prepare_cached(
            "UPDATE vector_set SET state = CASE id WHEN ?1 THEN 'active' ELSE 'dropped' END",
        )?
        .execute([set])?;
    Ok(())
}

/// Takes some documents off the outbox of other sets; whether there may be more.
pub(super) fn clear_outbox(batch: &Batch<'_>, set: i64) -> std::result::Result<bool, Fault> {
    let sql = "DELETE FROM outbox WHERE (document, set_id) IN \
               (SELECT document, set_id FROM outbox WHERE set_id <> ?1 LIMIT ?2)";
    Ok(batch.connection.prepare_cached(sql)?.execute(params![set, STEP])? == STEP)
}

/// Brings some documents after `after` in line with the active set; says where to go on.
pub(super) fn align(
    batch: &Batch<'_>,
    set: i64,
    after: i64,
) -> std::result::Result<Option<i64>, Fault> {
    let keys = batch
        .connection
        .prepare_cached("SELECT key FROM document WHERE key > ?1 ORDER BY key LIMIT ?2")?
        .query_map(params![after, STEP], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<i64>>>()?;
    in_slices(batch, &keys, |key| {
        for sql in ALIGN {
            batch.connection.prepare_cached(sql)?.execute([set, key])?;
        }
        Ok(())
    })
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
    let found = connection
        .prepare_cached(
            "SELECT vector.seq FROM vector_set JOIN vector ON vector.set_id = vector_set.id \
             WHERE vector_set.state = 'dropped' LIMIT ?1",
        )?
        .query_map([STEP], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<i64>>>()?;
    let next = in_slices(batch, &found, |seq| {
        connection.prepare_cached("DELETE FROM vector WHERE seq = ?1")?.execute([seq])?;
        Ok(())
    })?;
    if next.is_some() {
        return Ok(true);
    }
    connection
        .prepare_cached("DELETE FROM outbox WHERE set_id IN (SELECT id FROM vector_set WHERE state = 'dropped')")?
        .execute([])?;
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
    let mut removed = 0;
    in_slices(batch, &keys, |key| {
        removed += 1;
        vectors::remove(batch.connection, key)
    })?;
    Ok(removed)
}
