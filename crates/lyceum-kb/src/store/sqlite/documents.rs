//! Reading documents, as they are and as they were.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::{Fault, damaged};
use super::row::{Seal, StoredDocument, document_columns};
use crate::document::{Document, Millis, Revision};
use crate::kb::Changed;
use crate::write::Status;
use crate::{DocPath, Result};

const BY_PATH: &str =
    concat!("SELECT ", document_columns!(), " FROM document WHERE document.path = ?1");

const BY_KEY: &str = concat!(
    "SELECT ",
    document_columns!(),
    " FROM document WHERE document.key = ?1 AND document.deleted_at IS NULL"
);

/// The columns of `document`, as they were in a revision, then those only a revision has.
macro_rules! revisions {
    () => {
        "SELECT document.key, document.path, revision.title, revision.tags, revision.source, revision.metadata, \
         revision.mime, revision.revision, revision.text_revision, revision.body, revision.created_at, \
         revision.at, revision.deleted_at, revision.seal, document.vector_status, NULL, \
         revision.author, revision.action, revision.length, revision.rowid AS rowid \
         FROM document JOIN revision ON revision.document = document.key "
    };
}
pub(super) use revisions;

const AT: &str = concat!(revisions!(), "WHERE document.path = ?1 AND revision.revision = ?2");

pub(super) const HISTORY: &str = concat!(
    revisions!(),
    "WHERE document.path = ?1 AND revision.revision < ?2 ORDER BY revision.revision DESC LIMIT ?3"
);

pub(super) const WRITES: &str = "SELECT revision.rowid, document.path, revision.action FROM revision \
                                 JOIN document ON document.key = revision.document \
                                 WHERE revision.rowid > ?1 ORDER BY revision.rowid LIMIT ?2";

/// A row of `revision`.
#[derive(Debug)]
pub(super) struct StoredRevision {
    pub(super) state: StoredDocument,
    pub(super) author: String,
    pub(super) action: String,
    pub(super) length: i64,
}

/// The row at a path, if any, deleted or not.
pub(super) fn row(
    connection: &Connection,
    path: &str,
) -> std::result::Result<Option<StoredDocument>, Fault> {
    let mut statement = connection.prepare_cached(BY_PATH)?;
    Ok(statement.query_row([path], StoredDocument::read).optional()?)
}

pub(super) fn by_path(
    connection: &Connection,
    paths: &[DocPath],
) -> std::result::Result<Vec<Option<Document>>, Fault> {
    paths
        .iter()
        .map(|path| row(connection, path.as_str())?.map(|row| row.document(connection)).transpose())
        .collect()
}

pub(super) fn by_key(
    connection: &Connection,
    keys: &[i64],
) -> std::result::Result<Vec<Document>, Fault> {
    let mut statement = connection.prepare_cached(BY_KEY)?;
    let mut documents = Vec::with_capacity(keys.len());
    for key in keys {
        if let Some(row) = statement.query_row([key], StoredDocument::read).optional()? {
            documents.push(row.document(connection)?);
        }
    }
    Ok(documents)
}

/// The living documents with these keys, in order, until their texts have `max_bytes` together.
pub(super) fn first(
    connection: &Connection,
    keys: &[i64],
    max_bytes: usize,
) -> std::result::Result<Vec<Option<Document>>, Fault> {
    let mut statement = connection.prepare_cached(BY_KEY)?;
    let mut documents = Vec::with_capacity(keys.len());
    let mut bytes = 0;
    for key in keys {
        let row = statement.query_row([key], StoredDocument::read).optional()?;
        let document = row.map(|row| row.document(connection)).transpose()?;
        bytes += document.as_ref().map_or(0, |document| document.body.len());
        documents.push(document);
        if bytes >= max_bytes {
            break;
        }
    }
    Ok(documents)
}

/// The newest revisions first.
pub(super) fn history(
    connection: &Connection,
    path: &DocPath,
    before: Option<i64>,
    limit: usize,
) -> std::result::Result<Vec<Revision>, Fault> {
    let mut statement = connection.prepare_cached(HISTORY)?;
    let arguments = params![path.as_str(), before.unwrap_or(i64::MAX), limit];
    let rows = statement.query_map(arguments, StoredRevision::read)?;
    rows.map(|row| Ok(row?.revision()?)).collect()
}

/// The row of a revision, if it exists.
pub(super) fn revision(
    connection: &Connection,
    path: &DocPath,
    revision: i64,
) -> std::result::Result<Option<StoredRevision>, Fault> {
    let mut statement = connection.prepare_cached(AT)?;
    Ok(statement.query_row(params![path.as_str(), revision], StoredRevision::read).optional()?)
}

impl StoredRevision {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<StoredRevision> {
        Ok(StoredRevision {
            state: StoredDocument::read(row)?,
            author: row.get(16)?,
            action: row.get(17)?,
            length: row.get(18)?,
        })
    }

    pub(super) fn sealed(&self) -> Seal {
        self.state.sealed().text(&self.author).text(&self.action).number(self.length)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.sealed().finish() == self.state.seal
    }

    fn check(&self) -> Result<()> {
        if self.is_whole() {
            return Ok(());
        }
        Err(damaged(&format!("revision {} of {:?}", self.state.revision, self.state.path)))
    }

    fn revision(self) -> Result<Revision> {
        self.check()?;
        let at: Millis = self.state.updated_at;
        let meta = self.state.unsealed_meta()?;
        Ok(Revision {
            revision: meta.revision,
            at,
            author: self.author,
            action: self.action,
            title: meta.title,
            tags: meta.tags,
            length: usize::try_from(self.length).unwrap_or_default(),
        })
    }

    /// The document as it was.
    pub(super) fn document(self, connection: &Connection) -> std::result::Result<Document, Fault> {
        self.check()?;
        let body = super::row::body(connection, self.state.body)?;
        Ok(Document { meta: self.state.unsealed_meta()?, body })
    }
}

/// The number of the last write.
pub(super) fn last_write(connection: &Connection) -> std::result::Result<i64, Fault> {
    let sql = "SELECT coalesce(max(rowid), 0) FROM revision";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// The writes after number `after`, oldest first. A damaged one is left out; the integrity check names it.
pub(super) fn writes(
    connection: &Connection,
    after: i64,
    limit: usize,
) -> std::result::Result<Vec<Changed>, Fault> {
    let mut statement = connection.prepare_cached(WRITES)?;
    let rows = statement.query_map(params![after, limit], |row| {
        let (seq, path, action): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let status = Status::ALL.into_iter().find(|status| status.as_str() == action);
        let whole = DocPath::parse(&path).ok().zip(status);
        Ok(whole.map(|(path, status)| Changed { seq, path, status }))
    })?;
    let changed = rows.collect::<rusqlite::Result<Vec<Option<Changed>>>>()?;
    Ok(changed.into_iter().flatten().collect())
}
