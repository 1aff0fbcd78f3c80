//! Writes, and the one decision every store takes the same way: what a write does to a document.
//!
//! [`decide`] is pure. A store reads the current state, asks it, and stores the answer, all in one transaction.

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::{Map, Value};

use crate::document::{Document, Meta, MimeType, VectorStatus};
use crate::hidden::is_hidden;
use crate::patch::{self, Replacement};
use crate::{DocPath, Error, Result};

const MAX_TITLE: usize = 1024;
pub(crate) const MAX_TAGS: usize = 64;
pub(crate) const MAX_TAG: usize = 256;
const MAX_SOURCE: usize = 2048;
const MAX_METADATA: usize = 64 * 1024;
/// How deep metadata may be nested. Answers add some levels around it, and no MCP message is deeper than 64.
pub const MAX_METADATA_DEPTH: usize = 48;

/// One write to one document.
#[derive(Debug, Clone)]
pub struct Write {
    pub path: DocPath,
    pub change: Change,
    /// Refuse with CONFLICT unless the document is at this revision; 0 means "does not exist".
    pub expected_revision: Option<i64>,
    pub idempotency: Option<Idempotency>,
    pub by: Actor,
}

/// What to do.
#[derive(Debug, Clone)]
pub enum Change {
    /// Make a document that does not exist.
    Create(Fields),
    /// Make it, or replace what is given.
    Upsert(Fields),
    /// Replace what is given of a document that exists.
    Update(Fields),
    /// Replace passages of the text.
    Patch(Vec<Replacement>),
    Delete,
    /// Bring the state of an earlier revision back, as a new revision.
    Restore(i64),
}

/// The parts of a document a write may set; what is absent is kept, or takes its default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fields {
    pub body: Option<String>,
    pub title: Option<String>,
    pub tags: Option<Vec<String>>,
    pub source: Option<String>,
    pub metadata: Option<Map<String, Value>>,
    pub mime_type: Option<MimeType>,
}

/// A caller's promise that two writes with the same key are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    /// A fingerprint of the arguments: the same key with others is a mistake.
    pub digest: [u8; 32],
}

/// Who writes, for history and audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actor {
    pub principal: String,
    pub profile: String,
    pub tool: String,
    pub request_id: String,
}

/// What a write did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub path: DocPath,
    pub status: Status,
    pub revision: i64,
}

/// The word for what a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Created,
    Updated,
    Patched,
    Deleted,
    Restored,
    /// Nothing was different, so nothing was written.
    Unchanged,
}

/// The operator's rules for writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The largest text, in bytes.
    pub max_body: usize,
    /// Documents under these prefixes are not embedded.
    pub skip_prefixes: Vec<String>,
    /// How long answers are kept for requests that are repeated under their idempotency key.
    pub answers_kept: Duration,
}

/// The state a write leads to.
#[derive(Debug, Clone, PartialEq)]
pub struct Next {
    pub status: Status,
    pub revision: i64,
    pub title: String,
    pub tags: Vec<String>,
    pub source: Option<String>,
    pub metadata: Map<String, Value>,
    pub mime_type: MimeType,
    pub body: String,
    /// The text differs from what is stored.
    pub body_changed: bool,
    /// Title or text differ, so vectors and lexical index are out of date.
    pub text_changed: bool,
    pub deleted: bool,
    pub vector_status: VectorStatus,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            max_body: 4 * 1024 * 1024,
            skip_prefixes: Vec::new(),
            answers_kept: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl Policy {
    /// Whether the document at `path` is not embedded, whatever it says.
    pub fn skips(&self, path: &str) -> bool {
        self.skip_prefixes.iter().any(|prefix| path.starts_with(prefix.as_str()))
    }
}

impl Status {
    pub const ALL: [Status; 6] = [
        Status::Created,
        Status::Updated,
        Status::Patched,
        Status::Deleted,
        Status::Restored,
        Status::Unchanged,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Status::Created => "created",
            Status::Updated => "updated",
            Status::Patched => "patched",
            Status::Deleted => "deleted",
            Status::Restored => "restored",
            Status::Unchanged => "unchanged",
        }
    }
}

/// What `write` does to a document in state `current`; `None` when nothing changes.
///
/// `past` is the revision a [`Change::Restore`] names, if it exists.
pub fn decide(
    write: &Write,
    current: Option<&Document>,
    past: Option<&Document>,
    policy: &Policy,
) -> Result<Option<Next>> {
    check_state(write, current)?;
    decide_patched(write, current, past, policy, patch::apply)
}

