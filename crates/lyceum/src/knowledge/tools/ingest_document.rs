//! `ingest_document`: a web page or a text as a document.

mod slots;

use lyceum_http::client::{DialError, Fetched, Policy, SafeDialer};
use lyceum_kb::convert::{Converted, path_of_text, path_of_url};
use lyceum_kb::{Change, Code, DocPath, Error, Fields, Result};
use lyceum_server::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conversion::{self, Page};
use crate::knowledge::arguments::Safety;
use crate::knowledge::desk::{self, Desk, Subject};
use crate::knowledge::whole::Whole;

use self::slots::IngestSlots;

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
    /// A URL that begins with http:// or https://, or else the text itself; other URLs are refused.
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

/// Fetches and converts, so many at a time.
#[derive(Clone)]
struct Ingestion {
    dialer: SafeDialer,
    slots: IngestSlots,
}

impl Ingestion {
    fn new(policy: Policy) -> Self {
        Self { dialer: SafeDialer::new(policy), slots: IngestSlots::of_process() }
    }

    /// What is at `url`, as a document.
    async fn page(&self, url: &str, caller: &str) -> Result<Converted> {
        let _slot = self.slots.take(caller)?;
        convert_page(self.dialer.fetch(url).await.map_err(not_fetched)?).await
    }
}

/// The write these arguments ask for. Fetches what is at a URL.
async fn change(
    ingestion: &Ingestion,
    arguments: Arguments,
    caller: &str,
) -> Result<(DocPath, Change, Safety)> {
    let safety = Safety::read(
        &arguments,
        arguments.expected_revision,
        arguments.idempotency_key.as_deref(),
    )?;
    let given = arguments.path.as_deref().map(DocPath::parse).transpose()?;
    let (path, converted, source) = if is_url(&arguments.source) {
        let page = ingestion.page(&arguments.source, caller).await?;
        let path = given.unwrap_or_else(|| path_of_url(&arguments.source));
        (path, page, Some(arguments.source))
    } else {
        if arguments.source.trim().is_empty() {
            return Err(Error::invalid("source: give a URL or a text"));
        }
        if let Some(scheme) = other_scheme(&arguments.source) {
            return Err(Error::invalid(format!(
                "source: cannot fetch {scheme}: addresses; give an http:// or https:// URL, or the text itself"
            )));
        }
        let default = || path_of_text(arguments.title.as_deref(), &arguments.source);
        let path = given.unwrap_or_else(default);
        (path, Converted { body: arguments.source, ..Converted::default() }, None)
    };
    let found_tags = (!converted.tags.is_empty()).then_some(converted.tags);
    let fields = Fields {
        body: Some(converted.body),
        title: arguments.title.or(converted.title),
        tags: arguments.tags.or(found_tags),
        source,
        metadata: (!converted.metadata.is_empty()).then_some(converted.metadata),
        mime_type: Some(converted.mime_type),
    };
    Ok((path, Change::Upsert(fields), safety))
}

fn is_url(source: &str) -> bool {
    let scheme = |scheme: &str| {
        source.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    scheme("http://") || scheme("https://")
}

/// The scheme of a source that is nothing but a URL we do not fetch.
fn other_scheme(source: &str) -> Option<&str> {
    let line = source.trim();
    let (scheme, rest) = line.split_once(':')?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let is_one_word = !line.contains(char::is_whitespace);
    // Without slashes almost anything looks like a URL, so only these are taken for one.
    let without_slashes = ["file", "data"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let is_url = rest.starts_with("//") && rest.len() > 2 || without_slashes && !rest.is_empty();
    (is_scheme && is_one_word && is_url).then_some(scheme)
}

async fn convert_page(fetched: Fetched) -> Result<Converted> {
    let name = fetched.url.split(['?', '#']).next().and_then(|url| url.rsplit('/').next());
    let name = name.map(str::to_owned);
    let Fetched { url, content_type, body, .. } = fetched;
    conversion::convert(Page { bytes: body, media_type: content_type, name, url: Some(url) }).await
}

fn not_fetched(error: DialError) -> Error {
    let code = match &error {
        DialError::NotPublic { .. } => Code::Forbidden,
        error if error.is_temporary() => Code::Unavailable,
        _ => Code::InvalidArgument,
    };
    Error::new(code, format!("source: {error}"))
}

pub(crate) fn tool(desk: &Desk) -> Tool {
    let ingestion = Ingestion::new(Policy::PublicOnly);
    desk::tool(desk, NAME, DESCRIPTION, move |visit, arguments| {
        let ingestion = ingestion.clone();
        async move {
            let (path, change, safety) = change(&ingestion, arguments, &visit.caller()).await?;
            let written = visit.write(path, change, safety).await?;
            Ok(Ingested {
                document_id: written.path.to_string(),
                status: written.status.as_str(),
                revision: written.revision,
            })
        }
    })
    .title("Ingest a web page or text")
    .destructive()
    .idempotent()
    .open_world()
}

#[cfg(test)]
mod tests;
