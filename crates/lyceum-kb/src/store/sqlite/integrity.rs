//! Reading everything and checking it: the file's structure, every seal, and that tables agree with each other.

use rusqlite::{Connection, Row, params};

use super::documents::StoredRevision;
use super::fault::Fault;
use super::readers::Readers;
use super::row::{StoredDocument, body_seal, document_columns};
use super::vectors;
use crate::Result;

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
        "SELECT id FROM lexical_docsize WHERE id NOT IN (SELECT key FROM document)",
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

pub(super) fn count_documents(connection: &Connection) -> std::result::Result<usize, Fault> {
    let sql = "SELECT count(*) FROM document WHERE deleted_at IS NULL";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// The problems found, through the readers of a store in use.
pub(super) async fn check(readers: &Readers) -> Result<Vec<String>> {
    let mut problems = readers.run(structure).await?;
    // A broken structure makes every other answer doubtful.
    if problems.is_empty() {
        for look in LOOKS {
            let mut after = Some(i64::MIN);
            while let Some(key) = after {
                let (last, found) = readers.run(move |connection| look(connection, key)).await?;
                problems.extend(found);
                after = last;
            }
        }
        problems.extend(readers.run(agreements).await?);
    }
    problems.truncate(MAX_PROBLEMS);
    Ok(problems)
}

/// The same for a file that nobody uses.
pub(super) fn check_now(connection: &Connection) -> std::result::Result<Vec<String>, Fault> {
    let mut problems = structure(connection)?;
    if problems.is_empty() {
        for look in LOOKS {
            let mut after = Some(i64::MIN);
            while let Some(key) = after {
                let (last, found) = look(connection, key)?;
                problems.extend(found);
                after = last;
            }
        }
        problems.extend(agreements(connection)?);
    }
    problems.truncate(MAX_PROBLEMS);
    Ok(problems)
}

const LOOKS: [Look; 4] = [bodies, documents, revisions, vector_rows];

fn structure(connection: &Connection) -> std::result::Result<Vec<String>, Fault> {
    let mut statement = connection.prepare("PRAGMA integrity_check")?;
    let found =
        statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}

fn agreements(connection: &Connection) -> std::result::Result<Vec<String>, Fault> {
    let mut problems = Vec::new();
    for (sql, meaning) in AGREEMENTS {
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
