//! What shows only from inside: plans, migrations, and how the writer takes failures.

mod leases;
mod plans;
mod prepare;
mod readers;
mod remembered;
mod schema;
mod writer;

use tempfile::TempDir;

use super::SqliteStore;
use crate::write::{Actor, Change, Fields, Policy, Write};
use crate::{DocPath, Result, Written};

/// A store in a directory that goes with it.
struct Fresh {
    store: SqliteStore,
    directory: TempDir,
}

fn fresh() -> Fresh {
    let directory = TempDir::new().unwrap();
    let store = SqliteStore::open(&directory.path().join("kb.db"), Policy::default()).unwrap();
    Fresh { store, directory }
}

async fn create(store: &SqliteStore, path: &str, body: &str) -> Result<Written> {
    let fields = Fields { body: Some(body.to_owned()), ..Fields::default() };
    let path = DocPath::parse(path).unwrap();
    let (change, by) = (Change::Create(fields), Actor::default());
    let write = Write { path, change, expected_revision: None, idempotency: None, by };
    super::Store::write(store, write).await
}
