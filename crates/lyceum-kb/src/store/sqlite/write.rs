//! Applying a write: the document, its revision, tags, words, outbox, audit line and kept answer, in one transaction.
//!
//! What the write means is [`crate::decide`]'s business.

use rusqlite::{Connection, params};

use super::documents::{self, StoredRevision};
use super::fault::Fault;
use super::lexical::Words;
use super::prepare::{Outcome, Prepared, is_small};
use super::row::{StoredDocument, body_seal};
use super::writer::Batch;
use super::{audit, idempotency, outbox, vectors};
use crate::document::{Document, VectorStatus};
use crate::store::AuditEntry;
use crate::write::{Change, Next, Status, Write, Written, check_state, decide_patched};
use crate::{Result, patch};

const INSERT: &str = "INSERT INTO document (path, title, tags, source, metadata, mime, revision, \
                      text_revision, body, created_at, updated_at, deleted_at, seal, vector_status, \
                      vector_error, key) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";

const UPDATE: &str = "UPDATE document SET path = ?1, title = ?2, tags = ?3, source = ?4, metadata = ?5, \
                      mime = ?6, revision = ?7, text_revision = ?8, body = ?9, created_at = ?10, \
                      updated_at = ?11, deleted_at = ?12, seal = ?13, vector_status = ?14, \
                      vector_error = ?15 WHERE key = ?16";

const REMEMBER: &str = "INSERT INTO revision (document, revision, at, author, action, title, tags, source, \
                        metadata, mime, text_revision, body, length, created_at, deleted_at, seal) \
                        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";

/// A document together with its row.
struct Current {
    row: StoredDocument,
    document: Document,
}

/// Applies a write, audit line included, or finds why not. A refusal leaves no line here: anyone can
/// cause refusals, so callers write them down within a budget.
pub(super) fn write(
    batch: &mut Batch<'_>,
    write: &Write,
    prepared: Prepared,
) -> std::result::Result<Outcome, Fault> {
    // A refusal comes before the first change, so there is nothing to undo but to say so.
    let written = match attempt(batch, write, prepared) {
        Ok(Some(written)) => written,
        Ok(None) => return Ok(Outcome::Unprepared),
        Err(Fault::Refused(error)) => return Ok(Outcome::Answered(Err(error))),
        Err(fault) => return Err(fault),
    };
    let entry = AuditEntry {
        actor: write.by.clone(),
        document: Some(write.path.as_str().to_owned()),
        outcome: "ok".to_owned(),
    };
    audit::insert(batch.connection, batch.now, &entry)?;
    Ok(Outcome::Answered(Ok(written)))
}

/// Answers `None` if the document is not the one that was prepared for.
fn attempt(
    batch: &mut Batch<'_>,
    write: &Write,
    prepared: Prepared,
) -> std::result::Result<Option<Written>, Fault> {
    let connection = batch.connection;
    let since = batch.now.saturating_sub_unsigned(batch.policy.answers_kept.as_millis() as u64);
    if let Some(idempotency) = &write.idempotency
        && let Some(written) = idempotency::answered(connection, &write.by, idempotency, since)?
    {
        return Ok(Some(written));
    }
    if let Prepared::Refused(error) = prepared {
        return Err(error.into());
    }
    let current = current(connection, write)?;
    let past = past(connection, write)?;
    let document = current.as_ref().map(|current| &current.document);
    check_state(write, document)?;
    let patched = prepared_text(document, prepared);
    if patched.is_none() && !is_quick(write, document) {
        return Ok(None);
    }
    let past_document = past.as_ref().map(|past| &past.document);
    let next = decide_patched(write, document, past_document, batch.policy, |body, edits| {
        patched.unwrap_or_else(|| patch::apply(body, edits))
    })?;
    let written = Written {
        path: write.path.clone(),
        status: next.as_ref().map_or(Status::Unchanged, |next| next.status),
        revision: next
            .as_ref()
            .map(|next| next.revision)
            .or(document.map(|document| document.meta.revision))
            .unwrap_or_default(),
    };
    if let Some(next) = next {
        store(batch, write, current.as_ref(), past.as_ref(), next)?;
    }
    if let Some(idempotency) = &write.idempotency {
        idempotency::keep(connection, &write.by, idempotency, &written, batch.now, since)?;
    }
    Ok(Some(written))
}

