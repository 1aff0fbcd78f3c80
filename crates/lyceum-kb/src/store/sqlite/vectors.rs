//! Vectors: sets of them, one per model, and what changed in a set.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::Fault;
use super::row::Seal;
use super::writer::Batch;
use crate::Error;
use crate::embed::Fingerprint;
use crate::store::{ChunkVector, JobHold, VectorChange, VectorSet};
use crate::vector::Quantized;

const PUT: &str = "INSERT OR REPLACE INTO vector (set_id, document, text_revision, n, seal, chunks) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// What has vectors gets an empty entry with a new `seq`, so that others see that they are gone.
const REMOVE: &str = "INSERT OR REPLACE INTO vector (set_id, document, text_revision, n, seal, chunks) \
                      SELECT set_id, document, text_revision, 0, 0, x'' FROM vector \
                      WHERE document = ?1 AND n > 0";

pub(super) const AFTER: &str = "SELECT seq, document, text_revision, n, seal, chunks FROM vector \
                     WHERE set_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";

pub(super) const READY: &str = "UPDATE document SET vector_status = 'ready', vector_error = NULL \
                     WHERE key = ?1 AND ?2 = (SELECT id FROM vector_set WHERE state = 'active')";

/// Bytes of vectors after which reading stops for now; a long document has some megabytes.
const READ_AT_ONCE: usize = 16 * 1024 * 1024;

/// The columns [`read_set`] reads.
macro_rules! set_columns {
    () => {
        "SELECT id, fingerprint, state, dimensions FROM vector_set "
    };
}

/// The vectors of one document as they are stored.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) bytes: Vec<u8>,
    n: usize,
    /// The length of each; `None` without any.
    dimensions: Option<usize>,
}

impl Encoded {
    /// Vectors of different lengths are an error.
    pub(super) fn of(chunks: &[ChunkVector]) -> crate::Result<Encoded> {
        let dimensions = chunks.first().map(|chunk| chunk.vector.values.len());
        if chunks.iter().any(|chunk| Some(chunk.vector.values.len()) != dimensions) {
            return Err(Error::invalid("the vectors of a document differ in length"));
        }
        Ok(Encoded { bytes: encode(chunks), n: chunks.len(), dimensions })
    }
}

/// The set of that model, made if need be.
pub(super) fn set(
    connection: &Connection,
    fingerprint: &Fingerprint,
) -> std::result::Result<VectorSet, Fault> {
    let found = connection
        .prepare_cached(concat!(set_columns!(), "WHERE fingerprint = ?1 AND state <> 'dropped'"))?
        .query_row([&fingerprint.0], read_set)
        .optional()?;
    if let Some(set) = found {
        let dimensions = match set.dimensions {
            None => settle_dimensions(connection, set.id)?,
            known => known,
        };
        return Ok(VectorSet { dimensions, ..set });
    }
    let state = if active(connection)?.is_some() { "building" } else { "active" };
    connection
        .prepare_cached("INSERT INTO vector_set (fingerprint, state) VALUES (?1, ?2)")?
        .execute(params![fingerprint.0, state])?;
    let (id, active) = (connection.last_insert_rowid(), state == "active");
    Ok(VectorSet { id, fingerprint: fingerprint.clone(), active, dimensions: None })
}

/// Finds out how long the vectors of an old set are: as most of the oldest. Others are removed, so that their documents
/// are embedded again.
fn settle_dimensions(
    connection: &Connection,
    set: i64,
) -> std::result::Result<Option<usize>, Fault> {
    // The length of the first vector follows two numbers of eight bytes; four bytes of it are the scale.
    const USUAL: &str = "SELECT substr(chunks, 17, 8) FROM (SELECT seq, chunks FROM vector \
                         WHERE set_id = ?1 AND n > 0 ORDER BY seq LIMIT 500) \
                         GROUP BY 1 ORDER BY count(*) DESC, min(seq) LIMIT 1";
    const OTHERS: &str =
        "DELETE FROM vector WHERE set_id = ?1 AND n > 0 AND substr(chunks, 17, 8) <> ?2";
    let usual: Option<Vec<u8>> =
        connection.prepare_cached(USUAL)?.query_row([set], |row| row.get(0)).optional()?;
    let Some(usual) = usual else { return Ok(None) };
    let Some(dimensions) = number(&mut &usual[..]).and_then(|length| length.checked_sub(4)) else {
        return Ok(None);
    };
    let removed = connection.prepare_cached(OTHERS)?.execute(params![set, usual])?;
    if removed > 0 {
        tracing::warn!(removed, dimensions, "vectors of another length are made again");
    }
    put_dimensions(connection, set, dimensions)?;
    Ok(Some(dimensions))
}

