//! Reading everything and checking it: the file's structure, every seal, and that tables agree with each other.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rusqlite::{Connection, ErrorCode, InterruptHandle, Row, ffi, params};
use tokio::sync::oneshot;

use super::documents::StoredRevision;
use super::fault::Fault;
use super::pieces::document_of;
use super::row::{StoredDocument, body_seal, document_columns};
use super::{connection, vectors};
use crate::{Error, Result};

/// How many rows are read at a time, so that no reader holds the log for long.
const PIECE: usize = 500;

/// How many problems are named; more would not help anybody.
const MAX_PROBLEMS: usize = 100;

/// Statements that must find nothing, and what it means if they do.
const AGREEMENTS: [(&str, &str); 7] = [
    ("SELECT \"table\" FROM pragma_foreign_key_check", "a row refers to nothing in table"),
    (
        "SELECT document.path FROM document WHERE document.revision <> \
         (SELECT count(*) FROM revision WHERE revision.document = document.key AND revision.revision BETWEEN 1 \
         AND document.revision)",
        "revisions are missing of",
    ),
    (
        "SELECT document.path FROM document LEFT JOIN revision ON revision.document = document.key \
         AND revision.revision = document.revision WHERE revision.body IS NOT document.body \
         OR revision.title IS NOT document.title OR revision.deleted_at IS NOT document.deleted_at",
        "the last revision differs from the document",
    ),
    (
        "SELECT document.path FROM document LEFT JOIN lexical_docsize ON lexical_docsize.id = document.key \
         WHERE (document.deleted_at IS NULL) = (lexical_docsize.id IS NULL)",
        "the lexical index is wrong about",
    ),
    (
        concat!(
            "SELECT id FROM lexical_docsize WHERE ",
            document_of!("id"),
            " NOT IN (SELECT key FROM document WHERE deleted_at IS NULL)"
        ),
        "the lexical index knows an unknown document",
    ),
    (
        "SELECT document.path FROM document, json_each(document.tags) AS wanted LEFT JOIN tag \
         ON tag.tag = wanted.value AND tag.document = document.key \
         WHERE (document.deleted_at IS NULL) = (tag.tag IS NULL)",
        "the tags are wrong of",
    ),
    (
        "SELECT max(id) FROM audit HAVING count(*) <> coalesce(max(id), 0)",
        "audit lines are missing before line",
    ),
];

const BODIES: &str = "SELECT key, seal, text FROM body WHERE key > ?1 ORDER BY key LIMIT ?2";

const DOCUMENTS: &str =
    concat!("SELECT ", document_columns!(), " FROM document WHERE key > ?1 ORDER BY key LIMIT ?2");

const REVISIONS: &str = concat!(
    super::documents::revisions!(),
    "WHERE revision.rowid > ?1 ORDER BY revision.rowid LIMIT ?2"
);

const VECTORS: &str = "SELECT seq, set_id, document, text_revision, n, seal, chunks FROM vector \
                       WHERE seq > ?1 ORDER BY seq LIMIT ?2";

/// A look at some rows after a key: the last key, and the problems among them.
type Look = fn(&Connection, i64) -> std::result::Result<(Option<i64>, Vec<String>), Fault>;

const LOOKS: [Look; 4] = [bodies, documents, revisions, vector_rows];

/// What FTS5 says when it could not look, as opposed to what it says about what it saw.
const NOT_LOOKED: &str = "unable to validate the inverted index";

/// Tells a check that its result is no longer wanted.
#[derive(Clone, Default)]
struct Cancel {
    cancelled: Arc<AtomicBool>,
    running: Arc<Mutex<Option<InterruptHandle>>>,
}

/// Cancels the check when its caller goes away.
struct CancelOnDrop(Cancel);

