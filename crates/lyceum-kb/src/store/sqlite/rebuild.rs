//! Making the index of words again from the documents, for a file whose index is damaged.

use std::path::Path;

use rusqlite::{Connection, params};

use super::connection::{self, InUse};
use super::fault::Fault;
use super::lexical::{self, Words};
use super::{documents, integrity, pieces};
use crate::{Error, Result};

/// Documents read at a time.
const STEP: usize = 200;

const KEYS: &str =
    "SELECT key FROM document WHERE key > ?1 AND deleted_at IS NULL ORDER BY key LIMIT ?2";

/// Makes the index of words again in a file that nobody uses; all of it or nothing. `report` hears how many documents
/// are done, and how many there are. Returns the latter.
pub fn rebuild_words(path: &Path, mut report: impl FnMut(usize, usize)) -> Result<usize> {
    if !path.is_file() {
        return Err(Error::not_found(format!("{}: no such file", path.display())));
    }
    let _alone = InUse::alone(path)?;
    let connection = connection::open_writer(path)?;
    let rebuilt = rebuild(&connection, &mut report);
    rebuilt.map_err(|fault| {
        let error = fault.into_error();
        Error::new(error.code(), format!("{}: {}", path.display(), error.message()))
    })
}

fn rebuild(
    connection: &Connection,
    report: &mut dyn FnMut(usize, usize),
) -> std::result::Result<usize, Fault> {
    let transaction = connection.unchecked_transaction()?;
    let n_documents = integrity::count_documents(connection)?;
    connection.execute("INSERT INTO lexical (lexical) VALUES ('delete-all')", [])?;
    connection.execute("DELETE FROM lexical_pending", [])?;
    let (mut after, mut done) = (0, 0);
    loop {
        let keys = keys_after(connection, after)?;
        let Some(last) = keys.last() else { break };
        after = *last;
        done += keys.len();
        index(connection, &keys)?;
        for key in pieces::pending(connection)? {
            while pieces::index_next(connection, key)? {}
        }
        report(done, n_documents);
    }
    transaction.commit()?;
    Ok(n_documents)
}

fn keys_after(connection: &Connection, after: i64) -> std::result::Result<Vec<i64>, Fault> {
    let mut statement = connection.prepare_cached(KEYS)?;
    let keys = statement.query_map(params![after, STEP], |row| row.get(0))?;
    Ok(keys.collect::<rusqlite::Result<_>>()?)
}

fn index(connection: &Connection, keys: &[i64]) -> std::result::Result<(), Fault> {
    let documents = documents::by_key(connection, keys)?;
    let words = documents.into_iter().map(|document| {
        let words = Words {
            title: document.meta.title,
            path: document.meta.path.as_str().to_owned(),
            tags: document.meta.tags.join("\n"),
            body: document.body,
            known: false,
        };
        (document.meta.key, Some(words))
    });
    lexical::store(connection, &words.collect::<Vec<_>>())
}
