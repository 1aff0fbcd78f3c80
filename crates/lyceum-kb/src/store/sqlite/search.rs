//! Finding documents by words and by filter.
//!
//! Statements are constants and everything a caller says is bound, so no text of theirs is ever read as SQL.

use std::collections::HashSet;

use rusqlite::types::Value;
use rusqlite::{Connection, params};

use super::fault::Fault;
use super::row::upper;
use crate::query::Query;
use crate::store::{Filter, LexicalHit};

/// Whether `document` passes the filter bound to ?1 to ?4.
macro_rules! passes {
    () => {
        " document.deleted_at IS NULL AND document.path >= ?1 AND document.path < ?2 \
         AND document.updated_at >= ?3 \
         AND NOT EXISTS (SELECT 1 FROM json_each(?4) AS wanted WHERE NOT EXISTS \
         (SELECT 1 FROM tag WHERE tag.tag = wanted.value AND tag.document = document.key)) "
    };
}

const SEARCH: &str =
    "SELECT rowid, -rank FROM lexical WHERE lexical MATCH ?1 ORDER BY rank LIMIT ?2";

/// The words come first: CROSS keeps the order.
const SEARCH_FILTERED: &str = concat!(
    "SELECT lexical.rowid, -lexical.rank FROM lexical CROSS JOIN document ON document.key = lexical.rowid \
     WHERE lexical MATCH ?5 AND",
    passes!(),
    "ORDER BY lexical.rank LIMIT ?6"
);

const MATCHING: &str = concat!("SELECT document.key FROM document WHERE", passes!());

/// The same, beginning with the documents that have a tag.
const MATCHING_TAG: &str = concat!(
    "SELECT document.key FROM tag AS first CROSS JOIN document ON document.key = first.document \
     WHERE first.tag = ?5 AND",
    passes!()
);

/// The values bound to ?1 to ?4.
struct Bound {
    from: String,
    to: Value,
    since: i64,
    tags: String,
}

pub(super) fn lexical(
    connection: &Connection,
    query: &Query,
    filter: &Filter,
    limit: usize,
) -> std::result::Result<Vec<LexicalHit>, Fault> {
    let Some(words) = query.fts5() else { return Ok(Vec::new()) };
    let read = |row: &rusqlite::Row<'_>| Ok(LexicalHit { key: row.get(0)?, score: row.get(1)? });
    if filter.is_empty() {
        let mut statement = connection.prepare_cached(SEARCH)?;
        let hits = statement.query_map(params![words, limit], read)?;
        return Ok(hits.collect::<rusqlite::Result<_>>()?);
    }
    let Bound { from, to, since, tags } = bound(filter);
    let mut statement = connection.prepare_cached(SEARCH_FILTERED)?;
    let hits = statement.query_map(params![from, to, since, tags, words, limit], read)?;
    Ok(hits.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn matching(
    connection: &Connection,
    filter: &Filter,
) -> std::result::Result<HashSet<i64>, Fault> {
    let Bound { from, to, since, tags } = bound(filter);
    let read = |row: &rusqlite::Row<'_>| row.get(0);
    let keys = match filter.tags.first() {
        None => connection
            .prepare_cached(MATCHING)?
            .query_map(params![from, to, since, tags], read)?
            .collect::<rusqlite::Result<_>>()?,
        Some(tag) => connection
            .prepare_cached(MATCHING_TAG)?
            .query_map(params![from, to, since, tags, tag], read)?
            .collect::<rusqlite::Result<_>>()?,
    };
    Ok(keys)
}

fn bound(filter: &Filter) -> Bound {
    Bound {
        from: filter.prefix.as_str().to_owned(),
        to: upper(filter.prefix.end()),
        since: filter.updated_since.unwrap_or(i64::MIN),
        tags: serde_json::to_string(&filter.tags).expect("texts can be written as JSON"),
    }
}