/// Refuses a write that the state of the document rules out, whatever is in it.
pub(crate) fn check_state(write: &Write, current: Option<&Document>) -> Result<()> {
    let alive = current.filter(|document| document.meta.is_alive());
    let actual = alive.map_or(0, |document| document.meta.revision);
    match (&write.change, alive) {
        (Change::Create(_), Some(document)) => return Err(exists(document)),
        (Change::Create(_) | Change::Upsert(_), _) | (_, Some(_)) => {}
        (Change::Restore(_), None) if current.is_some() => {}
        (_, None) => return Err(missing(write)),
    }
    if write.expected_revision.is_some_and(|expected| expected != actual) {
        return Err(Error::conflict(format!(
            "{} is at revision {actual}, not at the expected one; read it again and redo the change",
            write.path
        ))
        .with("actual_revision", actual));
    }
    Ok(())
}

/// Decides what [`check_state`] has let pass; `apply` patches the text, or knows how it reads patched.
pub(crate) fn decide_patched(
    write: &Write,
    current: Option<&Document>,
    past: Option<&Document>,
    policy: &Policy,
    apply: impl FnOnce(&str, &[Replacement]) -> Result<String>,
) -> Result<Option<Next>> {
    let alive = current.filter(|document| document.meta.is_alive());
    let missing = || missing(write);
    write.check_given()?;
    let next = match &write.change {
        Change::Create(fields) => create(write, fields, current)?,
        Change::Upsert(fields) => match alive {
            None => create(write, fields, current)?,
            Some(document) => update(fields, document)?,
        },
        Change::Update(fields) => update(fields, alive.ok_or_else(missing)?)?,
        Change::Patch(edits) => {
            let document = alive.ok_or_else(missing)?;
            let body = apply(&document.body, edits)?;
            Next { status: Status::Patched, ..keep(document, Some(body)) }
        }
        Change::Delete => {
            let document = alive.ok_or_else(missing)?;
            Next { status: Status::Deleted, deleted: true, ..keep(document, None) }
        }
        Change::Restore(revision) => restore(*revision, past, current.ok_or_else(missing)?)?,
    };
    finish(next, write, current, policy)
}

impl Write {
    /// Refuses what cannot be right in any state of the document: fields that are too long, too many, too deep or hide
    /// something. A store may call it before the write waits for its turn.
    pub(crate) fn check_given(&self) -> Result<()> {
        match &self.change {
            Change::Create(fields) | Change::Upsert(fields) | Change::Update(fields) => {
                fields.check()
            }
            Change::Patch(_) | Change::Delete | Change::Restore(_) => Ok(()),
        }
    }
}

impl Fields {
    fn check(&self) -> Result<()> {
        check_tags(self.tags.as_deref().unwrap_or_default())?;
        let hides = |text: &str| text.chars().any(is_hidden);
        let title = self.title.as_deref().unwrap_or_default();
        let tags = self.tags.as_deref().unwrap_or_default();
        let source = self.source.as_deref().unwrap_or_default();
        let refusal = if title.len() > MAX_TITLE {
            "title: give at most 1024 bytes"
        } else if hides(title) {
            "title: control characters, bidi controls and invisible characters are not allowed; leave them out"
        } else if tags.iter().any(|tag| hides(tag)) {
            "tags: control characters, bidi controls and invisible characters are not allowed; leave them out"
        } else if source.len() > MAX_SOURCE {
            "source: give at most 2048 bytes"
        } else if hides(source) {
            "source: control characters, bidi controls and invisible characters are not allowed; leave them out"
        } else if self.metadata.as_ref().is_some_and(is_too_deep) {
            "metadata: nest objects and lists at most 48 deep"
        } else if self.metadata.as_ref().is_some_and(|metadata| json_size(metadata) > MAX_METADATA)
        {
            "metadata: give at most 65536 bytes of JSON"
        } else {
            return Ok(());
        };
        Err(Error::invalid(refusal))
    }
}

fn missing(write: &Write) -> Error {
    Error::not_found(format!("no document at {}; list_documents shows what exists", write.path))
}

fn exists(document: &Document) -> Error {
    let Meta { path, revision, .. } = &document.meta;
    Error::conflict(format!(
        "{path} exists already; use update_document, or upload with upsert=true"
    ))
    .with("actual_revision", *revision)
}

fn create(write: &Write, fields: &Fields, current: Option<&Document>) -> Result<Next> {
    write.path.check_visible()?;
    let fields = fields.clone();
    Ok(Next {
        status: Status::Created,
        revision: current.map_or(0, |document| document.meta.revision),
        title: fields.title.unwrap_or_else(|| write.path.name().to_owned()),
        tags: fields.tags.unwrap_or_default(),
        source: fields.source,
        metadata: fields.metadata.unwrap_or_default(),
        mime_type: fields.mime_type.unwrap_or_default(),
        body: fields
            .body
            .ok_or_else(|| Error::invalid("content: a new document needs its text"))?,
        body_changed: true,
        text_changed: true,
        deleted: false,
        vector_status: VectorStatus::Pending,
    })
}

