//! Copies of the whole file, made while it is in use; `restore.rs` puts them back.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::connection::{self, beside, cannot};
use super::fault::{Fault, explain};
use super::{integrity, length, schema};
use crate::{Error, Result};

/// How many pages are copied before writers get their turn: about a millisecond.
const PAGES: i32 = 256;

/// How often another process may force the copy to start over before it is made of one state, which keeps the log from
/// being emptied meanwhile.
const MAX_RESTARTS: usize = 3;

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub copied_pages: usize,
    pub pages: usize,
}

/// Who is told.
pub(super) type Report = Box<dyn FnMut(Progress) + Send>;

/// Copies the database that `source` writes to into a new file, and calls `between` after every piece.
///
/// It must be the writer's own connection: what that one changes is changed in the copy too, so the copy neither
/// starts over nor keeps the log from being emptied.
pub(super) fn copy(
    source: &Connection,
    to: &Path,
    report: &mut Report,
    between: &mut dyn FnMut(),
) -> std::result::Result<(), Fault> {
    let mut target = connection::open(to, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // It is made durable as a whole in the end.
    target.pragma_update(None, "synchronous", "OFF")?;
    if !step_through(source, &mut target, MAX_RESTARTS, report, between)? {
        let path =
            source.path().map(Path::new).ok_or_else(|| Error::internal("no file to copy"))?;
        let reader = connection::open_reader(path)?;
        reader.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
        step_through(&reader, &mut target, usize::MAX, report, between)?;
    }
    single_file(&target)
}

/// Copies piece by piece; false when others made it start over too often.
fn step_through(
    source: &Connection,
    target: &mut Connection,
    restarts: usize,
    report: &mut Report,
    between: &mut dyn FnMut(),
) -> std::result::Result<bool, Fault> {
    let backup = Backup::new(source, target)?;
    let (mut restarts, mut remaining) = (restarts, i32::MAX);
    loop {
        match backup.step(PAGES)? {
            StepResult::Done => return Ok(true),
            StepResult::Busy | StepResult::Locked => {
                std::thread::sleep(Duration::from_millis(5));
            }
            _ => {}
        }
        let progress = backup.progress();
        if progress.remaining > remaining {
            match restarts.checked_sub(1) {
                Some(left) => restarts = left,
                None => return Ok(false),
            }
        }
        remaining = progress.remaining;
        let count = |pages: i32| usize::try_from(pages).unwrap_or_default();
        report(Progress {
            copied_pages: count(progress.pagecount - progress.remaining),
            pages: count(progress.pagecount),
        });
        between();
    }
}

/// Removes a file that may not be there.
pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(cannot("remove", path, &error))
        }
        _ => Ok(()),
    }
}

/// Folds the log into the file, so that the file is everything.
pub(super) fn single_file(connection: &Connection) -> std::result::Result<(), Fault> {
    let mode: String =
        connection.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))?;
    if mode == "delete" {
        return Ok(());
    }
    Err(Error::unavailable("another process has the file open; stop it first").into())
}

/// A file beside `to` that becomes `to` when it is complete.
#[derive(Debug)]
pub(super) struct Partial {
    path: PathBuf,
    to: PathBuf,
    kept: bool,
}

impl Partial {
    /// An empty file; one that an interrupted copy left is replaced.
    pub(super) fn create(to: &Path) -> Result<Partial> {
        let path = beside(to, ".partial");
        for suffix in ["", "-wal", "-shm", "-journal"] {
            remove(&beside(&path, suffix))?;
        }
        connection::create(&path)?;
        Ok(Partial { path, to: to.to_owned(), kept: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it durable and gives it its name, in this order.
    pub(super) fn keep(mut self) -> Result<()> {
        let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all());
        sync(&self.path).map_err(|error| cannot("write", &self.path, &error))?;
        fs::rename(&self.path, &self.to).map_err(|error| cannot("write", &self.to, &error))?;
        self.kept = true;
        let parent = self.to.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new("."));
        sync(directory).map_err(|error| cannot("write", directory, &error))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.kept {
            // They are only leftovers; the next copy removes them as well.
            for suffix in ["", "-wal", "-shm", "-journal"] {
                drop(fs::remove_file(beside(&self.path, suffix)));
            }
        }
    }
}

/// What is wrong with a backup, if anything.
pub fn check_file(path: &Path) -> Result<Vec<String>> {
    if !path.is_file() {
        return Err(Error::not_found(format!("{}: no such file", path.display())));
    }
    let cut = File::open(path).and_then(|file| length::problem(path, &file));
    if let Some(cut) = cut.map_err(|error| cannot("read", path, &error))? {
        return Ok(vec![cut]);
    }
    let connection = connection::open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    check_content(&connection).map_err(|fault: Fault| {
        let error = fault.into_error();
        Error::new(error.code(), format!("{}: {}", path.display(), error.message()))
    })
}

/// What is wrong with what an open backup holds, if anything.
pub(super) fn check_content(connection: &Connection) -> std::result::Result<Vec<String>, Fault> {
    schema::check_ours(connection)?;
    if schema::version(connection)? == 0 {
        return Err(Error::invalid("it holds no knowledge base").into());
    }
    integrity::check_now(connection)
}

/// A failure of SQLite while copying, in words.
pub(super) fn failed(fault: Fault) -> Error {
    match fault {
        Fault::Refused(error) => error,
        Fault::Sqlite(error) => {
            let error = explain(&error);
            Error::new(error.code(), format!("the backup failed: {}", error.message()))
        }
    }
}
