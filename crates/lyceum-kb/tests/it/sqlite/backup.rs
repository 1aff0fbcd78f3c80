//! Backups: made while writers write, checked before they are put back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lyceum_kb::store::sqlite::{SqliteStore, check_file, restore};
use lyceum_kb::store::{ListPage, Store};
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
