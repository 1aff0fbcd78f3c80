//! Reading everything and checking it, in pieces, so that no reader holds the log for long.

use rusqlite::Connection;

use super::fault::Fault;
use super::readers::Readers;
use crate::Result;

pub(super) fn count_documents(connection: &Connection) -> std::result::Result<usize, Fault> {
    let sql = "SELECT count(*) FROM document WHERE deleted_at IS NULL";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// The problems found.
pub(super) async fn check(readers: &Readers) -> Result<Vec<String>> {
    readers.run(structure).await
}

fn structure(connection: &Connection) -> std::result::Result<Vec<String>, Fault> {
    let mut statement = connection.prepare("PRAGMA integrity_check")?;
    let found =
        statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}
