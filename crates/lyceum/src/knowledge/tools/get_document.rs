//! `get_document`: what a document says, in brief or in part.

use std::cell::LazyCell;

use lyceum_kb::{DocPath, Document, Error, Kb, Lines, Outline, Result};
use lyceum_server::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::knowledge::answers::{DocumentAnswer, RelatedAnswer, RevisionAnswer};
use crate::knowledge::arguments;
use crate::knowledge::desk::{self, Desk, Subject};

pub(crate) const NAME: &str = "get_document";

const MAX_RELATED: usize = 3;
const MAX_HISTORY: usize = 50;
/// Headings in an answer, and the bytes their titles may take.
const MAX_HEADINGS: usize = 2000;
const MAX_HEADING_BYTES: usize = 128 * 1024;

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
    #[serde(flatten)]
    outline: Option<OutlineAnswer>,
    /// With `history` only; newest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Vec<RevisionAnswer>>,
}

/// The headings of a document.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct OutlineAnswer {
    outline: Vec<HeadingAnswer>,
    /// Whether the document has more headings than `outline` shows; read on with `lines`.
    outline_truncated: bool,
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

    /// The text, the part that is shown, what is found in it, and the texts of related documents.
    fn work(&self, max_text: usize) -> usize {
        (3 + MAX_RELATED) * max_text
    }
}

/// What a document in brief is.
pub(crate) async fn answer(kb: &Kb, arguments: Arguments) -> Result<Brief> {
    let path = arguments::document(Some(&arguments.document_id), None)?;
    let part = Part::asked_for(arguments.section, arguments.lines)?;
    let with_outline = arguments.outline == Some(true);
    let (document, part, outline) = match (&part, with_outline) {
        (Part::Beginning, false) => (kb.get(&path).await?, None, None),
        _ => read(kb, &path, part, with_outline).await?,
    };
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

/// Which part of the text is asked for.
enum Part {
    Beginning,
    Section(String),
    Lines(Lines),
}

impl Part {
    fn asked_for(section: Option<String>, lines: Option<String>) -> Result<Self> {
        match (section, lines) {
            (Some(_), Some(_)) => {
                Err(Error::invalid("section and lines are two ways to choose; give one"))
            }
            (Some(section), None) => Ok(Self::Section(section)),
            (None, Some(lines)) => Lines::parse(&lines).map(Self::Lines),
            (None, None) => Ok(Self::Beginning),
        }
    }
}

/// Reads a document together with a part of it and its headings. Parsing a large text takes up to a
/// second, so not on this thread.
async fn read(
    kb: &Kb,
    path: &DocPath,
    part: Part,
    with_outline: bool,
) -> Result<(Document, Option<String>, Option<OutlineAnswer>)> {
    let slot = kb.work_slot().await?;
    let document = kb.get(path).await?;
    slot.run_to_end(move || {
        let outline = LazyCell::new(|| Outline::new(&document.body, document.meta.mime_type));
        let range = match part {
            Part::Beginning => None,
            Part::Section(section) => {
                let heading = outline.section(&section)?;
                Some(heading.start..heading.end)
            }
            Part::Lines(lines) => Some(lines.range(&document.body)?),
        };
        let part = range.map(|range| document.body[range].to_owned());
        let outline = with_outline.then(|| OutlineAnswer::from(&*outline));
        Ok((document, part, outline))
    })
    .await
}

impl From<&Outline> for OutlineAnswer {
    fn from(outline: &Outline) -> Self {
        let mut answer = Self::default();
        let mut bytes = 0;
        for heading in outline.headings() {
            bytes += heading.text.len();
            if answer.outline.len() == MAX_HEADINGS || bytes > MAX_HEADING_BYTES {
                answer.outline_truncated = true;
                break;
            }
            let title = heading.text.clone();
            answer.outline.push(HeadingAnswer { level: heading.level, title, line: heading.line });
        }
        answer
    }
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