fn put_dimensions(
    connection: &Connection,
    set: i64,
    dimensions: usize,
) -> std::result::Result<(), Fault> {
    connection
        .prepare_cached("UPDATE vector_set SET dimensions = ?2 WHERE id = ?1")?
        .execute(params![set, dimensions])?;
    Ok(())
}

pub(super) fn active(connection: &Connection) -> std::result::Result<Option<VectorSet>, Fault> {
    Ok(connection
        .prepare_cached(concat!(set_columns!(), "WHERE state = 'active'"))?
        .query_row([], read_set)
        .optional()?)
}

fn read_set(row: &Row<'_>) -> rusqlite::Result<VectorSet> {
    let state: String = row.get(2)?;
    Ok(VectorSet {
        id: row.get(0)?,
        fingerprint: Fingerprint(row.get(1)?),
        active: state == "active",
        dimensions: row.get(3)?,
    })
}

/// Stores the vectors of a job if it still is what it was: same lease, same text, document alive.
pub(super) fn finish(
    batch: &Batch<'_>,
    job: &JobHold,
    made: &Encoded,
) -> std::result::Result<bool, Fault> {
    if !super::outbox::is_held(batch.connection, job)? {
        return Ok(false);
    }
    if let Some(dimensions) = made.dimensions {
        check_dimensions(batch.connection, job.set, dimensions)?;
    }
    let JobHold { set, key, text_revision, .. } = job;
    let seal = seal(*set, *key, *text_revision, &made.bytes);
    batch.connection.prepare_cached(PUT)?.execute(params![
        set,
        key,
        text_revision,
        made.n,
        seal,
        made.bytes
    ])?;
    super::outbox::done(batch.connection, job)?;
    batch.connection.prepare_cached(READY)?.execute([key, set])?;
    Ok(true)
}

/// The first vectors of a set decide how long all are.
fn check_dimensions(
    connection: &Connection,
    set: i64,
    dimensions: usize,
) -> std::result::Result<(), Fault> {
    let known: Option<usize> = connection
        .prepare_cached("SELECT dimensions FROM vector_set WHERE id = ?1")?
        .query_row([set], |row| row.get(0))?;
    match known {
        None => put_dimensions(connection, set, dimensions),
        Some(known) if known == dimensions => Ok(()),
        Some(known) => Err(Error::invalid(format!(
            "the vectors have {dimensions} dimensions, but those that are stored have {known}"
        ))
        .into()),
    }
}

/// Removes the vectors of a document from all sets.
pub(super) fn remove(connection: &Connection, key: i64) -> std::result::Result<(), Fault> {
    connection.prepare_cached(REMOVE)?.execute([key])?;
    Ok(())
}

/// The changes after a number, in order; fewer than `limit` when they are large, and none only at the end.
pub(super) fn after(
    connection: &Connection,
    set: i64,
    after: i64,
    limit: usize,
) -> std::result::Result<Vec<VectorChange>, Fault> {
    let mut statement = connection.prepare_cached(AFTER)?;
    let mut rows = statement.query(params![set, after, limit])?;
    let (mut changes, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        bytes += row.get_ref(5)?.as_blob().map_or(0, <[u8]>::len);
        changes.push(read_change(set, row)?);
        if bytes >= READ_AT_ONCE {
            break;
        }
    }
    Ok(changes)
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
