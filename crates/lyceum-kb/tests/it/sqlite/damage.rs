//! K6: damage is seen, never served.

use std::fs;
use std::path::Path;

use lyceum_kb::store::sqlite::{SqliteStore, rebuild_words, restore};
use lyceum_kb::store::{Filter, ListPage, Store};
use lyceum_kb::{Code, Document, Query};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{fresh, open};
use crate::store::{create, delete, get, path, policy, update};

/// Changes a row behind the store's back, as a bad disk would.
fn tamper(store: &SqliteStore, sql: &str) {
    let connection = Connection::open(store.path()).unwrap();
    assert_eq!(connection.execute(sql, []).unwrap(), 1, "{sql}");
}

#[tokio::test]
async fn a_changed_row_is_refused_and_reported() {
    for (sql, problem) in [
        ("UPDATE body SET text = 'twp' WHERE text = 'two'", "text 2 is damaged"),
        ("UPDATE document SET title = 'x'", "document \"a\" is damaged"),
        ("UPDATE document SET body = 1", "document \"a\" is damaged"),
        ("UPDATE document SET metadata = '{\"a\":1}'", "document \"a\" is damaged"),
    ] {
        let fresh = fresh();
        create(&*fresh, "a", "one").await;
        update(&*fresh, "a", "two").await;
        tamper(&fresh, sql);
        let error = fresh.documents(&[path("a")]).await.unwrap_err();
        assert_eq!(error.code(), Code::Internal);
        assert!(error.message().contains("damaged"), "{error}");
        let problems = fresh.check_integrity().await.unwrap();
        assert!(problems.iter().any(|found| found == problem), "{problems:?}");
    }
}

#[tokio::test]
async fn a_changed_history_is_refused_and_reported() {
    for (sql, problem) in [
        ("UPDATE revision SET author = 'eve' WHERE revision = 1", "revision 1 of \"a\" is damaged"),
        ("UPDATE revision SET title = 'eve' WHERE revision = 1", "revision 1 of \"a\" is damaged"),
    ] {
        let fresh = fresh();
        create(&*fresh, "a", "one").await;
        update(&*fresh, "a", "two").await;
        tamper(&fresh, sql);
        assert_eq!(fresh.history(&path("a"), None, 9).await.unwrap_err().code(), Code::Internal);
        assert_eq!(fresh.document_at(&path("a"), 1).await.unwrap_err().code(), Code::Internal);
        assert_eq!(fresh.check_integrity().await.unwrap(), [problem]);
    }
}

#[tokio::test]
async fn tables_that_disagree_are_reported() {
    for (sql, problem) in [
        ("DELETE FROM revision WHERE revision = 1 AND document = 1", "revisions are missing of a"),
        ("DELETE FROM audit WHERE id = 1", "audit lines are missing before line 3"),
        ("INSERT INTO tag (tag, document) SELECT 'x', 99", "a row refers to nothing in table tag"),
    ] {
        let fresh = fresh();
        create(&*fresh, "a", "one").await;
        update(&*fresh, "a", "two").await;
        create(&*fresh, "b", "one").await;
        let connection = Connection::open(fresh.path()).unwrap();
        connection.pragma_update(None, "foreign_keys", false).unwrap();
        assert_eq!(connection.execute(sql, []).unwrap(), 1, "{sql}");
        assert_eq!(fresh.check_integrity().await.unwrap(), [problem]);
    }
}

