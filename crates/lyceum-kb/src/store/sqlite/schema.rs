//! The tables, and the steps that bring an older file up to date.
//!
//! Each step runs once, in a transaction of its own, and its number is kept in `user_version`. A released step is never
//! edited; a change is a new step at the end of [`STEPS`].

use rusqlite::Connection;

use super::fault::Fault;
use crate::Error;

/// Marks the file as ours: `Lyce` in ASCII.
pub(super) const APPLICATION_ID: i32 = 0x4c79_6365;

/// Step n leads from schema version n to n + 1.
pub(super) const STEPS: [&str; 4] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
];

/// Brings the file to the newest version, or says why it cannot be used.
pub(super) fn migrate(connection: &Connection) -> Result<(), Fault> {
    migrate_to(connection, STEPS.len())
}

pub(super) fn migrate_to(connection: &Connection, target: usize) -> Result<(), Fault> {
    check_ours(connection)?;
    while version(connection)? < target {
        // Another process may migrate at the same time; the version counts only once we hold the write lock.
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let stepped = step(connection, target);
        connection.execute_batch(if stepped.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
        stepped?;
    }
    Ok(())
}

fn step(connection: &Connection, target: usize) -> Result<(), Fault> {
    let version = version(connection)?;
    if version < target {
        connection.execute_batch(STEPS[version])?;
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", version + 1)?;
    }
    Ok(())
}

/// Refuses files of other programs and of newer versions of this one.
pub(super) fn check_ours(connection: &Connection) -> Result<(), Fault> {
    let application: i32 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application != APPLICATION_ID && (application != 0 || tables > 0) {
        return Err(Error::invalid(
            "this file is a database of another program; choose another file",
        )
        .into());
    }
    let found = version(connection)?;
    if found > STEPS.len() {
        return Err(Error::invalid(format!(
            "this knowledge base has schema version {found}, this program knows up to {}; use a newer program",
            STEPS.len()
        ))
        .into());
    }
    Ok(())
}

pub(super) fn version(connection: &Connection) -> Result<usize, Fault> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}
