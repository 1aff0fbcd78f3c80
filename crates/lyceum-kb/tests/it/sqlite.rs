//! The SQLite store.

// What only a file can get wrong: reopening, damage, other processes.
mod file;

use std::ops::Deref;

use lyceum_kb::store::sqlite::SqliteStore;
use tempfile::TempDir;

/// A store in a directory that goes with it.
pub(crate) struct Fresh {
    store: SqliteStore,
    _directory: TempDir,
}

impl Deref for Fresh {
    type Target = SqliteStore;

    fn deref(&self) -> &SqliteStore {
        &self.store
    }
}

pub(crate) fn fresh() -> Fresh {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    Fresh { store, _directory: directory }
}

fn open(directory: &TempDir) -> SqliteStore {
    SqliteStore::open(&directory.path().join("data/kb.db"), crate::store::policy()).unwrap()
}

suite!(crate::sqlite::fresh);
