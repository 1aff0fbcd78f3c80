//! The outbox: documents whose vectors are out of date, one entry per document and set however often it changes.
//!
//! An entry that is leased or waits for a retry is simply not due yet. A newer write takes the lease away, so that
//! what was made from the older text is not stored.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::{Connection, params};

use super::fault::Fault;
use super::writer::Batch;
use crate::document::Millis;
use crate::store::{Backlog, JobHold, Lease};

const ENQUEUE: &str = "INSERT INTO outbox (set_id, document, queued_at, due, attempts) \
                       SELECT id, ?1, ?2, ?2, 0 FROM vector_set WHERE state <> 'dropped' \
                       ON CONFLICT DO UPDATE SET due = ?2, attempts = 0, abandoned = 0, lease = NULL, dead = NULL, \
                       queued_at = CASE WHEN dead IS NULL THEN queued_at ELSE ?2 END";

pub(super) const DUE: &str = "SELECT document FROM outbox WHERE set_id = ?1 AND dead IS NULL AND due <= ?2 \
                   ORDER BY due LIMIT ?3";

/// Whether the last lease of a document ended without a word, how often it did so before, and how long its text is.
const CANDIDATE: &str = "SELECT outbox.lease IS NOT NULL, outbox.abandoned, \
                         coalesce(octet_length(body.text), 0) \
                         FROM outbox LEFT JOIN document ON document.key = outbox.document \
                         LEFT JOIN body ON body.key = document.body \
                         WHERE outbox.document = ?1 AND outbox.set_id = ?2";

const LEASE: &str = "UPDATE outbox SET attempts = attempts + 1, abandoned = abandoned + (lease IS NOT NULL), \
                     lease = ?3, due = ?4 WHERE document = ?1 AND set_id = ?2 RETURNING attempts";

const RELEASE: &str = "UPDATE outbox SET lease = NULL, due = ?4, attempts = max(attempts - 1, 0) \
                       WHERE document = ?1 AND set_id = ?2 AND lease = ?3";

const HELD: &str = "SELECT count(*) FROM outbox JOIN document ON document.key = outbox.document \
                    WHERE outbox.document = ?1 AND outbox.set_id = ?2 AND outbox.lease = ?3 \
                    AND document.text_revision = ?4 AND document.deleted_at IS NULL";

const RENEW: &str = "UPDATE outbox SET due = ?4 WHERE document = ?1 AND set_id = ?2 AND lease = ?3";

const RETRY: &str =
    "UPDATE outbox SET lease = NULL, abandoned = 0, due = ?3 WHERE document = ?1 AND set_id = ?2";

const BURY: &str =
    "UPDATE outbox SET lease = NULL, abandoned = 0, dead = ?3 WHERE document = ?1 AND set_id = ?2";

/// A dead letter that keeps its count, by which those are told apart whose worker never came back.
const ABANDON: &str = "UPDATE outbox SET lease = NULL, abandoned = abandoned + 1, dead = ?3 \
                       WHERE document = ?1 AND set_id = ?2";

const GIVEN_UP: &str = "UPDATE document SET vector_status = 'error', vector_error = ?2 \
                        WHERE key = ?1 AND ?3 = (SELECT id FROM vector_set WHERE state = 'active')";

const ENTRIES: &str = "SELECT count(*), min(queued_at) FROM outbox WHERE dead IS NULL";

/// Documents that wait although no set has them on its outbox: written before the set was made.
const UNHEARD: &str = "SELECT count(*), min(updated_at) FROM document WHERE vector_status = 'pending' \
                       AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.document = document.key)";

/// After so many leases in a row that ended without a word, a document is given up.
const MAX_ABANDONED: u32 = 3;

/// Bytes of texts that are leased together; a longer text is leased alone.
const LEASED_BYTES: usize = 8 * 1024 * 1024;

/// The longest reason that is kept.
const MAX_REASON: usize = 1000;

/// A document that was leased just now.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) key: i64,
    pub(super) attempts: u32,
    pub(super) token: String,
}

/// Puts a document whose text changed on the outbox of every set.
pub(super) fn enqueue(
    connection: &Connection,
    key: i64,
    now: Millis,
) -> std::result::Result<(), Fault> {
    connection.prepare_cached(ENQUEUE)?.execute([key, now])?;
    Ok(())
}

pub(super) fn remove(connection: &Connection, key: i64) -> std::result::Result<(), Fault> {
    connection.prepare_cached("DELETE FROM outbox WHERE document = ?1")?.execute([key])?;
    Ok(())
}

