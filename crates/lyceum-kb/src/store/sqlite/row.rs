//! Documents as rows: how columns become documents, and the seals that show damage.

use rusqlite::types::Value as Column;
use rusqlite::{Connection, Row};
use sha2::{Digest, Sha256};

use super::fault::{Fault, damaged};
use crate::document::{Document, Meta, Millis, MimeType, VectorStatus};
use crate::{DocPath, Result};

/// The columns [`StoredDocument::read`] expects, for the table `document`.
macro_rules! document_columns {
    () => {
        "document.key, document.path, document.title, document.tags, document.source, document.metadata, \
         document.mime, document.revision, document.text_revision, document.body, document.created_at, \
         document.updated_at, document.deleted_at, document.seal, document.vector_status, \
         document.vector_error"
    };
}
pub(super) use document_columns;

/// A row of `document`, as text and numbers.
#[derive(Debug, Clone)]
pub(super) struct StoredDocument {
    pub(super) key: i64,
    pub(super) path: String,
    pub(super) title: String,
    pub(super) tags: String,
    pub(super) source: Option<String>,
    pub(super) metadata: String,
    pub(super) mime: String,
    pub(super) revision: i64,
    pub(super) text_revision: i64,
    pub(super) body: i64,
    pub(super) created_at: Millis,
    pub(super) updated_at: Millis,
    pub(super) deleted_at: Option<Millis>,
    pub(super) seal: i64,
    pub(super) vector_status: String,
    pub(super) vector_error: Option<String>,
}

/// A checksum over fields, in order.
#[derive(Debug, Default)]
pub(super) struct Seal(Sha256);

impl Seal {
    pub(super) fn text(mut self, text: &str) -> Seal {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
        self
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Seal {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub(super) fn number(mut self, number: i64) -> Seal {
        self.0.update(number.to_le_bytes());
        self
    }

    pub(super) fn optional_text(self, text: Option<&str>) -> Seal {
        match text {
            None => self.number(0),
            Some(text) => self.number(1).text(text),
        }
    }

    pub(super) fn optional_number(self, number: Option<i64>) -> Seal {
        match number {
            None => self.number(0),
            Some(number) => self.number(1).number(number),
        }
    }

    /// The first eight bytes of the SHA-256: this is against accidents, not against forgers.
    pub(super) fn finish(self) -> i64 {
        let digest = self.0.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        i64::from_le_bytes(first)
    }
}

impl StoredDocument {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<StoredDocument> {
        Ok(StoredDocument {
            key: row.get(0)?,
            path: row.get(1)?,
            title: row.get(2)?,
            tags: row.get(3)?,
            source: row.get(4)?,
            metadata: row.get(5)?,
            mime: row.get(6)?,
            revision: row.get(7)?,
            text_revision: row.get(8)?,
            body: row.get(9)?,
            created_at: row.get(10)?,
            updated_at: row.get(11)?,
            deleted_at: row.get(12)?,
            seal: row.get(13)?,
            vector_status: row.get(14)?,
            vector_error: row.get(15)?,
        })
    }

    /// Over everything a write sets; what the indexer sets is not worth a refusal.
    pub(super) fn sealed(&self) -> Seal {
        Seal::default()
            .number(self.key)
            .text(&self.path)
            .text(&self.title)
            .text(&self.tags)
            .optional_text(self.source.as_deref())
            .text(&self.metadata)
            .text(&self.mime)
            .number(self.revision)
            .number(self.text_revision)
            .number(self.body)
            .number(self.created_at)
            .number(self.updated_at)
            .optional_number(self.deleted_at)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.sealed().finish() == self.seal
    }

    /// The document without its text, if the row is as it was written.
    pub(super) fn meta(self) -> Result<Meta> {
        if self.is_whole() { self.unsealed_meta() } else { Err(damaged_row(self.key, &self.path)) }
    }

    /// The same, when the seal was checked in another way.
    pub(super) fn unsealed_meta(self) -> Result<Meta> {
        let wrong = || damaged_row(self.key, &self.path);
        Ok(Meta {
            key: self.key,
            path: DocPath::parse(&self.path).map_err(|_| wrong())?,
            tags: serde_json::from_str(&self.tags).map_err(|_| wrong())?,
            metadata: serde_json::from_str(&self.metadata).map_err(|_| wrong())?,
            mime_type: MimeType::parse(&self.mime).map_err(|_| wrong())?,
            vector_status: vector_status(&self.vector_status).ok_or_else(wrong)?,
            title: self.title,
            source: self.source,
            revision: self.revision,
            text_revision: self.text_revision,
            created_at: self.created_at,
            updated_at: self.updated_at,
            deleted_at: self.deleted_at,
            vector_error: self.vector_error,
        })
    }

    /// The document with its text.
    pub(super) fn document(self, connection: &Connection) -> std::result::Result<Document, Fault> {
        let body = body(connection, self.body)?;
        Ok(Document { meta: self.meta()?, body })
    }
}

fn damaged_row(key: i64, path: &str) -> crate::Error {
    damaged(&format!("document {key}, {path:?}"))
}

fn vector_status(text: &str) -> Option<VectorStatus> {
    VectorStatus::ALL.into_iter().find(|status| status.as_str() == text)
}

/// A text, if it is as it was written.
pub(super) fn body(connection: &Connection, key: i64) -> std::result::Result<String, Fault> {
    let (seal, text): (i64, String) = connection
        .prepare_cached("SELECT seal, text FROM body WHERE key = ?1")?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if body_seal(key, &text) == seal {
        Ok(text)
    } else {
        Err(damaged(&format!("text {key}")).into())
    }
}

pub(super) fn body_seal(key: i64, text: &str) -> i64 {
    Seal::default().number(key).text(text).finish()
}

/// What paths are compared with: the end of a range, which may be open. Any BLOB is greater than any TEXT.
pub(super) fn upper(end: Option<String>) -> Column {
    end.map_or(Column::Blob(Vec::new()), Column::Text)
}
