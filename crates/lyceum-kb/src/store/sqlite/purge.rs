//! Taking a document's texts away for good, whatever state the document is in.
//!
//! Its revisions stay as empty shells (number, time, author, action): numbers of writes and revisions never go back,
//! so that those who follow the history, here and in other processes, see the purge as one more write. Rows are read
//! without their seals, because damage may be the reason for purging.

use rusqlite::{Connection, params};

use super::documents::StoredRevision;
use super::fault::Fault;
use super::row::StoredDocument;
use super::write::{remember_row, store_body, store_row};
use super::writer::Batch;
use super::{audit, documents, outbox, vectors};
use crate::document::{MimeType, VectorStatus};
use crate::store::AuditEntry;
use crate::write::{Actor, Status, Written};
use crate::{DocPath, Error};

const REVISIONS: &str =
    concat!(documents::revisions!(), "WHERE document.key = ?1 ORDER BY revision.revision");

const EMPTY: &str = "UPDATE revision SET title = ?3, tags = '[]', source = NULL, metadata = '{}', mime = ?4, \
                     body = ?5, length = 0, seal = ?6 WHERE document = ?1 AND revision = ?2";

/// The texts of a document that no other document has.
const TEXTS: &str = "SELECT DISTINCT body FROM revision WHERE document = ?1 AND body NOT IN \
                     (SELECT body FROM revision WHERE document <> ?1) AND body NOT IN \
                     (SELECT body FROM document WHERE key <> ?1)";

/// Deletes the document at `path`, if it lives, and empties all its revisions.
pub(super) fn purge(
    batch: &mut Batch<'_>,
    path: &DocPath,
    by: &Actor,
) -> std::result::Result<Written, Fault> {
    let connection = batch.connection;
    let Some(mut row) = documents::row(connection, path.as_str())? else {
        return Err(Error::not_found(format!("no document at {path}, deleted or not")).into());
    };
    // What is freed is overwritten, as far as this connection frees it.
    connection.pragma_update(None, "secure_delete", true)?;
    let texts = texts(connection, row.key)?;
    let empty = store_body(connection, "")?;
    for mut revision in revisions(connection, row.key)? {
        clear(&mut revision.state, path, empty);
        revision.length = 0;
        connection.prepare_cached(EMPTY)?.execute(params![
            row.key,
            revision.state.revision,
            revision.state.title,
            revision.state.mime,
            empty,
            revision.sealed().finish()
        ])?;
    }
    clear(&mut row, path, empty);
    if row.deleted_at.is_none() {
        row.revision += 1;
        row.updated_at = batch.now;
        row.deleted_at = Some(batch.now);
        let state = row.clone();
        let (author, action) = (by.principal.clone(), Status::Deleted.as_str().to_owned());
        remember_row(connection, &StoredRevision { state, author, action, length: 0 })?;
        connection.prepare_cached("DELETE FROM tag WHERE document = ?1")?.execute([row.key])?;
        batch.words.push((row.key, None));
    }
    row.seal = row.sealed().finish();
    store_row(connection, &row, true)?;
    vectors::remove(connection, row.key)?;
    outbox::remove(connection, row.key)?;
    let mut statement = connection.prepare_cached("DELETE FROM body WHERE key = ?1")?;
    for text in texts {
        statement.execute([text])?;
    }
    let entry = AuditEntry {
        actor: by.clone(),
        document: Some(path.as_str().to_owned()),
        outcome: "ok".to_owned(),
    };
    audit::insert(connection, batch.now, &entry)?;
    Ok(Written { path: path.clone(), status: Status::Deleted, revision: row.revision })
}

/// Takes everything away that a caller wrote.
fn clear(row: &mut StoredDocument, path: &DocPath, empty: i64) {
    row.path = path.as_str().to_owned();
    row.title = path.name().to_owned();
    row.tags = "[]".to_owned();
    row.source = None;
    row.metadata = "{}".to_owned();
    row.mime = MimeType::default().as_str().to_owned();
    row.body = empty;
    row.vector_status = VectorStatus::Deleted.as_str().to_owned();
    row.vector_error = None;
}

fn texts(connection: &Connection, document: i64) -> rusqlite::Result<Vec<i64>> {
    connection.prepare_cached(TEXTS)?.query_map([document], |row| row.get(0))?.collect()
}

fn revisions(connection: &Connection, document: i64) -> rusqlite::Result<Vec<StoredRevision>> {
    connection.prepare_cached(REVISIONS)?.query_map([document], StoredRevision::read)?.collect()
}
