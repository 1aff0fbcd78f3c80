//! How far acknowledged writes had come, kept in a small file beside the database.
//!
//! SQLite takes a damaged place in its log for the log's end, so damage there would undo acknowledged writes without a
//! word. The mark tells. It is written after every commit but not flushed: it outlives the process, and after a power
//! cut it may be old, so it says too little rather than too much.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use super::connection::{self, beside, cannot};
use super::fault::Fault;
use crate::Result;

const MARK: &str = ".mark";
const LOST: &str = ".lost";

/// The last audit line there must be.
#[derive(Debug)]
pub(super) struct Mark {
    state: Mutex<State>,
    lost: PathBuf,
}

#[derive(Debug)]
struct State {
    file: File,
    line: i64,
}

/// What the mark said before the database was opened.
#[derive(Debug)]
pub(super) struct Remembered {
    file: File,
    line: i64,
}

impl Remembered {
    /// To be read before the database is, because others may write meanwhile.
    pub(super) fn read(database: &Path) -> Result<Remembered> {
        let path = beside(database, MARK);
        let mut file = connection::create(&path)?;
        let mut bytes = Vec::new();
        (&mut file)
            .take(32)
            .read_to_end(&mut bytes)
            .map_err(|error| cannot("read", &path, &error))?;
        // Without its database it means nothing, and one that is damaged neither.
        let is_new = fs::metadata(database).map_or(true, |metadata| metadata.len() == 0);
        let line = decode(&bytes).filter(|_| !is_new).unwrap_or(0);
        Ok(Remembered { file, line })
    }

    /// Compares it with the database; what is missing is written down where [`Mark::lost`] finds it.
    pub(super) fn compare(self, database: &Path, connection: &Connection) -> Result<Mark> {
        let there = last_line(connection).map_err(Fault::into_error)?;
        let lost = beside(database, LOST);
        if there < self.line {
            let first = there + 1;
            let message = format!(
                "acknowledged writes are lost, those of audit lines {first} to {}: the log was damaged, or the \
                 file was replaced by an older one; restore a backup or, if nothing is missed, delete {}",
                self.line,
                lost.display()
            );
            tracing::error!("{message}");
            fs::write(&lost, message).map_err(|error| cannot("write", &lost, &error))?;
        }
        let mark = Mark { state: Mutex::new(State { file: self.file, line: i64::MIN }), lost };
        mark.raise(there);
        Ok(mark)
    }
}

impl Mark {
    /// Remembers that audit line `line` is on disk.
    pub(super) fn raise(&self, line: i64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if line <= state.line {
            return;
        }
        state.line = line;
        // An old mark is no reason to refuse a write that is safe.
        if let Err(error) = put(&mut state.file, line) {
            tracing::debug!(%error, "the mark could not be written");
        }
    }

    /// What was found lost and not dealt with yet.
    pub(super) fn lost(&self) -> Option<String> {
        match fs::read_to_string(&self.lost) {
            Ok(message) => Some(message),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(format!("cannot read {}: {error}", self.lost.display())),
        }
    }
}

/// What a copy lacks of what the mark beside the original says; nothing when there is no mark.
pub(super) fn missing(
    original: &Path,
    copy: &Connection,
) -> std::result::Result<Option<String>, Fault> {
    let Some(line) = fs::read(beside(original, MARK)).ok().and_then(|bytes| decode(&bytes)) else {
        return Ok(None);
    };
    let there = last_line(copy)?;
    Ok((there < line).then(|| {
        format!("it ends with audit line {there}, and its mark says {line}: its log is damaged or missing")
    }))
}

/// Forgets everything about a database that is replaced.
pub(super) fn forget(database: &Path) -> Result<()> {
    for suffix in [MARK, LOST] {
        let path = beside(database, suffix);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(cannot("remove", &path, &error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn last_line(connection: &Connection) -> std::result::Result<i64, Fault> {
    let sql = "SELECT coalesce(max(id), 0) FROM audit";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

fn put(file: &mut File, line: i64) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&encode(line))
}

/// The number, and the number again with every bit turned.
fn encode(line: i64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&line.to_le_bytes());
    bytes[8..].copy_from_slice(&(!line).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<i64> {
    let (line, rest) = bytes.split_first_chunk()?;
    let line = i64::from_le_bytes(*line);
    (rest == (!line).to_le_bytes()).then_some(line)
}