#[tokio::test]
async fn writes_that_a_cut_log_loses_are_reported_until_it_is_dealt_with() {
    let (directory, copy) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let store = open(&directory);
    for n in 0..10 {
        create(&store, &format!("d/{n}"), "text").await;
    }
    // What a killed process would leave.
    let file = copy.path().join("copy.db");
    let beside = |file: &Path, suffix| format!("{}{suffix}", file.display());
    for suffix in ["", "-wal", ".mark"] {
        fs::copy(beside(store.path(), suffix), beside(&file, suffix)).unwrap();
    }
    let log = fs::OpenOptions::new().write(true).open(beside(&file, "-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() / 2).unwrap();
    for again in [false, true] {
        let cut = SqliteStore::open(&file, policy()).unwrap();
        let [problem] = &cut.check_integrity().await.unwrap()[..] else { panic!("one problem") };
        assert!(problem.contains("acknowledged writes are lost"), "{problem}");
        assert!(problem.contains("to 10:"), "{problem}");
        // Writing goes on, and does not make it forgotten.
        create(&cut, &format!("new {again}"), "text").await;
    }
    fs::remove_file(beside(&file, ".lost")).unwrap();
    let whole = SqliteStore::open(&file, policy()).unwrap();
    assert_eq!(whole.check_integrity().await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_restored_backup_misses_nothing() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    create(&store, "a", "text").await;
    let (file, backup) = (store.path().to_owned(), directory.path().join("backup.db"));
    store.backup(&backup, |_| {}).await.unwrap();
    create(&store, "b", "text").await;
    drop(store);
    restore(&backup, &file).unwrap();
    let restored = SqliteStore::open(&file, policy()).unwrap();
    assert_eq!(restored.check_integrity().await.unwrap(), [""; 0], "older on purpose");
}

/// The documents that have the word.
async fn found(store: &SqliteStore, word: &str) -> Option<Vec<i64>> {
    let hits = store.lexical(&Query::parse(word), &Filter::default(), 9).await.ok()?;
    let mut keys: Vec<i64> = hits.iter().map(|hit| hit.key).collect();
    keys.sort_unstable();
    Some(keys)
}

#[tokio::test]
async fn a_damaged_index_of_words_is_made_again() {
    for sql in [
        "DELETE FROM lexical_docsize WHERE id = 2",
        "UPDATE lexical_data SET block = zeroblob(length(block)) WHERE id > 10",
        "DELETE FROM lexical_data WHERE id > 10",
    ] {
        let directory = TempDir::new().unwrap();
        let store = open(&directory);
        for n in 0..300 {
            create(&store, &format!("d/{n}"), &format!("harbour number{n}")).await;
        }
        create(&store, "gone", "harbour").await;
        delete(&store, "gone").await;
        let path = store.path().to_owned();
        let busy = rebuild_words(&path, |_, _| {}).unwrap_err();
        assert!(busy.message().contains("in use"), "{busy}");
        drop(store);
        let connection = Connection::open(&path).unwrap();
        assert!(connection.execute(sql, []).unwrap() > 0, "{sql}");
        drop(connection);

        let store = open(&directory);
        assert_ne!(store.check_integrity().await.unwrap(), [""; 0], "{sql}");
        drop(store);
        let mut told = Vec::new();
        assert_eq!(rebuild_words(&path, |done, of| told.push((done, of))).unwrap(), 300);
        assert_eq!(told, [(200, 300), (300, 300)]);

        let store = open(&directory);
        assert_eq!(store.check_integrity().await.unwrap(), [""; 0], "{sql}");
        assert_eq!(found(&store, "number7").await, Some(vec![8]), "{sql}");
        update(&store, "d/7", "other words").await;
        assert_eq!(found(&store, "number7").await, Some(vec![]), "{sql}");
        assert_eq!(found(&store, "words").await, Some(vec![8]), "{sql}");
    }
}

#[tokio::test]
async fn a_file_without_its_last_byte_is_refused_and_so_is_such_a_backup() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    create(&store, "a", "text").await;
    let (file, backup) = (store.path().to_owned(), directory.path().join("backup.db"));
    store.backup(&backup, |_| {}).await.unwrap();
    drop(store);
    let whole = fs::read(&file).unwrap();
    for n_lost in [1, 4095, 4096, 4097] {
        fs::write(&file, &whole[..whole.len() - n_lost]).unwrap();
        let error = SqliteStore::open(&file, policy()).unwrap_err();
        assert_eq!(error.code(), Code::Internal);
        assert!(error.message().contains("the file is cut short"), "{n_lost}: {error}");
        let error = restore(&file, &backup).unwrap_err();
        assert!(error.message().contains("choose another backup"), "{n_lost}: {error}");
    }
    restore(&backup, &file).unwrap();
    let restored = SqliteStore::open(&file, policy()).unwrap();
    assert_eq!(restored.check_integrity().await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_file_that_lacks_what_its_log_has_is_whole() {
    let (directory, copy) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let store = open(&directory);
    create(&store, "a", "text").await;
    // What a process leaves that is killed while it moves the log into the file.
    let file = copy.path().join("copy.db");
    fs::copy(format!("{}-wal", store.path().display()), format!("{}-wal", file.display())).unwrap();
    let moved = store.path().to_owned();
    drop(store);
    fs::write(&file, &fs::read(moved).unwrap()[..4096]).unwrap();
    #[cfg(unix)]
    let file = {
        let link = directory.path().join("link.db");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        link
    };
    let recovered = SqliteStore::open(&file, policy()).unwrap();
    assert_eq!(get(&recovered, "a").await.body, "text");
    assert_eq!(recovered.check_integrity().await.unwrap(), [""; 0]);
}

/// Everything a caller can read, or `None` when anything is refused.
async fn read_all(path_of: &Path) -> Option<(Vec<Document>, Vec<String>)> {
    let store = SqliteStore::open(path_of, policy()).ok()?;
    let page = ListPage { limit: 100, ..ListPage::default() };
    let listed = store.list(&page).await.ok()?;
    let mut documents = Vec::new();
    let mut past = Vec::new();
    for meta in listed {
        documents.push(store.documents(std::slice::from_ref(&meta.path)).await.ok()?.remove(0)?);
        for revision in store.history(&meta.path, None, 100).await.ok()? {
            let document = store.document_at(&meta.path, revision.revision).await.ok()??;
            past.push(format!("{revision:?} {}", document.body));
        }
    }
    // What is not served may be missing; then the check must say so.
    let problems = store.check_integrity().await.unwrap_or_else(|error| vec![error.to_string()]);
    problems.is_empty().then_some((documents, past))
}

#[tokio::test]
async fn a_flipped_bit_anywhere_is_found_or_harmless() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    for n in 0..8 {
        create(&store, &format!("d/{n}"), &format!("text {n} {}", "words ".repeat(n * 150))).await;
        update(&store, &format!("d/{n}"), &format!("newer {n} {}", "words ".repeat(n * 100))).await;
    }
    delete(&store, "d/3").await;
    let original = store.path().to_owned();
    drop(store);
    let intact = read_all(&original).await.unwrap();
    let bytes = fs::read(&original).unwrap();
    let mut detected = 0;
    for n in 0..64 {
        let at = (n * 24_749 + 13) % bytes.len();
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (n % 8);
        let damaged = directory.path().join("damaged.db");
        for suffix in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(format!("{}{suffix}", damaged.display()));
        }
        fs::write(&damaged, flipped).unwrap();
        match read_all(&damaged).await {
            None => detected += 1,
            Some(read) => assert!(read == intact, "bit {} of byte {at}", n % 8),
        }
    }
    assert!(detected > 8, "{detected} of 64; the rest is free space");
}
