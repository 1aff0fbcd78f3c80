//! `delete_document`: puts a document away.

use lyceum_kb::{Change, DocPath, Result};
use lyceum_server::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::knowledge::arguments::Safety;
use crate::knowledge::desk::{self, Desk, Subject};
use crate::knowledge::whole::Whole;

pub(crate) const NAME: &str = "delete_document";

const DESCRIPTION: &str = "\
Deletes a document: it is no longer found, listed or read. Do so only when the user asked for it. Its \
history is kept, and update_document with restore_revision brings it back. Deleting what is deleted \
already is NOT_FOUND.";

/// What to delete.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The document_id.
    path: String,
    /// Delete only if the document is at this revision.
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
    Ok((DocPath::parse(&arguments.path)?, Change::Delete, safety))
}

pub(crate) fn tool(desk: &Desk) -> Tool {
    desk::write_tool(desk, NAME, DESCRIPTION, change)
        .title("Delete a document")
        .destructive()
        .idempotent()
        .closed_world()
}
