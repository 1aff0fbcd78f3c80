//! `get_document`: what a document says, in brief or in part.

use lyceum_kb::{Document, Error, Heading, Kb, Lines, Outline, Result};
use lyceum_server::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::knowledge::answers::{DocumentAnswer, RelatedAnswer, RevisionAnswer};
use crate::knowledge::arguments;
use crate::knowledge::desk::{self, Desk, Subject};

pub(crate) const NAME: &str = "get_document";

const MAX_RELATED: usize = 3;
const MAX_HISTORY: usize = 50;

const DESCRIPTION: &str = "\
Shows a document in brief: its first 500 characters, title, tags, metadata, revision, and up to three \
related documents. Use it to see whether a document is the right one. In a long document do not read \
everything: ask with outline=true for its headings, then with section for one of them, or with lines for \
a range. For the whole text use get_document_for_rewrite. history=true lists who changed it and when.";

/// Which document, and what of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The document's path, as search_knowledge and list_documents give it.
    #[serde(alias = "path")]
    document_id: String,
    /// A heading, or `Parent > Child`: content is that section, whole.
    section: Option<String>,
    /// Lines such as `10-20`, `10-` or `10`: content is these lines.
    lines: Option<String>,
    /// Add the headings of the document.
    #[schemars(extend("default" = false))]
    outline: Option<bool>,
    /// Add the newest 50 revisions of the document.
    #[schemars(extend("default" = false))]
    history: Option<bool>,
}

/// A document in brief.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Brief {
    #[serde(flatten)]
    document: DocumentAnswer,
    /// Documents that are about similar things, nearest first.
    related: Vec<RelatedAnswer>,
    /// With `outline` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    outline: Option<Vec<HeadingAnswer>>,
    /// With `history` only; newest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Vec<RevisionAnswer>>,
}

/// A heading of a document.
#[derive(Debug, Serialize, JsonSchema)]
struct HeadingAnswer {
    /// 1 to 6.
    level: u8,
    title: String,
    /// The line it is on, counted from 1.
    line: usize,
}

impl Subject for Arguments {
    fn subject(&self) -> Option<&str> {
        Some(&self.document_id)
    }
}

/// What a document in brief is.
pub(crate) async fn answer(kb: &Kb, arguments: Arguments) -> Result<Brief> {
    let path = arguments::document(Some(&arguments.document_id), None)?;
    let document = kb.get(&path).await?;
    let part = part(&document, arguments.section.as_deref(), arguments.lines.as_deref())?;
    let outline = (arguments.outline == Some(true)).then(|| headings(&document));
    let history = match arguments.history {
        Some(true) => Some(kb.history(&path, None, MAX_HISTORY).await?),
        _ => None,
    };
    // What is near is an extra; a document that can be read is shown without it.
    let related = kb.related(&document, MAX_RELATED).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "related documents could not be found");
        Vec::new()
    });
    Ok(Brief {
        related: related.into_iter().map(RelatedAnswer::from).collect(),
        outline,
        history: history.map(|all| all.into_iter().map(RevisionAnswer::from).collect()),
        document: match part {
            Some(part) => DocumentAnswer::part(document, part),
            None => DocumentAnswer::summary(document),
        },
    })
}

/// The part of the text that was asked for; `None` when it was not.
fn part(document: &Document, section: Option<&str>, lines: Option<&str>) -> Result<Option<String>> {
    let Document { body, meta } = document;
    let range = match (section, lines) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid("section and lines are two ways to choose; give one"));
        }
        (Some(section), None) => {
            let outline = Outline::new(body, meta.mime_type);
            let heading = outline.section(section)?;
            heading.start..heading.end
        }
        (None, Some(lines)) => Lines::parse(lines)?.range(body)?,
        (None, None) => return Ok(None),
    };
    Ok(Some(body[range].to_owned()))
}

fn headings(document: &Document) -> Vec<HeadingAnswer> {
    let outline = Outline::new(&document.body, document.meta.mime_type);
    let answer = |heading: &Heading| HeadingAnswer {
        level: heading.level,
        title: heading.text.clone(),
        line: heading.line,
    };
    outline.headings().iter().map(answer).collect()
}

pub(crate) fn tool(desk: &Desk) -> Tool {
    desk::tool(desk, NAME, DESCRIPTION, |visit, arguments| async move {
        answer(&visit.desk.kb, arguments).await
    })
    .title("Get a document in brief")
    .read_only()
    .idempotent()
    .closed_world()
}
