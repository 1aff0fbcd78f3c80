//! Copies of the whole file: made while it is in use, and put back while it is not.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::connection::{self, InUse, beside, cannot};
use super::fault::{Fault, explain};
use super::{integrity, length, mark, schema};
use crate::{Error, Result};

/// How many pages are copied before writers get their turn: about a millisecond.
const PAGES: i32 = 256;

/// How often another process may force the copy to start over before it is made in one go.
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
    {
        let backup = Backup::new(source, &mut target)?;
        let mut restarts = 0;
        let mut remaining = i32::MAX;
        loop {
            let pages = if restarts > MAX_RESTARTS { -1 } else { PAGES };
            match backup.step(pages)? {
                StepResult::Done => break,
                StepResult::Busy | StepResult::Locked => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => {}
            }
            let progress = backup.progress();
            restarts += usize::from(progress.remaining > remaining);
            remaining = progress.remaining;
            let count = |pages: i32| usize::try_from(pages).unwrap_or_default();
            report(Progress {
                copied_pages: count(progress.pagecount - progress.remaining),
                pages: count(progress.pagecount),
            });
            between();
        }
    }
    single_file(&target)
}

/// Folds the log into the file, so that the file is everything.
fn single_file(connection: &Connection) -> std::result::Result<(), Fault> {
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
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(cannot("replace", &path, &error));
            }
            _ => {}
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
            // It is only a leftover; the next copy removes it as well.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Puts a backup in the place of a knowledge base that nobody uses, after checking all of it.
///
/// The old file stays as it is until the new one takes its name.
pub fn restore(from: &Path, to: &Path) -> Result<()> {
    let damaged = check_file(from)?;
    if let Some(first) = damaged.first() {
        let message = format!("{} is damaged ({first}); choose another backup", from.display());
        return Err(Error::invalid(message).with("problems", damaged.clone()));
    }
    connection::create_directory_of(to)?;
    let _alone = InUse::alone(to)?;
    let partial = Partial::create(to)?;
    fs::copy(from, partial.path()).map_err(|error| cannot("copy", from, &error))?;
    #[cfg(unix)]
    fs::set_permissions(partial.path(), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .map_err(|error| cannot("copy", from, &error))?;
    forget_log(to)?;
    mark::forget(to)?;
    partial.keep()
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
    let check = || {
        schema::check_ours(&connection)?;
        if schema::version(&connection)? == 0 {
            return Err(Error::invalid("it holds no knowledge base").into());
        }
        integrity::check_now(&connection)
    };
    check().map_err(|fault: Fault| {
        let error = fault.into_error();
        Error::new(error.code(), format!("{}: {}", path.display(), error.message()))
    })
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
    for suffix in ["-wal", "-shm"] {
        let path = beside(old, suffix);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(cannot("remove", &path, &error));
            }
            _ => {}
        }
    }
    Ok(())
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
