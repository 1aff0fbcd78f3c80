//! `batch_read`: several documents at once.

use lyceum_kb::{DocPath, Error, Found, Kb, Result};
use lyceum_server::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::knowledge::answers::DocumentAnswer;
use crate::knowledge::desk::{self, Desk, Subject};

pub(crate) const NAME: &str = "batch_read";

const MAX_PATHS: usize = 20;
/// Bytes of text one answer holds before further documents come as summaries.
const MAX_TEXT: usize = 8 * 1024 * 1024;

const DESCRIPTION: &str = "\
Reads up to 20 documents in one call: the first 500 characters of each, or with full=true the whole \
texts. Use it after search_knowledge or list_documents instead of calling get_document many times. A \
document that cannot be read has error \"not_found\" or \"deleted\" in its place; the others are still \
returned, in the order you asked for.";

/// Which documents.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The document_ids to read.
    #[schemars(length(min = 1, max = 20))]
    paths: Vec<String>,
    /// Return whole texts instead of their beginnings.
    #[schemars(extend("default" = false))]
    full: Option<bool>,
}

/// What was read.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Batch {
    items: Vec<BatchItem>,
    count: usize,
}

/// A document, or why there is none.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum BatchItem {
    Document(Box<DocumentAnswer>),
    Missing {
        document_id: String,
        /// `not_found` or `deleted`.
        error: &'static str,
    },
}

impl Subject for Arguments {
    fn subject(&self) -> Option<&str> {
        self.paths.first().map(String::as_str)
    }
}

/// What a batch answers.
pub(crate) async fn answer(kb: &Kb, arguments: Arguments) -> Result<Batch> {
    if !(1..=MAX_PATHS).contains(&arguments.paths.len()) {
        return Err(Error::invalid("paths: give 1 to 20"));
    }
    let paths: Vec<DocPath> =
        arguments.paths.iter().map(|path| DocPath::parse(path)).collect::<Result<_>>()?;
    let found = kb.find(&paths).await?;
    let mut room = if arguments.full.unwrap_or(false) { MAX_TEXT } else { 0 };
    let items: Vec<BatchItem> = paths
        .iter()
        .zip(found)
        .map(|(path, found)| match found {
            Found::Document(document) if document.body.len() <= room => {
                room -= document.body.len();
                BatchItem::Document(Box::new(DocumentAnswer::whole(*document)))
            }
            Found::Document(document) => {
                BatchItem::Document(Box::new(DocumentAnswer::summary(*document)))
            }
            Found::Deleted => missing(path, "deleted"),
            Found::Nothing => missing(path, "not_found"),
        })
        .collect();
    Ok(Batch { count: items.len(), items })
}

fn missing(path: &DocPath, error: &'static str) -> BatchItem {
    BatchItem::Missing { document_id: path.to_string(), error }
}

pub(crate) fn tool(desk: &Desk) -> Tool {
    desk::tool(desk, NAME, DESCRIPTION, |visit, arguments| async move {
        answer(&visit.desk.kb, arguments).await
    })
    .title("Read several documents")
    .read_only()
    .idempotent()
    .closed_world()
}
