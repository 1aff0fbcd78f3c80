//! Putting a copy of the file in the place of a knowledge base that is not in use.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

use super::backup::{Partial, check_content, remove, single_file};
use super::connection::{self, InUse, beside, cannot};
use super::fault::Fault;
use super::{keys, length, mark};
use crate::document::Millis;
use crate::store::ApiKey;
use crate::{Error, Result};

/// What SQLite keeps beside a file that was not closed: parts of the file's content.
const LOGS: [&str; 2] = ["-wal", "-journal"];

/// What restoring did to the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Keys that are good now and were not before.
    pub keys_back: Vec<ApiKey>,
    /// Keys that were good before and are not known any more.
    pub keys_gone: Vec<ApiKey>,
    /// Keys that were good in the backup, had been revoked since, and stay revoked.
    pub keys_kept_revoked: Vec<ApiKey>,
    /// Why the keys of the old file could not be read, if they could not: then no revocation was kept.
    pub keys_unknown: Option<String>,
}

/// Puts a copy in the place of a knowledge base that no process uses, after checking all of it.
///
/// The log beside the copy, if there is one, is part of it. Revocations of keys outlive the change. The old file stays as
/// it is until the new one takes its name.
pub fn restore(from: &Path, to: &Path) -> Result<Restored> {
    if !from.is_file() {
        return Err(Error::not_found(format!("{}: no such file", from.display())));
    }
    connection::create_directory_of(to)?;
    let _alone = InUse::alone(to)?;
    let partial = Partial::create(to)?;
    copy_with_log(from, partial.path())?;
    let named = |fault: Fault| {
        let error = fault.into_error();
        Error::new(error.code(), format!("{}: {}", from.display(), error.message()))
    };
    let copy = connection::open(partial.path(), OpenFlags::SQLITE_OPEN_READ_WRITE)
        .map_err(|error| named(error.into()))?;
    let mut damaged = check_content(&copy).map_err(named)?;
    damaged.extend(mark::missing(from, &copy).map_err(named)?);
    if let Some(first) = damaged.first() {
        let message = format!("{} is damaged ({first}); choose another backup", from.display());
        return Err(Error::invalid(message).with("problems", damaged.clone()));
    }
    let restored = keep_revocations(&copy, to).map_err(named)?;
    single_file(&copy).map_err(named)?;
    drop(copy);
    forget_log(to)?;
    mark::forget(to)?;
    partial.keep()?;
    Ok(restored)
}

/// Copies the file, and what SQLite keeps beside it, to where SQLite will put the two together.
fn copy_with_log(from: &Path, to: &Path) -> Result<()> {
    // Logs are beside the file itself, whatever links lead to it.
    let from = from.canonicalize().map_err(|error| cannot("read", from, &error))?;
    // Of a file that changes while it is copied, the parts do not fit together.
    let _unused = beside(&from, ".lock").is_file().then(|| InUse::alone(&from)).transpose()?;
    let cut = fs::File::open(&from).and_then(|file| length::problem(&from, &file));
    if let Some(cut) = cut.map_err(|error| cannot("read", &from, &error))? {
        let message = format!("{} is damaged ({cut}); choose another backup", from.display());
        return Err(Error::invalid(message));
    }
    copy_private(&from, to)?;
    for suffix in LOGS {
        let log = beside(&from, suffix);
        if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            copy_private(&log, &beside(to, suffix))?;
        }
    }
    Ok(())
}

fn copy_private(from: &Path, to: &Path) -> Result<()> {
    drop(connection::create(to)?);
    fs::copy(from, to).map_err(|error| cannot("copy", from, &error))?;
    #[cfg(unix)]
    fs::set_permissions(to, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .map_err(|error| cannot("copy", from, &error))?;
    Ok(())
}

/// Revokes in `copy` what is revoked in the file it will replace, and compares the keys of the two.
fn keep_revocations(copy: &Connection, old: &Path) -> std::result::Result<Restored, Fault> {
    let now = super::now();
    let (before, keys_unknown) = match present_keys(old) {
        Ok(keys) => (keys, None),
        Err(error) => (Vec::new(), Some(error.message().to_owned())),
    };
    let stored = keys::all(copy)?;
    let known = |keys: &[ApiKey], id: &str| keys.iter().any(|key| key.id == id);
    let mut restored = Restored { keys_unknown, ..Restored::default() };
    let transaction = copy.unchecked_transaction()?;
    for key in before.iter().filter(|key| key.revoked_at.is_some()) {
        if !known(&stored, &key.id) {
            // It shows that there were keys, so that a server does not take itself for one that needs none.
            keys::add(copy, key)?;
            continue;
        }
        let revoked = copy
            .prepare_cached(
                "UPDATE api_key SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
            )?
            .execute(params![key.id, key.revoked_at])?;
        if revoked > 0 && key.expires_at.is_none_or(|end| now < end) {
            restored.keys_kept_revoked.push(key.clone());
        }
    }
    transaction.commit()?;
    let after = keys::all(copy)?;
    let good = |key: &&ApiKey| is_good(key, now);
    let was_good = |id: &str| before.iter().filter(good).any(|key| key.id == id);
    let back = after.iter().filter(good).filter(|key| !was_good(&key.id));
    restored.keys_back = back.cloned().collect();
    let gone = before.iter().filter(good).filter(|key| !known(&after, &key.id));
    restored.keys_gone = gone.cloned().collect();
    Ok(restored)
}

fn is_good(key: &ApiKey, now: Millis) -> bool {
    key.revoked_at.is_none() && key.expires_at.is_none_or(|end| now < end)
}

/// The keys of the file that will be replaced; none if there is no file.
fn present_keys(path: &Path) -> Result<Vec<ApiKey>> {
    if !fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        return Ok(Vec::new());
    }
    let connection = connection::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    keys::all(&connection).map_err(Fault::into_error)
}

/// Ends the log of the old file, which must not be applied to the new one.
fn forget_log(old: &Path) -> Result<()> {
    if old.is_file() {
        let folded = connection::open(old, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .and_then(|open| single_file(&open).map_err(Fault::into_error));
        if let Err(error) = folded {
            // A file too damaged to be opened is what backups are for.
            tracing::warn!(error = error.message(), "the old file is replaced as it is");
        }
    }
    for suffix in ["-wal", "-shm", "-journal"] {
        remove(&beside(old, suffix))?;
    }
    Ok(())
}
