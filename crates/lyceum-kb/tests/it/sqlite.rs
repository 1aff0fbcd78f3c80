//! The SQLite store.

// A sound store raises no alarm.
mod alarms;
// Copies of the file, and putting them back.
mod backup;
// Damage is seen, never served.
mod damage;
// What only a file can get wrong: reopening, permissions, a second process, an overlong log.
mod file;
// Random scripts of writes against a model.
mod model;

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
