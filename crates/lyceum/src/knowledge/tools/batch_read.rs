//! `batch_read`: several documents at once.

use lyceum_kb::{DocPath, Document, Error, Found, Kb, Result};
use lyceum_server::Tool;
use lyceum_work::run_bulk;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::knowledge::answers::DocumentAnswer;
use crate::knowledge::charge::JsonSize;
use crate::knowledge::desk::{self, Desk, Subject};

pub(crate) const NAME: &str = "batch_read";

const MAX_PATHS: usize = 20;
/// Bytes of text one answer holds before further documents come as summaries.
const MAX_TEXT: usize = 8 * 1024 * 1024;

/// Texts longer than this are not looked through on a thread that serves others.
const LARGE: usize = 256 * 1024;

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

    /// The texts that are returned, and the one being read.
    fn work(&self, max_text: usize) -> usize {
        2 * max_text + if self.full == Some(true) { MAX_TEXT } else { 0 }
    }
}

/// What a batch answers.
///
/// Documents are read one after the other, so that there never are more texts than are returned. What
/// does not fit an answer of `answer_bytes` comes as a summary.
pub(crate) async fn answer(kb: &Kb, arguments: Arguments, answer_bytes: usize) -> Result<Batch> {
    if !(1..=MAX_PATHS).contains(&arguments.paths.len()) {
        return Err(Error::invalid("paths: give 1 to 20"));
    }
    let paths: Vec<DocPath> =
        arguments.paths.iter().map(|path| DocPath::parse(path)).collect::<Result<_>>()?;
    let is_full = arguments.full.unwrap_or(false);
    let mut room = Room { text: if is_full { MAX_TEXT } else { 0 }, sent: answer_bytes / 4 * 3 };
    let mut items = Vec::with_capacity(paths.len());
    for path in &paths {
        let found = kb.find(std::slice::from_ref(path)).await?.pop();
        items.push(match found {
            Some(Found::Document(document)) => room.item(*document).await?,
            Some(Found::Deleted) => missing(path, "deleted"),
            Some(Found::Nothing) | None => missing(path, "not_found"),
        });
    }
    Ok(Batch { count: items.len(), items })
}

/// What an answer still has room for.
struct Room {
    /// Bytes of text.
    text: usize,
    /// Bytes as they are sent: as JSON, and as JSON within JSON.
    sent: usize,
}

impl Room {
    /// The document as it fits: whole, or its beginning.
    async fn item(&mut self, document: Document) -> Result<BatchItem> {
        let length = document.body.len();
        if length > self.text {
            return Ok(BatchItem::Document(Box::new(DocumentAnswer::summary(document))));
        }
        let measure = move || (JsonSize::of(&document.body), document);
        let (size, document) = match length > LARGE {
            true => run_bulk(measure)
                .await
                .map_err(|_| Error::internal("the document could not be measured"))?,
            false => measure(),
        };
        let size = size?;
        let sent = size.bytes() + size.as_text();
        let answer = match sent <= self.sent {
            true => {
                self.text -= length;
                self.sent -= sent;
                DocumentAnswer::whole(document)
            }
            false => DocumentAnswer::summary(document),
        };
        Ok(BatchItem::Document(Box::new(answer)))
    }
}

fn missing(path: &DocPath, error: &'static str) -> BatchItem {
    BatchItem::Missing { document_id: path.to_string(), error }
}

pub(crate) fn tool(desk: &Desk) -> Tool {
    desk::tool(desk, NAME, DESCRIPTION, |visit, arguments| async move {
        let answer_bytes = visit.call.budgets().answer_bytes;
        answer(&visit.desk.kb, arguments, answer_bytes).await
    })
    .title("Read several documents")
    .read_only()
    .idempotent()
    .closed_world()
}
