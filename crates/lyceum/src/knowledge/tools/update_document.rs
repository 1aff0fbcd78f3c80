//! `update_document`: new text, title, tags or metadata for a document, or an earlier state of it.

use lyceum_kb::{Change, DocPath, Error, Fields, Result};
use lyceum_server::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::knowledge::arguments::{Safety, mime_type};
use crate::knowledge::desk::{self, Desk, Subject};
use crate::knowledge::whole::Whole;

pub(crate) const NAME: &str = "update_document";

const DESCRIPTION: &str = "\
Replaces the text, title, tags or metadata of a document that exists; what you leave out stays as it is. \
content replaces the WHOLE text, so read it first with get_document_for_rewrite and pass its revision as \
expected_revision: CONFLICT then means somebody else wrote in between, so read again and redo the change. \
For a small change in a long text use patch_document. restore_revision brings an earlier revision back \
(get_document with history=true lists them), also of a deleted document. Every revision is kept.";

/// What to change.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The document_id.
    path: String,
    /// The whole new text.
    content: Option<String>,
    /// A name for people.
    title: Option<String>,
    /// All tags it shall have.
    tags: Option<Vec<String>>,
    /// All metadata it shall have, as an object.
    metadata: Option<Map<String, Value>>,
    /// Where the text comes from, e.g. a URL.
    source: Option<String>,
    /// text/markdown, text/plain or application/json.
    mime_type: Option<String>,
    /// Bring this revision back as a new one; give nothing else to change.
    #[schemars(range(min = 1))]
    restore_revision: Option<Whole>,
    /// Write only if the document is at this revision.
    expected_revision: Option<Whole>,
    /// Any unique text; repeating the call with it changes nothing and answers the same.
    #[schemars(length(min = 1, max = 256))]
    idempotency_key: Option<String>,
}

impl Subject for Arguments {
    fn subject(&self) -> Option<&str> {
        Some(&self.path)
    }
}

/// The write these arguments ask for.
pub(crate) fn change(arguments: Arguments) -> Result<(DocPath, Change, Safety)> {
    let safety = Safety::read(
        &arguments,
        arguments.expected_revision,
        arguments.idempotency_key.as_deref(),
    )?;
    let path = DocPath::parse(&arguments.path)?;
    let fields = Fields {
        body: arguments.content,
        title: arguments.title,
        tags: arguments.tags,
        source: arguments.source,
        metadata: arguments.metadata,
        mime_type: mime_type(arguments.mime_type.as_deref())?,
    };
    let change = match arguments.restore_revision {
        None => Change::Update(fields),
        Some(revision) if fields == Fields::default() => Change::Restore(revision.0),
        Some(_) => {
            return Err(Error::invalid(
                "restore_revision brings everything back; give nothing else to change with it",
            ));
        }
    };
    Ok((path, change, safety))
}

pub(crate) fn tool(desk: &Desk) -> Tool {
    desk::write_tool(desk, NAME, DESCRIPTION, change)
        .title("Update a document")
        .destructive()
        .idempotent()
        .closed_world()
}
