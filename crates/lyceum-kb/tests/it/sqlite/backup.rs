//! Backups: made while writers write, checked before they are put back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lyceum_kb::store::sqlite::{SqliteStore, check_file, restore};
use lyceum_kb::store::{ApiKey, ListPage, Store};
use lyceum_kb::{Code, Policy};
use tempfile::TempDir;

use super::open;
use crate::store::{create, find, get, join_all, update};

async fn count(store: &SqliteStore) -> usize {
    let page = ListPage { limit: 100_000, ..ListPage::default() };
    store.list(&page).await.unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_made_while_writers_write() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    let large = "some words to fill pages ".repeat(400);
    for n in 0..200 {
        create(&store, &format!("before/{n}"), &large).await;
    }
    let copy = directory.path().join("copy.db");
    let steps = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&steps);
    let backup = store.backup(&copy, move |progress| {
        assert!(progress.copied_pages <= progress.pages);
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let write = async |n: usize| {
        for m in 0..10 {
            create(&store, &format!("during/{n}/{m}"), &large).await;
            update(&store, &format!("before/{n}"), &format!("changed {m}")).await;
        }
    };
    let (made, _) = tokio::join!(backup, join_all((0..8).map(write).collect()));
    made.unwrap();
    assert!(steps.load(Ordering::Relaxed) > 1, "it goes step by step");
    assert_eq!(check_file(&copy).unwrap(), Vec::<String>::new());
    let restored = SqliteStore::open(&copy, Policy::default()).unwrap();
    assert!(count(&restored).await >= 200);
    assert_eq!(get(&restored, "before/199").await.body, large);
    assert_eq!(count(&store).await, 280);
    assert!(!directory.path().join("copy.db.partial").exists());
}

#[tokio::test]
async fn a_backup_takes_the_place_of_what_is_there() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    let path = store.path().to_owned();
    create(&store, "old", "one").await;
    let copy = directory.path().join("copy.db");
    store.backup(&copy, |_| {}).await.unwrap();
    create(&store, "new", "two").await;
    assert_eq!(restore(&copy, &path).unwrap_err().code(), Code::Unavailable, "it is in use");
    drop(store);
    restore(&copy, &path).unwrap();
    let store = open(&directory);
    assert_eq!(get(&store, "old").await.body, "one");
    assert!(find(&store, "new").await.is_none());
    create(&store, "newer", "three").await;
    drop(store);
    let elsewhere = directory.path().join("deep/er/kb.db");
    restore(&copy, &elsewhere).unwrap();
    let store = SqliteStore::open(&elsewhere, Policy::default()).unwrap();
    assert_eq!(count(&store).await, 1);
}

#[tokio::test]
async fn what_is_no_whole_backup_is_not_restored() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    let path = store.path().to_owned();
    create(&store, "old", &"some text ".repeat(2000)).await;
    let copy = directory.path().join("copy.db");
    store.backup(&copy, |_| {}).await.unwrap();
    assert_eq!(store.backup(&path, |_| {}).await.unwrap_err().code(), Code::InvalidArgument);
    drop(store);
    let bytes = std::fs::read(&copy).unwrap();
    let mut flipped = bytes.clone();
    let at = flipped.windows(9).position(|window| window == b"some text").unwrap();
    flipped[at] ^= 1;
    for (broken, code) in [
        (flipped, Code::InvalidArgument),
        (bytes[..bytes.len() / 2].to_vec(), Code::Internal),
        (b"not a database at all".to_vec(), Code::Internal),
        (Vec::new(), Code::InvalidArgument),
    ] {
        std::fs::write(&copy, broken).unwrap();
        let error = restore(&copy, &path).unwrap_err();
        assert!([code, Code::InvalidArgument].contains(&error.code()), "{error}");
    }
    let missing = directory.path().join("missing.db");
    assert_eq!(restore(&missing, &path).unwrap_err().code(), Code::NotFound);
    assert!(find(&open(&directory), "old").await.is_some(), "nothing was touched");
}

/// A copy of a file in use has its newest writes in the log beside it.
#[tokio::test]
async fn a_copied_file_is_restored_with_its_log_or_not_at_all() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    create(&store, "a", "one").await;
    let beside = |path: &std::path::Path, suffix| format!("{}{suffix}", path.display());
    let copy = directory.path().join("copy.db");
    for suffix in ["", "-wal", ".mark"] {
        std::fs::copy(beside(store.path(), suffix), beside(&copy, suffix)).unwrap();
    }
    let elsewhere = directory.path().join("restored/kb.db");
    let live = restore(store.path(), &elsewhere).unwrap_err();
    assert!(live.message().contains("in use"), "{live}");
    drop(store);
    restore(&copy, &elsewhere).unwrap();
    let restored = SqliteStore::open(&elsewhere, Policy::default()).unwrap();
    assert_eq!(get(&restored, "a").await.body, "one");
    assert_eq!(restored.check_integrity().await.unwrap(), [""; 0]);
    drop(restored);
    // The mark beside the copy says that something is missing without the log.
    let log = std::fs::OpenOptions::new().write(true).open(beside(&copy, "-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() - 1).unwrap();
    let cut = restore(&copy, &elsewhere).unwrap_err();
    assert!(cut.message().contains("damaged"), "{cut}");
    let untouched = SqliteStore::open(&elsewhere, Policy::default()).unwrap();
    assert_eq!(get(&untouched, "a").await.body, "one");
    assert!(!directory.path().join("restored/kb.db.partial").exists());
    assert!(!directory.path().join("restored/kb.db.partial-wal").exists());
}

fn key(id: &str) -> ApiKey {
    let (id, name) = (id.to_owned(), format!("name of {id}"));
    ApiKey { id, name, secret_sha256: [7; 32], created_at: 1, expires_at: None, revoked_at: None }
}

#[tokio::test]
async fn restoring_does_not_make_revoked_keys_good_again() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    let path = store.path().to_owned();
    for id in ["kept", "revoked", "unknown"] {
        store.add_key(key(id)).await.unwrap();
    }
    let copy = directory.path().join("copy.db");
    store.backup(&copy, |_| {}).await.unwrap();
    store.revoke_key("revoked", 99).await.unwrap();
    for id in ["newer", "newer and revoked"] {
        store.add_key(key(id)).await.unwrap();
    }
    store.revoke_key("newer and revoked", 99).await.unwrap();
    drop(store);
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute("DELETE FROM api_key WHERE id = 'unknown'", [])
        .unwrap();

    let restored = restore(&copy, &path).unwrap();
    let ids = |keys: &[ApiKey]| keys.iter().map(|key| key.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&restored.keys_kept_revoked), ["revoked"]);
    assert_eq!(ids(&restored.keys_back), ["unknown"]);
    assert_eq!(ids(&restored.keys_gone), ["newer"]);
    assert_eq!(restored.keys_unknown, None);
    let mut keys = open(&directory).keys().await.unwrap();
    keys.sort_by(|a, b| a.id.cmp(&b.id));
    let good = keys.iter().map(|key| (key.id.as_str(), key.revoked_at.is_none()));
    let expected =
        [("kept", true), ("newer and revoked", false), ("revoked", false), ("unknown", true)];
    assert!(good.eq(expected), "{keys:?}");

    std::fs::write(&path, "too damaged to be read").unwrap();
    let restored = restore(&copy, &path).unwrap();
    assert!(restored.keys_unknown.is_some(), "no revocation can be kept");
    assert_eq!(restored.keys_back.len(), 3);
}
