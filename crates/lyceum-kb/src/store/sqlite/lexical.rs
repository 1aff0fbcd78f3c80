//! The lexical index: the words of living documents.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::fault::Fault;
use super::pieces;

/// What is indexed of a document.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) title: String,
    pub(super) path: String,
    pub(super) tags: String,
    pub(super) body: String,
    /// Whether the document has words in the index already.
    pub(super) known: bool,
}

const ADD: &str =
    "INSERT INTO lexical (rowid, title, path, tags, body) VALUES (?1, ?2, ?3, ?4, ?5)";

const REPLACE: &str =
    "INSERT OR REPLACE INTO lexical (rowid, title, path, tags, body) VALUES (?1, ?2, ?3, ?4, ?5)";

const REMOVE: &str = "DELETE FROM lexical WHERE rowid = ?1";

/// Merges pieces of the index, writing about so many pages of it.
const MERGE: &str = "INSERT INTO lexical (lexical, rank) VALUES ('merge', ?1)";

/// Makes the changes, for each document only the last.
///
/// In the order of their keys: whenever a key is lower than the one before, FTS5 writes out what it has gathered, and
/// each time that is another piece to be merged later.
pub(super) fn store(
    connection: &Connection,
    changes: &[(i64, Option<Words>)],
) -> std::result::Result<(), Fault> {
    let mut last: BTreeMap<i64, (bool, &Option<Words>)> = BTreeMap::new();
    for (key, words) in changes {
        let known = words.as_ref().is_none_or(|words| words.known);
        let before = last.get(key).is_some_and(|(known, _)| *known);
        last.insert(*key, (known || before, words));
    }
    for (key, (known, words)) in last {
        let Some(Words { title, path, tags, body, .. }) = words else {
            connection.prepare_cached(REMOVE)?.execute([key])?;
            pieces::remove(connection, key)?;
            continue;
        };
        // Replacing looks for something to replace, which takes a while.
        let put = if known { REPLACE } else { ADD };
        let first = pieces::piece(body, 0);
        connection.prepare_cached(put)?.execute(params![key, title, path, tags, first])?;
        if known {
            pieces::remove(connection, key)?;
        }
        pieces::enqueue(connection, key, body)?;
    }
    Ok(())
}

/// Merges pieces of the index, writing about so many pages of it, so that searches need not look into many; says whether
/// there was something to do.
pub(super) fn merge(connection: &Connection, pages: usize) -> rusqlite::Result<bool> {
    let before = connection.total_changes();
    connection.prepare_cached(MERGE)?.execute([pages])?;
    // The statement itself counts as a change.
    Ok(connection.total_changes() - before >= 2)
}
