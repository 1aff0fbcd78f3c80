//! `get_document_for_rewrite`: the whole text of a document, now or in an earlier revision.

use lyceum_kb::{Document, Kb, Result, diff};
use lyceum_server::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::knowledge::answers::DocumentAnswer;
use crate::knowledge::arguments;
use crate::knowledge::desk::{self, Desk, Subject};
use crate::knowledge::whole::Whole;

pub(crate) const NAME: &str = "get_document_for_rewrite";

const DESCRIPTION: &str = "\
Returns the whole text of a document. Call it before update_document or patch_document, and pass the \
revision you get as their expected_revision, so that nobody's work is overwritten. revision shows an \
earlier revision instead, also of a deleted document; diff_from adds what changed since that revision. \
To only look at a document, get_document is cheaper.";

/// Which document, in which revision.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The document's path, as search_knowledge and list_documents give it.
    document_id: Option<String>,
    /// The same as document_id.
    path: Option<String>,
    /// Show this revision instead of the newest.
    #[schemars(range(min = 1))]
    revision: Option<Whole>,
    /// Add the differences between this revision and the one shown.
    #[schemars(range(min = 1))]
    diff_from: Option<Whole>,
}

/// A whole document.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WholeDocument {
    #[serde(flatten)]
    document: DocumentAnswer,
    /// With `diff_from` only: what changed since then, as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

impl Subject for Arguments {
    fn subject(&self) -> Option<&str> {
        self.document_id.as_deref().or(self.path.as_deref())
    }

    /// The text and a copy on its way; to compare two takes lists of their lines too.
    fn work(&self, max_text: usize) -> usize {
        if self.diff_from.is_some() { 16 * max_text } else { 2 * max_text }
    }
}

/// What a whole document is.
pub(crate) async fn answer(kb: &Kb, arguments: Arguments) -> Result<WholeDocument> {
    let path = arguments::document(arguments.document_id.as_deref(), arguments.path.as_deref())?;
    let shown = async || match arguments.revision {
        Some(revision) => kb.revision(&path, revision.0).await,
        None => kb.get(&path).await,
    };
    let Some(from) = arguments.diff_from else {
        let document = DocumentAnswer::whole(shown().await?);
        return Ok(WholeDocument { document, diff: None });
    };
    let slot = kb.work_slot().await?;
    let (new, old) = (shown().await?, kb.revision(&path, from.0).await?);
    slot.run_to_end(move || {
        let diff = Some(changes(&old, &new));
        Ok(WholeDocument { document: DocumentAnswer::whole(new), diff })
    })
    .await
}

/// What changed from `old` to `new`.
fn changes(old: &Document, new: &Document) -> String {
    let name = |document: &Document| {
        format!("{} (revision {})", document.meta.path, document.meta.revision)
    };
    let diff = diff(&old.body, &new.body, &name(old), &name(new));
    let cut = if diff.truncated { "(and more)\n" } else { "" };
    format!("{}{cut}", diff.unified)
}

pub(crate) fn tool(desk: &Desk) -> Tool {
    desk::tool(desk, NAME, DESCRIPTION, |visit, arguments| async move {
        answer(&visit.desk.kb, arguments).await
    })
    .title("Get a document's whole text")
    .read_only()
    .idempotent()
    .closed_world()
}