/// How the text reads patched, if `prepared` knows it and is about this revision of the document.
fn prepared_text(document: Option<&Document>, prepared: Prepared) -> Option<Result<String>> {
    match prepared {
        Prepared::Patched { revision, body }
            if document.is_some_and(|document| document.meta.revision == revision) =>
        {
            Some(body)
        }
        _ => None,
    }
}

/// Whether it takes no time to speak of to patch the text here.
fn is_quick(write: &Write, document: Option<&Document>) -> bool {
    match (&write.change, document) {
        (Change::Patch(edits), Some(document)) => is_small(&document.body, edits),
        _ => true,
    }
}

fn current(connection: &Connection, write: &Write) -> std::result::Result<Option<Current>, Fault> {
    let Some(row) = documents::row(connection, write.path.as_str())? else { return Ok(None) };
    let document = row.clone().document(connection)?;
    Ok(Some(Current { row, document }))
}

/// The revision to restore, if the write restores one.
fn past(connection: &Connection, write: &Write) -> std::result::Result<Option<Current>, Fault> {
    let Change::Restore(revision) = write.change else { return Ok(None) };
    let Some(past) = documents::revision(connection, &write.path, revision)? else {
        return Ok(None);
    };
    let row = past.state.clone();
    Ok(Some(Current { row, document: past.document(connection)? }))
}

fn store(
    batch: &mut Batch<'_>,
    write: &Write,
    current: Option<&Current>,
    past: Option<&Current>,
    next: Next,
) -> std::result::Result<(), Fault> {
    let connection = batch.connection;
    let body = match (current, past) {
        (Some(current), _) if !next.body_changed => current.row.body,
        (_, Some(past)) if past.document.body == next.body => past.row.body,
        _ => store_body(connection, &next.body)?,
    };
    let row = row(batch, write, current, &next, body)?;
    store_row(connection, &row, current.is_some())?;
    remember(connection, write, &row, &next)?;
    index(batch, &row, current, next)
}

pub(super) fn store_body(connection: &Connection, text: &str) -> std::result::Result<i64, Fault> {
    let key = next_key(connection, "SELECT coalesce(max(key), 0) + 1 FROM body")?;
    connection
        .prepare_cached("INSERT INTO body (key, seal, text) VALUES (?1, ?2, ?3)")?
        .execute(params![key, body_seal(key, text), text])?;
    Ok(key)
}

fn next_key(connection: &Connection, sql: &str) -> rusqlite::Result<i64> {
    connection.prepare_cached(sql)?.query_row([], |row| row.get(0))
}

/// The row that `next` becomes.
fn row(
    batch: &Batch<'_>,
    write: &Write,
    current: Option<&Current>,
    next: &Next,
    body: i64,
) -> std::result::Result<StoredDocument, Fault> {
    let meta = current.map(|current| &current.document.meta);
    let alive = meta.filter(|meta| meta.is_alive());
    let key = match meta {
        Some(meta) => meta.key,
        None => next_key(batch.connection, "SELECT coalesce(max(key), 0) + 1 FROM document")?,
    };
    let kept_text = meta.filter(|_| !next.text_changed);
    let mut row = StoredDocument {
        key,
        path: write.path.as_str().to_owned(),
        title: next.title.clone(),
        tags: json(&next.tags),
        source: next.source.clone(),
        metadata: json(&next.metadata),
        mime: next.mime_type.as_str().to_owned(),
        revision: next.revision,
        text_revision: kept_text.map_or(next.revision, |meta| meta.text_revision),
        body,
        created_at: alive.map_or(batch.now, |meta| meta.created_at),
        updated_at: batch.now,
        deleted_at: next.deleted.then_some(batch.now),
        seal: 0,
        vector_status: next.vector_status.as_str().to_owned(),
        vector_error: kept_text
            .filter(|_| !next.deleted)
            .and_then(|meta| meta.vector_error.clone()),
    };
    row.seal = row.sealed().finish();
    Ok(row)
}

