//! Opening the file: its place, its permissions, the lock that says it is in use, and SQLite's settings.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::fault::{Fault, damaged, explain};
use super::{length, schema};
use crate::{Error, Result};

/// How long a writer waits for another process, and a reader for a restarting log.
const BUSY: Duration = Duration::from_secs(5);

const STATEMENTS: usize = 64;

/// Settings of every connection.
///
/// Checkpoints are made by the writer and not by SQLite, because SQLite hides the errors of its automatic ones, and a
/// failed fsync must not be hidden. Rolled-back jobs keep their pages in memory and not in a temporary file.
const SETTINGS: &str = "
    PRAGMA foreign_keys = ON;
    PRAGMA synchronous = FULL;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA journal_size_limit = 16777216;
    PRAGMA cell_size_check = ON;
    PRAGMA trusted_schema = OFF;
    PRAGMA temp_store = MEMORY;
    PRAGMA cache_size = -16384;
    PRAGMA mmap_size = 0;
";

/// Says to other processes that the file is in use, as long as it lives.
#[derive(Debug)]
pub(super) struct InUse {
    _file: File,
}

impl InUse {
    /// Any number of processes may use the file together.
    pub(super) fn shared(path: &Path) -> Result<InUse> {
        InUse::lock(
            path,
            File::try_lock_shared,
            "it is being restored; try again when that is done",
        )
    }

    /// Nobody else may use it meanwhile.
    pub(super) fn alone(path: &Path) -> Result<InUse> {
        InUse::lock(path, File::try_lock, "it is in use; stop the server first")
    }

    fn lock(
        path: &Path,
        lock: fn(&File) -> std::result::Result<(), TryLockError>,
        why_not: &str,
    ) -> Result<InUse> {
        let file = create(&beside(path, ".lock"))?;
        match lock(&file) {
            Ok(()) => Ok(InUse { _file: file }),
            Err(TryLockError::WouldBlock) => {
                Err(Error::unavailable(format!("{}: {why_not}", path.display())))
            }
            Err(TryLockError::Error(error)) => Err(cannot("lock", path, &error)),
        }
    }
}

/// The writer's connection, with the schema up to date; makes the file if need be.
pub(super) fn open_writer(path: &Path) -> Result<Connection> {
    let file = create(path)?;
    let cut = length::problem(path, &file).map_err(|error| cannot("read", path, &error))?;
    if let Some(cut) = cut {
        return Err(named(path, Fault::Refused(damaged(&cut))));
    }
    drop(file);
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    set_up(&connection).map_err(|fault| named(path, fault))?;
    Ok(connection)
}

/// A connection that can only read.
pub(super) fn open_reader(path: &Path) -> Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection
        .pragma_update(None, "query_only", true)
        .map_err(|error| named(path, Fault::Sqlite(error)))?;
    Ok(connection)
}

/// A connection with our settings and nothing else done.
pub(super) fn open(path: &Path, mode: OpenFlags) -> Result<Connection> {
    let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let settle = |connection: &Connection| {
        connection.busy_timeout(BUSY)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        // Plans do not depend on the values bound, so that statements are not prepared again for each of them.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.execute_batch(SETTINGS)
    };
    Connection::open_with_flags(path, flags)
        .and_then(|connection| settle(&connection).map(|()| connection))
        .map_err(|error| named(path, Fault::Sqlite(error)))
}

fn set_up(connection: &Connection) -> std::result::Result<(), Fault> {
    schema::check_ours(connection)?;
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(Error::unavailable(
            "its file system cannot share memory between processes, which SQLite needs; use a local disk",
        )
        .into());
    }
    schema::migrate(connection)
}

/// The file of that name with something appended.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes the file for its owner alone, if it does not exist.
pub(super) fn create(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| cannot("open", path, &error))
}

/// Makes the directory the file is to be in, for its owner alone, if it does not exist.
pub(super) fn create_directory_of(path: &Path) -> Result<()> {
    let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory).map_err(|error| cannot("make", directory, &error))
}

pub(super) fn cannot(verb: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::unavailable(format!("cannot {verb} {}: {error}", path.display()))
}

/// The failure with the file's name before it.
fn named(path: &Path, fault: Fault) -> Error {
    let error = match fault {
        Fault::Refused(error) => error,
        Fault::Sqlite(error) => explain(&error),
    };
    Error::new(error.code(), format!("{}: {}", path.display(), error.message()))
}