pub(super) fn count_documents(connection: &Connection) -> std::result::Result<usize, Fault> {
    let sql = "SELECT count(*) FROM document WHERE deleted_at IS NULL";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// The problems of a file in use; an error when it could not be checked, which is no damage.
///
/// Runs in a thread of its own, which gives way to calls, and ends soon after the future is dropped.
pub(super) async fn check(path: &Path) -> Result<Vec<String>> {
    let cannot = |why: &str| Error::unavailable(format!("cannot check the knowledge base: {why}"));
    let (reply, answer) = oneshot::channel();
    let (path, cancel) = (path.to_owned(), Cancel::default());
    let guard = CancelOnDrop(cancel.clone());
    thread::Builder::new()
        .name("kb-integrity".to_owned())
        .spawn(move || {
            lyceum_work::lower_priority();
            // Without a listener the check was cancelled.
            let _ = reply.send(confirmed(|| checked_anew(&path, &cancel)));
        })
        .map_err(|error| cannot(&error.to_string()))?;
    let checked = answer.await;
    drop(guard);
    checked.unwrap_or_else(|_| Err(cannot("its thread ended early")))
}

/// What two looks in a row find, each on a connection of its own: FTS5 keeps the structure of its index per connection and
/// checks the present file by it, so that a connection that has searched before finds damage where there is none.
fn confirmed(mut look: impl FnMut() -> Result<Vec<String>>) -> Result<Vec<String>> {
    let first = look()?;
    if first.is_empty() {
        return Ok(first);
    }
    let second = look()?;
    if second.is_empty() {
        tracing::debug!(?first, "a second look found the store whole");
    }
    Ok(second)
}

fn checked_anew(path: &Path, cancel: &Cancel) -> Result<Vec<String>> {
    let connection = connection::open_reader(path)?;
    cancel.watch(&connection);
    let checked = examine(&connection, cancel);
    cancel.forget();
    checked.or_else(|fault| match what_it_means(&fault) {
        Some(damage) => Ok(vec![damage]),
        None => Err(fault.into_error()),
    })
}

/// The damage behind a failure; `None` when it says nothing about the data.
fn what_it_means(fault: &Fault) -> Option<String> {
    let Fault::Sqlite(error) = fault else { return None };
    let Some(inner) = error.sqlite_error() else {
        // A value that is not what its column holds.
        return Some(error.to_string());
    };
    let unreadable = [
        ffi::SQLITE_IOERR_READ,
        ffi::SQLITE_IOERR_SHORT_READ,
        ffi::SQLITE_IOERR_DATA,
        ffi::SQLITE_IOERR_CORRUPTFS,
    ];
    let damaged = matches!(inner.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        || unreadable.contains(&inner.extended_code);
    damaged.then(|| error.to_string())
}

/// The problems of a file that no other process uses.
pub(super) fn check_now(connection: &Connection) -> std::result::Result<Vec<String>, Fault> {
    examine(connection, &Cancel::default())
}

fn examine(connection: &Connection, cancel: &Cancel) -> std::result::Result<Vec<String>, Fault> {
    let mut problems = structure(connection, cancel)?;
    // A broken structure makes every other answer doubtful.
    if problems.is_empty() {
        for look in LOOKS {
            let mut after = Some(i64::MIN);
            while let Some(key) = after
                && problems.len() < MAX_PROBLEMS
            {
                cancel.check()?;
                let (last, found) = look(connection, key)?;
                problems.extend(found);
                after = last;
            }
        }
        problems.extend(agreements(connection, cancel)?);
    }
    problems.truncate(MAX_PROBLEMS);
    Ok(problems)
}

fn structure(connection: &Connection, cancel: &Cancel) -> std::result::Result<Vec<String>, Fault> {
    cancel.check()?;
    let mut statement = connection.prepare("PRAGMA integrity_check")?;
    let found =
        statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    cancel.check()?;
    if let Some(why) = found.iter().find(|line| line.contains(NOT_LOOKED)) {
        return Err(Error::unavailable(format!("the index of words: {why}")).into());
    }
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}

fn agreements(connection: &Connection, cancel: &Cancel) -> std::result::Result<Vec<String>, Fault> {
    let mut problems = Vec::new();
    for (sql, meaning) in AGREEMENTS {
        cancel.check()?;
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()?
            && problems.len() < MAX_PROBLEMS
        {
            problems.push(format!("{meaning} {}", shown(row)?));
        }
    }
    Ok(problems)
}

impl Cancel {
    fn watch(&self, connection: &Connection) {
        *self.running() = Some(connection.get_interrupt_handle());
    }

    fn forget(&self) {
        *self.running() = None;
    }

    fn check(&self) -> std::result::Result<(), Fault> {
        match self.cancelled.load(Ordering::Acquire) {
            true => Err(Error::unavailable("the check was cancelled").into()),
            false => Ok(()),
        }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<InterruptHandle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancelled.store(true, Ordering::Release);
        if let Some(running) = &*self.0.running() {
            running.interrupt();
        }
    }
}

fn shown(row: &Row<'_>) -> rusqlite::Result<String> {
    use rusqlite::types::ValueRef;
    Ok(match row.get_ref(0)? {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    })
}

/// Reads some rows with `read`, which gives each row's key and what is wrong with it.
fn look(
    connection: &Connection,
    sql: &str,
    after: i64,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<(i64, Option<String>)>,
) -> std::result::Result<(Option<i64>, Vec<String>), Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement
        .query_map(params![after, PIECE], |row| read(row))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let last = rows.last().map(|(key, _)| *key);
    Ok((last, rows.into_iter().filter_map(|(_, problem)| problem).collect()))
}

fn bodies(
    connection: &Connection,
    after: i64,
) -> std::result::Result<(Option<i64>, Vec<String>), Fault> {
    look(connection, BODIES, after, |row| {
        let (key, seal): (i64, i64) = (row.get(0)?, row.get(1)?);
        let text = row.get_ref(2)?.as_str().unwrap_or_default();
        Ok((key, (body_seal(key, text) != seal).then(|| format!("text {key} is damaged"))))
    })
}

fn documents(
    connection: &Connection,
    after: i64,
) -> std::result::Result<(Option<i64>, Vec<String>), Fault> {
    look(connection, DOCUMENTS, after, |row| {
        let document = StoredDocument::read(row)?;
        let whole = document.is_whole();
        Ok((document.key, (!whole).then(|| format!("document {:?} is damaged", document.path))))
    })
}

fn revisions(
    connection: &Connection,
    after: i64,
) -> std::result::Result<(Option<i64>, Vec<String>), Fault> {
    look(connection, REVISIONS, after, |row| {
        let revision = StoredRevision::read(row)?;
        let rowid: i64 = row.get("rowid")?;
        let StoredDocument { path, revision: number, .. } = &revision.state;
        let problem =
            (!revision.is_whole()).then(|| format!("revision {number} of {path:?} is damaged"));
        Ok((rowid, problem))
    })
}

fn vector_rows(
    connection: &Connection,
    after: i64,
) -> std::result::Result<(Option<i64>, Vec<String>), Fault> {
    look(connection, VECTORS, after, |row| {
        let (seq, set, key): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (text_revision, n, seal): (i64, i64, i64) = (row.get(3)?, row.get(4)?, row.get(5)?);
        let chunks = row.get_ref(6)?.as_blob().unwrap_or_default();
        let whole = n == 0 || vectors::seal(set, key, text_revision, chunks) == seal;
        Ok((seq, (!whole).then(|| format!("the vectors of document {key} are damaged"))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_second_look_does_not_find_is_no_damage() {
        let (damage, whole) = (vec!["a page".to_owned()], Vec::new());
        for (looks, found) in [
            (vec![whole.clone()], &whole),
            (vec![damage.clone(), whole.clone()], &whole),
            (vec![damage.clone(), damage.clone()], &damage),
        ] {
            let mut looks = looks.into_iter();
            let confirmed = confirmed(|| Ok(looks.next().expect("a look")));
            assert_eq!(confirmed.unwrap(), *found);
            assert_eq!(looks.next(), None, "all looks were taken");
        }
    }
}