fn update(fields: &Fields, document: &Document) -> Result<Next> {
    if *fields == Fields::default() {
        return Err(Error::invalid("nothing to change: give content, title, tags or metadata"));
    }
    let fields = fields.clone();
    let kept = keep(document, fields.body);
    Ok(Next {
        title: fields.title.unwrap_or(kept.title),
        tags: fields.tags.unwrap_or(kept.tags),
        source: fields.source.or(kept.source),
        metadata: fields.metadata.unwrap_or(kept.metadata),
        mime_type: fields.mime_type.unwrap_or(kept.mime_type),
        ..kept
    })
}

fn restore(revision: i64, past: Option<&Document>, current: &Document) -> Result<Next> {
    let past = past.filter(|past| past.meta.is_alive()).ok_or_else(|| {
        Error::not_found(format!("revision {revision} holds no text to restore; see the history"))
    })?;
    Ok(Next { status: Status::Restored, revision: current.meta.revision, ..keep(past, None) })
}

/// The state a document already has, but for its text if there is a new one.
fn keep(document: &Document, body: Option<String>) -> Next {
    let meta = document.meta.clone();
    Next {
        status: Status::Updated,
        revision: meta.revision,
        title: meta.title,
        tags: meta.tags,
        source: meta.source,
        metadata: meta.metadata,
        mime_type: meta.mime_type,
        body: body.unwrap_or_else(|| document.body.clone()),
        body_changed: false,
        text_changed: false,
        deleted: false,
        vector_status: meta.vector_status,
    }
}

/// Checks the bounds, counts the revision and finds what differs from `current`.
fn finish(
    mut next: Next,
    write: &Write,
    current: Option<&Document>,
    policy: &Policy,
) -> Result<Option<Next>> {
    check_length(&next.body, policy)?;
    if next.title.trim().is_empty() {
        next.title = write.path.name().to_owned();
    }
    let alive = current.filter(|document| document.meta.is_alive());
    next.body_changed = current.is_none_or(|document| document.body != next.body);
    next.text_changed = alive
        .is_none_or(|document| document.body != next.body || document.meta.title != next.title);
    if let Some(document) = alive
        && !next.deleted
        && !next.text_changed
        && same_fields(&next, &document.meta)
    {
        return Ok(None);
    }
    if next.deleted {
        next.vector_status = VectorStatus::Deleted;
    } else if let Some(document) = alive.filter(|_| !next.text_changed) {
        // A restored state has the vectors of today's text.
        next.vector_status = document.meta.vector_status;
    } else {
        let skipped = next.body.trim().is_empty() || policy.skips(write.path.as_str());
        next.vector_status = if skipped { VectorStatus::Skipped } else { VectorStatus::Pending };
    }
    next.revision += 1;
    Ok(Some(next))
}

fn same_fields(next: &Next, meta: &Meta) -> bool {
    next.tags == meta.tags
        && next.source == meta.source
        && next.metadata == meta.metadata
        && next.mime_type == meta.mime_type
}

fn check_length(body: &str, policy: &Policy) -> Result<()> {
    if body.len() <= policy.max_body {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the document has {} bytes, the limit is {}; split it into several documents",
        body.len(),
        policy.max_body
    ))
    .with("limit_bytes", policy.max_body))
}

fn is_too_deep(metadata: &Map<String, Value>) -> bool {
    metadata.values().any(|value| is_deeper(value, MAX_METADATA_DEPTH - 1))
}

/// Whether lists and objects are nested more than `limit` deep in `value`.
fn is_deeper(value: &Value, limit: usize) -> bool {
    let below = |value: &Value| is_deeper(value, limit - 1);
    match value {
        Value::Array(items) => limit == 0 || items.iter().any(below),
        Value::Object(members) => limit == 0 || members.values().any(below),
        _ => false,
    }
}

/// Refuses tags that no document can have, in documents and in filters.
pub(crate) fn check_tags(tags: &[String]) -> Result<()> {
    if tags.len() > MAX_TAGS {
        return Err(Error::invalid("tags: give at most 64"));
    }
    if tags.iter().any(|tag| tag.is_empty() || tag.len() > MAX_TAG) {
        return Err(Error::invalid("tags: each takes 1 to 256 bytes"));
    }
    Ok(())
}

fn json_size(metadata: &Map<String, Value>) -> usize {
    serde_json::to_vec(metadata).map_or(usize::MAX, |bytes| bytes.len())
}
