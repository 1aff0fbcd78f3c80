//! What can go wrong inside the SQLite store, and how far each failure reaches.

use rusqlite::{ErrorCode, ffi};

use crate::Error;

/// Why a piece of work did not succeed.
#[derive(Debug)]
pub(super) enum Fault {
    /// An answer for the caller; the database is as good as before.
    Refused(Error),
    Sqlite(rusqlite::Error),
}

/// How far a failure reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Only the work that failed; others in the transaction stand.
    Job,
    /// The transaction cannot be trusted any more.
    Batch,
    /// What the disk holds is unknown: no write may be acknowledged until a restart has read it again.
    Store,
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        Fault::Sqlite(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Refused(error)
    }
}

impl Fault {
    pub(super) fn reach(&self) -> Reach {
        match self {
            Fault::Refused(_) => Reach::Job,
            Fault::Sqlite(error) => reach(error),
        }
    }

    pub(super) fn into_error(self) -> Error {
        match self {
            Fault::Refused(error) => error,
            Fault::Sqlite(error) => explain(&error),
        }
    }
}

/// How far a failure of SQLite reaches.
pub(super) fn reach(error: &rusqlite::Error) -> Reach {
    let Some(inner) = error.sqlite_error() else { return Reach::Job };
    match (inner.extended_code, inner.code) {
        // After a failed fsync the kernel may drop the dirty pages and report success the next time, so trying
        // again would acknowledge writes that are not on disk.
        (ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC, _) => Reach::Store,
        (_, ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) => {
            Reach::Job
        }
        _ => Reach::Batch,
    }
}

/// A failure of SQLite in words a caller can act on.
pub(super) fn explain(error: &rusqlite::Error) -> Error {
    if reach(error) == Reach::Store {
        return Error::unavailable(format!("the disk did not confirm what was written ({error})"));
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            Error::unavailable("the disk is full; free some space and try again")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::unavailable("another process is writing to the knowledge base; try again")
        }
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::OutOfMemory) => {
            Error::unavailable(format!("the disk failed: {error}; try again"))
        }
        Some(ErrorCode::ReadOnly) => Error::unavailable(format!(
            "the knowledge base cannot be written: {error}; check the permissions of its file"
        )),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => damaged(&error.to_string()),
        _ => Error::internal(format!("the store failed: {error}")),
    }
}

/// What is stored is not what was written.
pub(super) fn damaged(what: &str) -> Error {
    Error::internal(format!(
        "the knowledge base is damaged ({what}); check its disk and restore a backup"
    ))
}
