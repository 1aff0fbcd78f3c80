//! The lexical index: the words of living documents.

use std::collections::HashSet;

use rusqlite::{Connection, params};

use super::fault::Fault;

/// What is indexed of a document.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) title: String,
    pub(super) path: String,
    pub(super) tags: String,
    pub(super) body: String,
}

const PUT: &str =
    "INSERT OR REPLACE INTO lexical (rowid, title, path, tags, body) VALUES (?1, ?2, ?3, ?4, ?5)";

const REMOVE: &str = "DELETE FROM lexical WHERE rowid = ?1";

/// Makes the changes, for each document only the last.
pub(super) fn store(
    connection: &Connection,
    changes: &[(i64, Option<Words>)],
) -> std::result::Result<(), Fault> {
    let mut seen = HashSet::new();
    for (key, words) in changes.iter().rev().filter(|(key, _)| seen.insert(*key)) {
        match words {
            None => connection.prepare_cached(REMOVE)?.execute([key])?,
            Some(Words { title, path, tags, body }) => {
                connection.prepare_cached(PUT)?.execute(params![key, title, path, tags, body])?
            }
        };
    }
    Ok(())
}
