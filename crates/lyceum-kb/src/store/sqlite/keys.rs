//! API keys at rest: names, dates and hashes, never secrets.

use rusqlite::{Connection, ErrorCode, Row, params};

use super::fault::Fault;
use crate::Error;
use crate::document::Millis;
use crate::store::ApiKey;

pub(super) fn all(connection: &Connection) -> std::result::Result<Vec<ApiKey>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT id, name, secret_sha256, created_at, expires_at, revoked_at FROM api_key \
         ORDER BY created_at, id",
    )?;
    let rows = statement.query_map([], read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<ApiKey> {
    Ok(ApiKey {
        id: row.get(0)?,
        name: row.get(1)?,
        secret_sha256: row.get(2)?,
        created_at: row.get(3)?,
        expires_at: row.get(4)?,
        revoked_at: row.get(5)?,
    })
}

pub(super) fn add(connection: &Connection, key: &ApiKey) -> std::result::Result<(), Fault> {
    let ApiKey { id, name, secret_sha256, created_at, expires_at, revoked_at } = key;
    let added = connection
        .prepare_cached(
            "INSERT INTO api_key (id, name, secret_sha256, created_at, expires_at, revoked_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![id, name, secret_sha256, created_at, expires_at, revoked_at]);
    match added {
        Ok(_) => Ok(()),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            Err(Error::conflict(format!("a key with the id {id} exists already")).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Revokes what is not revoked yet; how many of them had not expired.
pub(super) fn revoke(
    connection: &Connection,
    name_or_id: &str,
    now: Millis,
) -> std::result::Result<usize, Fault> {
    let mut statement = connection.prepare_cached(
        "UPDATE api_key SET revoked_at = ?2 WHERE (name = ?1 OR id = ?1) AND revoked_at IS NULL \
         RETURNING coalesce(expires_at > ?2, 1)",
    )?;
    let live = statement
        .query_map(params![name_or_id, now], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<bool>>>()?;
    Ok(live.into_iter().filter(|live| *live).count())
}
