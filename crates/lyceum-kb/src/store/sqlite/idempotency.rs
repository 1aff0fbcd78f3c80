//! Answers already given, kept for a while: a repeated request is answered again and not carried out again.

use rusqlite::{Connection, OptionalExtension, params};

use super::fault::{Fault, damaged};
use crate::document::Millis;
use crate::write::{Actor, Idempotency, Status, Written};
use crate::{DocPath, Error};

/// How many old answers one write forgets.
const SWEEP: usize = 64;

const FIND: &str = "SELECT digest, path, status, revision FROM idempotency \
                    WHERE principal = ?1 AND tool = ?2 AND key = ?3 AND at > ?4";

const KEEP: &str = "INSERT OR REPLACE INTO idempotency \
                    (principal, tool, key, digest, path, status, revision, at) \
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

const FORGET: &str = "DELETE FROM idempotency WHERE (principal, tool, key) IN \
                      (SELECT principal, tool, key FROM idempotency WHERE at <= ?1 ORDER BY at LIMIT ?2)";

/// The answer given to the same request since then, if any; refuses the same key with other arguments.
pub(super) fn answered(
    connection: &Connection,
    by: &Actor,
    idempotency: &Idempotency,
    since: Millis,
) -> std::result::Result<Option<Written>, Fault> {
    let found: Option<(Vec<u8>, String, String, i64)> = connection
        .prepare_cached(FIND)?
        .query_row(params![by.principal, by.tool, idempotency.key, since], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    let Some((digest, path, status, revision)) = found else { return Ok(None) };
    if digest != idempotency.digest {
        return Err(Error::conflict(
            "this idempotency_key was used with other arguments; give a new key for a new request",
        )
        .into());
    }
    let wrong = || damaged("an answer kept for an idempotency key");
    let status = Status::ALL.into_iter().find(|known| known.as_str() == status);
    Ok(Some(Written {
        path: DocPath::parse(&path).map_err(|_| wrong())?,
        status: status.ok_or_else(wrong)?,
        revision,
    }))
}

/// Keeps the answer, and forgets some from before `since`.
pub(super) fn keep(
    connection: &Connection,
    by: &Actor,
    idempotency: &Idempotency,
    written: &Written,
    now: Millis,
    since: Millis,
) -> std::result::Result<(), Fault> {
    connection.prepare_cached(FORGET)?.execute(params![since, SWEEP])?;
    connection.prepare_cached(KEEP)?.execute(params![
        by.principal,
        by.tool,
        idempotency.key,
        idempotency.digest,
        written.path.as_str(),
        written.status.as_str(),
        written.revision,
        now
    ])?;
    Ok(())
}
