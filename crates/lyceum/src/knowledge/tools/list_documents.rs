//! `list_documents`: what exists under a path.

use lyceum_kb::store::ListPage;
use lyceum_kb::{Error, Kb, Prefix, Result};
use lyceum_server::Tool;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::knowledge::answers::Page;
use crate::knowledge::arguments;
use crate::knowledge::desk::{self, Desk, Subject};
use crate::knowledge::whole::{Whole, within};

pub(crate) const NAME: &str = "list_documents";

/// Beyond this only cursors lead on: an offset costs as much as all it skips.
const MAX_OFFSET: i64 = 10_000;

const DESCRIPTION: &str = "\
Lists documents by path, in alphabetical order, without their text. Use it to see what exists under a \
path such as `guides/`; to find documents by what they say, use search_knowledge. When truncated is true \
there is more: call again with cursor set to next_cursor. offset does the same for the first 10,000 \
documents.";

/// Which part of which list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The beginning of the paths to list, e.g. `guides/`; leave it out for everything.
    prefix: Option<String>,
    /// The same as prefix.
    path: Option<String>,
    /// The most documents to return.
    #[schemars(range(min = 1, max = 100), extend("default" = 50))]
    limit: Option<Whole>,
    /// How many documents to skip.
    #[schemars(range(min = 0, max = 10000), extend("default" = 0))]
    offset: Option<Whole>,
    /// The next_cursor of the page before, to go on from there.
    cursor: Option<String>,
}

/// Makes cursors for one caller, and reads them.
pub(crate) trait Cursors {
    fn seal(&self, place: &[u8]) -> String;
    fn open(&self, cursor: &str) -> Option<Vec<u8>>;
}

impl Subject for Arguments {
    fn subject(&self) -> Option<&str> {
        self.prefix.as_deref().or(self.path.as_deref())
    }
}

impl Cursors for lyceum_server::Call {
    fn seal(&self, place: &[u8]) -> String {
        lyceum_server::Call::seal(self, place)
    }

    fn open(&self, cursor: &str) -> Option<Vec<u8>> {
        self.unseal(cursor)
    }
}

/// What a list answers.
pub(crate) async fn answer(
    kb: &Kb,
    arguments: Arguments,
    cursors: &(impl Cursors + Sync),
) -> Result<Page> {
    let limit = within("limit", arguments.limit, 50, 1..=100)?;
    let offset = offset(arguments.offset)?;
    let given = arguments::prefix(arguments.path.as_deref(), arguments.prefix.as_deref())?;
    let (prefix, after) = match &arguments.cursor {
        None => (given.unwrap_or_default(), None),
        Some(_) if offset > 0 => {
            return Err(Error::invalid(
                "offset and cursor are two ways to go on; give one of them",
            ));
        }
        Some(cursor) => {
            let (prefix, after) = place(cursors, cursor, given)?;
            (prefix, Some(after))
        }
    };
    let by_cursor = after.is_some();
    let list = kb.list(ListPage { prefix: prefix.clone(), after, offset, limit }).await?;
    let count = list.items.len();
    let next_offset = offset + count;
    let reachable = list.more && !by_cursor && next_offset <= MAX_OFFSET as usize;
    let last = list.items.last().filter(|_| list.more);
    Ok(Page {
        count,
        truncated: list.more,
        next_offset: reachable.then_some(next_offset),
        // Neither a prefix that matches anything nor a path holds a NUL.
        next_cursor: last
            .map(|last| cursors.seal(format!("{}\0{}", prefix.as_str(), last.path).as_bytes())),
        items: list.items.into_iter().map(Into::into).collect(),
    })
}

fn offset(given: Option<Whole>) -> Result<usize> {
    if given.is_some_and(|given| given.0 > MAX_OFFSET) {
        return Err(Error::invalid("offset too large — narrow the prefix or use the cursor")
            .with("limit", MAX_OFFSET));
    }
    within("offset", given, 0, 0..=MAX_OFFSET)
}

/// The prefix a cursor belongs to and the path it comes after.
fn place(cursors: &impl Cursors, cursor: &str, given: Option<Prefix>) -> Result<(Prefix, String)> {
    let invalid = || Error::invalid("cursor: not one of yours; list again without it");
    let place = cursors.open(cursor).ok_or_else(invalid)?;
    let place = String::from_utf8(place).map_err(|_| invalid())?;
    let (prefix, after) = place.split_once('\0').ok_or_else(invalid)?;
    let prefix = Prefix::parse(prefix)?;
    if given.is_some_and(|given| given != prefix) {
        return Err(Error::invalid("cursor: it belongs to another prefix; list again without it"));
    }
    Ok((prefix, after.to_owned()))
}

pub(crate) fn tool(desk: &Desk) -> Tool {
    desk::tool(desk, NAME, DESCRIPTION, |visit, arguments| async move {
        answer(&visit.desk.kb, arguments, &visit.call).await
    })
    .title("List documents")
    .read_only()
    .idempotent()
    .closed_world()
}
