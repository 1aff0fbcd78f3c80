//! Documents as they are stored and read.

use serde_json::{Map, Value};

use crate::{DocPath, Error, Result};

/// Milliseconds since 1970, UTC.
pub type Millis = i64;

/// What kind of text a document holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MimeType {
    #[default]
    Markdown,
    Plain,
    Json,
}

/// How far the vectors of a document are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorStatus {
    /// Waiting for the indexer.
    Pending,
    Ready,
    /// Given up; `vector_error` says why.
    Error,
    /// Not to be embedded: empty, or under a skipped prefix.
    Skipped,
    Deleted,
}

/// A document without its text: what lists and searches need.
#[derive(Debug, Clone, PartialEq)]
pub struct Meta {
    /// The store's own number for the document; stable across deletion and re-creation.
    pub key: i64,
    pub path: DocPath,
    pub title: String,
    pub tags: Vec<String>,
    pub source: Option<String>,
    pub metadata: Map<String, Value>,
    pub mime_type: MimeType,
    /// Grows by one with every write.
    pub revision: i64,
    /// The revision in which title or text last changed; vectors belong to it.
    pub text_revision: i64,
    pub created_at: Millis,
    pub updated_at: Millis,
    pub deleted_at: Option<Millis>,
    pub vector_status: VectorStatus,
    pub vector_error: Option<String>,
}

/// A document with its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub meta: Meta,
    pub body: String,
}

/// One past or present state of a document, and who made it.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    pub revision: i64,
    pub at: Millis,
    /// The principal that wrote it.
    pub author: String,
    /// What kind of write: `created`, `updated`, `patched`, `deleted`, `restored`.
    pub action: String,
    pub title: String,
    pub tags: Vec<String>,
    /// Length of the text in characters.
    pub length: usize,
}

impl MimeType {
    pub fn parse(text: &str) -> Result<MimeType> {
        match text {
            "text/markdown" => Ok(MimeType::Markdown),
            "text/plain" => Ok(MimeType::Plain),
            "application/json" => Ok(MimeType::Json),
            _ => {
                Err(Error::invalid("mime_type: give text/markdown, text/plain or application/json"))
            }
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            MimeType::Markdown => "text/markdown",
            MimeType::Plain => "text/plain",
            MimeType::Json => "application/json",
        }
    }
}

impl VectorStatus {
    pub const ALL: [VectorStatus; 5] = [
        VectorStatus::Pending,
        VectorStatus::Ready,
        VectorStatus::Error,
        VectorStatus::Skipped,
        VectorStatus::Deleted,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            VectorStatus::Pending => "pending",
            VectorStatus::Ready => "ready",
            VectorStatus::Error => "error",
            VectorStatus::Skipped => "skipped",
            VectorStatus::Deleted => "deleted",
        }
    }
}

impl Meta {
    pub fn is_alive(&self) -> bool {
        self.deleted_at.is_none()
    }
}