pub(super) fn store_row(
    connection: &Connection,
    row: &StoredDocument,
    exists: bool,
) -> std::result::Result<(), Fault> {
    connection.prepare_cached(if exists { UPDATE } else { INSERT })?.execute(params![
        row.path,
        row.title,
        row.tags,
        row.source,
        row.metadata,
        row.mime,
        row.revision,
        row.text_revision,
        row.body,
        row.created_at,
        row.updated_at,
        row.deleted_at,
        row.seal,
        row.vector_status,
        row.vector_error,
        row.key
    ])?;
    Ok(())
}

/// Adds the state to the document's history.
fn remember(
    connection: &Connection,
    write: &Write,
    row: &StoredDocument,
    next: &Next,
) -> std::result::Result<(), Fault> {
    let length = next.body.chars().count();
    let revision = StoredRevision {
        state: row.clone(),
        author: write.by.principal.clone(),
        action: next.status.as_str().to_owned(),
        length: i64::try_from(length).unwrap_or(i64::MAX),
    };
    remember_row(connection, &revision)
}

/// Adds a row to the history of its document.
pub(super) fn remember_row(
    connection: &Connection,
    revision: &StoredRevision,
) -> std::result::Result<(), Fault> {
    let row = &revision.state;
    connection.prepare_cached(REMEMBER)?.execute(params![
        row.key,
        row.revision,
        row.updated_at,
        revision.author,
        revision.action,
        row.title,
        row.tags,
        row.source,
        row.metadata,
        row.mime,
        row.text_revision,
        row.body,
        revision.length,
        row.created_at,
        row.deleted_at,
        revision.sealed().finish()
    ])?;
    Ok(())
}

/// Brings tags, words and vectors in line with the document.
fn index(
    batch: &mut Batch<'_>,
    row: &StoredDocument,
    current: Option<&Current>,
    next: Next,
) -> std::result::Result<(), Fault> {
    let connection = batch.connection;
    let alive = current.filter(|current| current.document.meta.is_alive());
    let same_tags =
        alive.is_some_and(|current| !next.deleted && current.document.meta.tags == next.tags);
    if !same_tags {
        let tags: &[String] = if next.deleted { &[] } else { &next.tags };
        store_tags(connection, row.key, tags)?;
    }
    if next.deleted || next.vector_status == VectorStatus::Skipped && next.text_changed {
        vectors::remove(connection, row.key)?;
        outbox::remove(connection, row.key)?;
    } else if next.text_changed {
        outbox::enqueue(connection, row.key, batch.now)?;
    }
    if next.deleted {
        batch.words.push((row.key, None));
    } else if next.text_changed || !same_tags {
        let words = Words {
            title: next.title,
            path: row.path.clone(),
            tags: next.tags.join("\n"),
            body: next.body,
            known: alive.is_some(),
        };
        batch.words.push((row.key, Some(words)));
    }
    Ok(())
}

fn store_tags(
    connection: &Connection,
    key: i64,
    tags: &[String],
) -> std::result::Result<(), Fault> {
    connection.prepare_cached("DELETE FROM tag WHERE document = ?1")?.execute([key])?;
    let mut statement =
        connection.prepare_cached("INSERT OR IGNORE INTO tag (tag, document) VALUES (?1, ?2)")?;
    for tag in tags {
        statement.execute(params![tag, key])?;
    }
    Ok(())
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("texts and JSON objects can be written as JSON")
}
