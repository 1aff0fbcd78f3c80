//! `ingest_document`: a web page or a text as a document.

use lyceum_kb::{Change, DocPath, Error, Fields, Kb, Result};
use lyceum_server::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::knowledge::arguments::Safety;
use crate::knowledge::desk::{self, Subject};
use crate::knowledge::whole::Whole;

pub(crate) const NAME: &str = "ingest_document";

const DESCRIPTION: &str = "\
Takes a web page, PDF or Word file from a public URL, or a text you give, and keeps it as a Markdown \
document. A URL that was ingested before is fetched again and its document updated. Without path the \
document goes to `ingested/`; the answer says where. To write a document of your own, upload_document \
is the better tool. FORBIDDEN: the address is not public. UNAVAILABLE: it did not answer, try later.";

/// What to ingest.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// A URL that begins with http:// or https://, or else the text itself.
    source: String,
    /// Where the document belongs; `ingested/…` if left out.
    path: Option<String>,
    /// A name for people; taken from the source if left out.
    title: Option<String>,
    /// Words to find and filter it by.
    tags: Option<Vec<String>>,
    /// Write only if the document is at this revision; 0 means it must not exist.
    expected_revision: Option<Whole>,
    /// Any unique text; repeating the call with it changes nothing and answers the same.
    #[schemars(length(min = 1, max = 256))]
    idempotency_key: Option<String>,
}

/// What became of the source.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Ingested {
    document_id: String,
    /// `created`, `updated` or `unchanged`.
    status: &'static str,
    revision: i64,
}

impl Subject for Arguments {
    fn subject(&self) -> Option<&str> {
        self.path.as_deref()
    }
}

/// The write these arguments ask for.
pub(crate) fn change(arguments: Arguments) -> Result<(DocPath, Change, Safety)> {
    let safety = Safety::read(
        &arguments,
        arguments.expected_revision,
        arguments.idempotency_key.as_deref(),
    )?;
    let given = arguments.path.as_deref().unwrap_or("ingested/document");
    let path = DocPath::parse(given)?;
    if arguments.source.trim().is_empty() {
        return Err(Error::invalid("source: give a URL or a text"));
    }
    if arguments.source.starts_with("http://") || arguments.source.starts_with("https://") {
        return Err(Error::unavailable("source: URLs cannot be fetched yet; give the text itself"));
    }
    let fields = Fields {
        body: Some(arguments.source),
        title: arguments.title,
        tags: arguments.tags,
        ..Fields::default()
    };
    Ok((path, Change::Upsert(fields), safety))
}

pub(crate) fn tool(kb: &Kb) -> Tool {
    desk::tool(kb, NAME, DESCRIPTION, |visit, arguments| async move {
        let (path, change, safety) = change(arguments)?;
        let written = visit.write(path, change, safety).await?;
        Ok(Ingested {
            document_id: written.path.to_string(),
            status: written.status.as_str(),
            revision: written.revision,
        })
    })
    .title("Ingest a web page or text")
    .destructive()
    .idempotent()
    .open_world()
}