/// The documents that are due, oldest first.
pub(super) fn due(
    connection: &Connection,
    set: i64,
    now: Millis,
    limit: usize,
) -> std::result::Result<Vec<i64>, Fault> {
    let mut statement = connection.prepare_cached(DUE)?;
    let rows = statement.query_map(params![set, now, limit], |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// What is known of a document before it is leased.
struct Candidate {
    is_abandoned: bool,
    abandoned: u32,
    bytes: usize,
}

/// Leases documents that are due; one whose last lease ended without a word is leased alone.
pub(super) fn claim(
    batch: &Batch<'_>,
    set: i64,
    worker: &str,
    limit: usize,
    lease: Duration,
) -> std::result::Result<Vec<Claim>, Fault> {
    let until = batch.now.saturating_add(millis(lease));
    let mut statement = batch.connection.prepare_cached(LEASE)?;
    let (mut claims, mut bytes) = (Vec::new(), 0);
    for key in due(batch.connection, set, batch.now, limit)? {
        let candidate = candidate(batch.connection, set, key)?;
        if candidate.is_abandoned && candidate.abandoned + 1 >= MAX_ABANDONED {
            abandon(batch.connection, set, key)?;
            continue;
        }
        bytes += candidate.bytes;
        let alone = candidate.is_abandoned || bytes > LEASED_BYTES;
        if alone && !claims.is_empty() {
            break;
        }
        let token = token(worker);
        let attempts = statement.query_row(params![key, set, token, until], |row| row.get(0))?;
        claims.push(Claim { key, attempts, token });
        if alone {
            break;
        }
    }
    Ok(claims)
}

fn candidate(connection: &Connection, set: i64, key: i64) -> std::result::Result<Candidate, Fault> {
    let mut statement = connection.prepare_cached(CANDIDATE)?;
    Ok(statement.query_row([key, set], |row| {
        Ok(Candidate { is_abandoned: row.get(0)?, abandoned: row.get(1)?, bytes: row.get(2)? })
    })?)
}

/// Gives up a document that ended its worker again and again.
fn abandon(connection: &Connection, set: i64, key: i64) -> std::result::Result<(), Fault> {
    let reason = format!(
        "the indexer ended {MAX_ABANDONED} times while it worked on this document; change the document, or run \
         lyceum reindex to try again"
    );
    tracing::warn!(document.key = key, "{reason}");
    connection.prepare_cached(ABANDON)?.execute(params![key, set, reason])?;
    connection.prepare_cached(GIVEN_UP)?.execute(params![key, reason, set])?;
    Ok(())
}

/// Ends leases as if they had not been.
pub(super) fn release(batch: &Batch<'_>, leases: &[Lease]) -> std::result::Result<(), Fault> {
    let mut statement = batch.connection.prepare_cached(RELEASE)?;
    for Lease { set, key, token } in leases {
        statement.execute(params![key, set, token, batch.now])?;
    }
    Ok(())
}

/// Moves the end of leases that are still held.
pub(super) fn renew(
    batch: &Batch<'_>,
    leases: &[Lease],
    lease: Duration,
) -> std::result::Result<(), Fault> {
    let until = batch.now.saturating_add(millis(lease));
    let mut statement = batch.connection.prepare_cached(RENEW)?;
    for Lease { set, key, token } in leases {
        statement.execute(params![key, set, token, until])?;
    }
    Ok(())
}

/// A lease no other claim has: process, count and time together do not repeat.
fn token(worker: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{worker}/{}/{}/{count}", std::process::id(), super::now())
}

/// Whether the job is still to be done by whoever holds it.
pub(super) fn is_held(connection: &Connection, job: &JobHold) -> std::result::Result<bool, Fault> {
    let JobHold { set, key, text_revision, token } = job;
    let held: i64 = connection
        .prepare_cached(HELD)?
        .query_row(params![key, set, token, text_revision], |row| row.get(0))?;
    Ok(held > 0)
}

pub(super) fn done(connection: &Connection, job: &JobHold) -> std::result::Result<(), Fault> {
    connection
        .prepare_cached("DELETE FROM outbox WHERE document = ?1 AND set_id = ?2")?
        .execute([job.key, job.set])?;
    Ok(())
}

/// Gives a job back; one that is no longer ours is left alone.
pub(super) fn fail(
    batch: &Batch<'_>,
    job: &JobHold,
    reason: &str,
    retry_in: Option<Duration>,
) -> std::result::Result<(), Fault> {
    let (connection, key) = (batch.connection, job.key);
    if !is_held(connection, job)? {
        return Ok(());
    }
    if let Some(wait) = retry_in {
        let due = batch.now.saturating_add(millis(wait));
        connection.prepare_cached(RETRY)?.execute([key, job.set, due])?;
        return Ok(());
    }
    let reason: String = reason.chars().take(MAX_REASON).collect();
    connection.prepare_cached(BURY)?.execute(params![key, job.set, reason])?;
    connection.prepare_cached(GIVEN_UP)?.execute(params![key, reason, job.set])?;
    Ok(())
}

/// Entries that wait, and documents that wait for a set to be made or filled.
pub(super) fn backlog(connection: &Connection, now: Millis) -> std::result::Result<Backlog, Fault> {
    let ask =
        |sql| connection.prepare_cached(sql)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)));
    let (entries, oldest_entry): (usize, Option<Millis>) = ask(ENTRIES)?;
    let (documents, oldest_document): (usize, Option<Millis>) = ask(UNHEARD)?;
    let dead = connection
        .prepare_cached("SELECT count(*) FROM outbox WHERE dead IS NOT NULL")?
        .query_row([], |row| row.get(0))?;
    let oldest = oldest_entry.into_iter().chain(oldest_document).min().unwrap_or(now);
    Ok(Backlog {
        waiting: entries + documents,
        dead,
        oldest: Duration::from_millis((now - oldest).max(0).unsigned_abs()),
    })
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
