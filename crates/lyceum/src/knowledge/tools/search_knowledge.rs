//! `search_knowledge`: which documents answer a question.

use lyceum_kb::store::Filter;
use lyceum_kb::{Error, Kb, Prefix, Result, SEARCHED_BYTES, Search};
use lyceum_server::Tool;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::knowledge::answers::Hits;
use crate::knowledge::desk::{self, Desk, Subject};
use crate::knowledge::time;
use crate::knowledge::whole::{Whole, within};

pub(crate) const NAME: &str = "search_knowledge";

const DESCRIPTION: &str = "\
Finds the documents that answer a question, by words and by meaning. Start here when you do not know \
which document holds something. Write the query as a short question or a few key words; there is no \
query syntax to learn. Each hit names a document_id and shows its best passage: read on with \
get_document, or with batch_read for several hits. Nothing useful? Try other words, or look around with \
list_documents. To see what exists under a path, use list_documents, not this.";

/// What to look for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// What to look for, in plain words.
    query: String,
    /// The most hits to return.
    #[schemars(range(min = 1, max = 20), extend("default" = 5))]
    limit: Option<Whole>,
    /// Only documents that carry all of these tags.
    tags: Option<Vec<String>>,
    /// Only documents whose path begins with this, e.g. `guides/`.
    prefix: Option<String>,
    /// Only documents changed since this time (RFC 3339) or date, e.g. `2026-11-16`.
    updated_since: Option<String>,
    /// Say how each score came about.
    #[schemars(extend("default" = false))]
    explain: Option<bool>,
}

impl Subject for Arguments {
    fn subject(&self) -> Option<&str> {
        None
    }

    /// The texts in which passages are found.
    fn work(&self, max_text: usize) -> usize {
        SEARCHED_BYTES.max(max_text)
    }
}

/// What a search answers.
pub(crate) async fn answer(kb: &Kb, arguments: Arguments) -> Result<Hits> {
    if arguments.query.trim().is_empty() {
        return Err(Error::invalid("query: say what to look for"));
    }
    let updated_since = arguments.updated_since.as_deref();
    let search = Search {
        limit: within("limit", arguments.limit, 5, 1..=20)?,
        filter: Filter {
            tags: arguments.tags.unwrap_or_default(),
            prefix: Prefix::parse(arguments.prefix.as_deref().unwrap_or_default())?,
            updated_since: updated_since
                .map(|text| time::read("updated_since", text))
                .transpose()?,
        },
        query: arguments.query,
        explain: arguments.explain.unwrap_or(false),
    };
    Ok(kb.search(&search).await?.into())
}

pub(crate) fn tool(desk: &Desk) -> Tool {
    desk::tool(desk, NAME, DESCRIPTION, |visit, arguments| async move {
        answer(&visit.desk.kb, arguments).await
    })
    .title("Search knowledge")
    .read_only()
    .idempotent()
    .closed_world()
}
