//! The audit trail. It is never shortened: lines are small, and a trail with holes proves nothing.

use rusqlite::{Connection, Row, params};

use super::fault::Fault;
use crate::document::Millis;
use crate::store::{AuditEntry, AuditLine};
use crate::write::Actor;

const INSERT: &str = "INSERT INTO audit (at, principal, profile, tool, document, outcome, request_id) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

const TRAIL: &str = "SELECT id, at, principal, profile, tool, document, outcome, request_id \
                     FROM audit WHERE id < ?1 ORDER BY id DESC LIMIT ?2";

pub(super) fn insert(
    connection: &Connection,
    now: Millis,
    entry: &AuditEntry,
) -> std::result::Result<(), Fault> {
    let AuditEntry { actor, document, outcome } = entry;
    let Actor { principal, profile, tool, request_id } = actor;
    connection
        .prepare_cached(INSERT)?
        .execute(params![now, principal, profile, tool, document, outcome, request_id])?;
    Ok(())
}

pub(super) fn trail(
    connection: &Connection,
    before: Option<i64>,
    limit: usize,
) -> std::result::Result<Vec<AuditLine>, Fault> {
    let mut statement = connection.prepare_cached(TRAIL)?;
    let rows = statement.query_map(params![before.unwrap_or(i64::MAX), limit], line)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn line(row: &Row<'_>) -> rusqlite::Result<AuditLine> {
    let actor = Actor {
        principal: row.get(2)?,
        profile: row.get(3)?,
        tool: row.get(4)?,
        request_id: row.get(7)?,
    };
    let entry = AuditEntry { actor, document: row.get(5)?, outcome: row.get(6)? };
    Ok(AuditLine { id: row.get(0)?, at: row.get(1)?, entry })
}
