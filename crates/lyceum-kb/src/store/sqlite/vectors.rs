//! Vectors: sets of them, one per model, and what changed in a set.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::Fault;
use super::row::Seal;
use super::writer::Batch;
use crate::embed::Fingerprint;
use crate::store::{ChunkVector, Job, VectorChange, VectorSet};
use crate::vector::Quantized;

const PUT: &str = "INSERT OR REPLACE INTO vector (set_id, document, text_revision, n, seal, chunks) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// What has vectors gets an empty entry with a new `seq`, so that others see that they are gone.
const REMOVE: &str = "INSERT OR REPLACE INTO vector (set_id, document, text_revision, n, seal, chunks) \
                      SELECT set_id, document, text_revision, 0, 0, x'' FROM vector \
                      WHERE document = ?1 AND n > 0";

pub(super) const AFTER: &str = "SELECT seq, document, text_revision, n, seal, chunks FROM vector \
                     WHERE set_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";

const READY: &str = "UPDATE document SET vector_status = 'ready', vector_error = NULL \
                     WHERE key = ?1 AND ?2 = (SELECT id FROM vector_set WHERE state = 'active')";

/// The set of that model, made if need be.
pub(super) fn set(
    connection: &Connection,
    fingerprint: &Fingerprint,
) -> std::result::Result<VectorSet, Fault> {
    let found = connection
        .prepare_cached(
            "SELECT id, fingerprint, state FROM vector_set WHERE fingerprint = ?1 AND state <> 'dropped'",
        )?
        .query_row([&fingerprint.0], read_set)
        .optional()?;
    if let Some(set) = found {
        return Ok(set);
    }
    let state = if active(connection)?.is_some() { "building" } else { "active" };
    connection
        .prepare_cached("INSERT INTO vector_set (fingerprint, state) VALUES (?1, ?2)")?
        .execute(params![fingerprint.0, state])?;
    let id = connection.last_insert_rowid();
    Ok(VectorSet { id, fingerprint: fingerprint.clone(), active: state == "active" })
}

pub(super) fn active(connection: &Connection) -> std::result::Result<Option<VectorSet>, Fault> {
    Ok(connection
        .prepare_cached("SELECT id, fingerprint, state FROM vector_set WHERE state = 'active'")?
        .query_row([], read_set)
        .optional()?)
}

fn read_set(row: &Row<'_>) -> rusqlite::Result<VectorSet> {
    let state: String = row.get(2)?;
    Ok(VectorSet {
        id: row.get(0)?,
        fingerprint: Fingerprint(row.get(1)?),
        active: state == "active",
    })
}

/// Stores the vectors of a job if it still is what it was: same lease, same text, document alive.
pub(super) fn finish(
    batch: &Batch<'_>,
    job: &Job,
    chunks: &[u8],
    n: usize,
) -> std::result::Result<bool, Fault> {
    if !super::outbox::is_held(batch.connection, job)? {
        return Ok(false);
    }
    let (set, meta) = (job.set, &job.document.meta);
    let seal = seal(set, meta.key, meta.text_revision, chunks);
    batch.connection.prepare_cached(PUT)?.execute(params![
        set,
        meta.key,
        meta.text_revision,
        n,
        seal,
        chunks
    ])?;
    super::outbox::done(batch.connection, job)?;
    batch.connection.prepare_cached(READY)?.execute([meta.key, set])?;
    Ok(true)
}

/// Removes the vectors of a document from all sets.
pub(super) fn remove(connection: &Connection, key: i64) -> std::result::Result<(), Fault> {
    connection.prepare_cached(REMOVE)?.execute([key])?;
    Ok(())
}

pub(super) fn after(
    connection: &Connection,
    set: i64,
    after: i64,
    limit: usize,
) -> std::result::Result<Vec<VectorChange>, Fault> {
    let mut statement = connection.prepare_cached(AFTER)?;
    let rows = statement.query_map(params![set, after, limit], |row| read_change(set, row))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn read_change(set: i64, row: &Row<'_>) -> rusqlite::Result<VectorChange> {
    let (seq, key, text_revision): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let n: i64 = row.get(3)?;
    let seal_then: i64 = row.get(4)?;
    let bytes = row.get_ref(5)?.as_blob()?;
    let whole = n == 0 || seal(set, key, text_revision, bytes) == seal_then;
    let chunks = if whole { decode(bytes) } else { None };
    // A search without one document's vectors is better than none; the integrity check names the document.
    let chunks = chunks.unwrap_or_else(|| {
        tracing::error!(document.key = key, "damaged vectors are left out");
        Vec::new()
    });
    Ok(VectorChange { seq, key, text_revision, chunks })
}

pub(super) fn seal(set: i64, key: i64, text_revision: i64, chunks: &[u8]) -> i64 {
    Seal::default().number(set).number(key).number(text_revision).bytes(chunks).finish()
}

/// One after the other: start, end, length of the vector, vector; little-endian.
pub(super) fn encode(chunks: &[ChunkVector]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for ChunkVector { start, end, vector } in chunks {
        let vector = vector.to_bytes();
        for number in [*start, *end, vector.len()] {
            bytes.extend((number as u64).to_le_bytes());
        }
        bytes.extend(vector);
    }
    bytes
}

pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<ChunkVector>> {
    let mut chunks = Vec::new();
    while !bytes.is_empty() {
        let (start, end, length) = (number(&mut bytes)?, number(&mut bytes)?, number(&mut bytes)?);
        let (vector, rest) = bytes.split_at_checked(length)?;
        chunks.push(ChunkVector { start, end, vector: Quantized::from_bytes(vector)? });
        bytes = rest;
    }
    Some(chunks)
}

fn number(bytes: &mut &[u8]) -> Option<usize> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    usize::try_from(u64::from_le_bytes(*first)).ok()
}
