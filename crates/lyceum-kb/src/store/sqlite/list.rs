//! Lists by path, and tags: one index range each, never a scan of the table.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Fault;
use super::row::{StoredDocument, document_columns, upper};
use crate::document::Meta;
use crate::store::ListPage;
use crate::write::MAX_TAG;

pub(super) const LIST: &str = concat!(
    "SELECT ",
    document_columns!(),
    " FROM document WHERE document.deleted_at IS NULL AND document.path >= ?1 AND document.path < ?2 \
     ORDER BY document.path LIMIT ?3 OFFSET ?4"
);

pub(super) const NEXT_TAG: &str = "SELECT tag FROM tag WHERE tag >= ?1 ORDER BY tag LIMIT 1";

/// Below every path: paths are not empty and hold no control characters.
const LOWEST: char = '\u{1}';

pub(super) fn list(
    connection: &Connection,
    page: &ListPage,
) -> std::result::Result<Vec<Meta>, Fault> {
    let mut statement = connection.prepare_cached(LIST)?;
    let (from, to) = range(page);
    let rows =
        statement.query_map(params![from, to, page.limit, page.offset], StoredDocument::read)?;
    rows.map(|row| Ok(row?.meta()?)).collect()
}

/// Where the list begins and ends.
pub(super) fn range(page: &ListPage) -> (String, Value) {
    let prefix = page.prefix.as_str().to_owned();
    // The first string after a path is the path with the lowest character appended.
    let after = page.after.as_ref().map_or(String::new(), |after| format!("{after}{LOWEST}"));
    let from = prefix.max(after).max(LOWEST.to_string());
    (from, upper(page.prefix.end()))
}

/// Tags in use, jumping from one to the next, however many documents carry each.
pub(super) fn tags(
    connection: &Connection,
    prefix: &str,
    limit: usize,
) -> std::result::Result<Vec<String>, Fault> {
    let mut tags = Vec::new();
    if prefix.len() > MAX_TAG {
        return Ok(tags);
    }
    let mut statement = connection.prepare_cached(NEXT_TAG)?;
    let mut from = prefix.to_owned();
    while tags.len() < limit {
        let next: Option<String> = statement.query_row([&from], |row| row.get(0)).optional()?;
        let Some(tag) = next.filter(|tag| tag.starts_with(prefix)) else { break };
        from = format!("{tag}\0");
        tags.push(tag);
    }
    Ok(tags)
}
