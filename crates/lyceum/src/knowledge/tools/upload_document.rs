//! `upload_document`: a new document.

use lyceum_kb::{Change, DocPath, Fields, Result};
use lyceum_server::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::knowledge::arguments::{Safety, mime_type};
use crate::knowledge::desk::{self, Desk, Subject};
use crate::knowledge::whole::Whole;

pub(crate) const NAME: &str = "upload_document";

const DESCRIPTION: &str = "\
Makes a new document. Choose a path that tells where it belongs, like `guides/setup.md`; \
list_documents shows how others are named. If there is one at that path already the answer is CONFLICT: \
change it with update_document or patch_document, or pass upsert=true to replace it. Give an \
idempotency_key if you may have to repeat the call: the same key and arguments never write twice.";

/// The new document.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// Where it belongs, e.g. `guides/setup.md`; this is its document_id.
    path: String,
    /// Its text, Markdown unless mime_type says otherwise.
    content: String,
    /// A name for people; the last part of the path if left out.
    title: Option<String>,
    /// Words to find and filter it by.
    tags: Option<Vec<String>>,
    /// Anything else worth keeping, as an object.
    metadata: Option<Map<String, Value>>,
    /// Where the text comes from, e.g. a URL.
    source: Option<String>,
    /// text/markdown, text/plain or application/json.
    #[schemars(extend("default" = "text/markdown"))]
    mime_type: Option<String>,
    /// Replace the document if it exists.
    #[schemars(extend("default" = false))]
    upsert: Option<bool>,
    /// Write only if the document is at this revision; 0 means it must not exist.
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
        body: Some(arguments.content),
        title: arguments.title,
        tags: arguments.tags,
        source: arguments.source,
        metadata: arguments.metadata,
        mime_type: mime_type(arguments.mime_type.as_deref())?,
    };
    let upsert = arguments.upsert.unwrap_or(false);
    let change = if upsert { Change::Upsert(fields) } else { Change::Create(fields) };
    Ok((path, change, safety))
}

pub(crate) fn tool(desk: &Desk) -> Tool {
    desk::write_tool(desk, NAME, DESCRIPTION, change)
        .title("Upload a document")
        .destructive()
        .closed_world()
}
