//! Files of older and newer versions, and of other programs.

use rusqlite::Connection;

use super::super::schema::{APPLICATION_ID, STEPS, migrate, migrate_to, version};
use super::super::{SqliteStore, Store};
use super::{create, fresh};
use crate::{Code, Policy};

/// Every table and index, in words, and the settings of the index of words once there is one.
fn tables(connection: &Connection) -> Vec<String> {
    const TABLES: &str = "SELECT coalesce(sql, name) FROM sqlite_schema";
    const SETTINGS: &str = " UNION ALL SELECT k || ' = ' || v FROM lexical_config";
    let settings = if connection.table_exists(None, "lexical").unwrap() { SETTINGS } else { "" };
    let mut statement = connection.prepare(&format!("{TABLES}{settings} ORDER BY 1")).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap()
}

#[test]
fn every_version_leads_to_the_newest() {
    let newest = Connection::open_in_memory().unwrap();
    migrate(&newest).unwrap();
    for start in 0..=STEPS.len() {
        let connection = Connection::open_in_memory().unwrap();
        migrate_to(&connection, start).unwrap();
        assert_eq!(version(&connection).unwrap(), start);
        migrate(&connection).unwrap();
        assert_eq!(version(&connection).unwrap(), STEPS.len());
        assert_eq!(tables(&connection), tables(&newest));
        migrate(&connection).unwrap();
    }
}

#[test]
fn a_step_that_fails_changes_nothing() {
    let connection = Connection::open_in_memory().unwrap();
    connection.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    connection.execute_batch("CREATE TABLE tag (already TEXT)").unwrap();
    assert!(migrate(&connection).is_err());
    assert_eq!((version(&connection).unwrap(), tables(&connection).len()), (0, 1));
    assert!(connection.is_autocommit());
}

#[track_caller]
fn refused(sql: &str, why: &str) {
    let fresh = fresh();
    let path = fresh.store.path().to_owned();
    drop(fresh.store);
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    let error = SqliteStore::open(&path, Policy::default()).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains(why), "{error}");
    assert!(error.message().contains("kb.db"), "{error}");
}

#[test]
fn files_of_newer_versions_and_other_programs_are_refused() {
    refused("PRAGMA user_version = 99", "use a newer program");
    refused("PRAGMA application_id = 7", "another program");
    refused("PRAGMA application_id = 0", "another program");
}

#[tokio::test]
async fn an_empty_file_becomes_a_knowledge_base() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("empty.db");
    std::fs::write(&path, "").unwrap();
    let store = SqliteStore::open(&path, Policy::default()).unwrap();
    create(&store, "a", "x").await.unwrap();
    assert_eq!(store.health().await.documents, 1);
    let text = directory.path().join("text.db");
    std::fs::write(&text, "this is no database, but long enough to be read as one".repeat(50))
        .unwrap();
    assert_eq!(SqliteStore::open(&text, Policy::default()).unwrap_err().code(), Code::Internal);
}
