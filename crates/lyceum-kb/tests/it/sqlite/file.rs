//! What only a file can get wrong: reopening, permissions, a second process, an overlong log.

use std::sync::atomic::{AtomicBool, Ordering};

use lyceum_kb::store::sqlite::SqliteStore;
use lyceum_kb::store::{ListPage, Store};
use lyceum_kb::{Change, Code, Policy};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{fresh, open};
use crate::store::{create, done, get, join_all, keyed, path, refused, text, update, write};

#[tokio::test]
async fn everything_is_there_after_reopening() {
    let directory = TempDir::new().unwrap();
    let create = || keyed(write("a", Change::Create(text("one"))), "k", 1);
    let store = open(&directory);
    let first = done(&store, create()).await;
    drop(store);
    let store = open(&directory);
    assert_eq!(get(&store, "a").await.body, "one");
    assert_eq!(done(&store, create()).await, first, "the key survives a restart");
    assert_eq!(store.audit_trail(None, 9).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_refused_write_is_not_missed_after_reopening() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    create(&store, "a", "one").await;
    update(&store, "a", "two").await;
    assert_eq!(refused(&store, write("a", Change::Create(text("x")))).await, Code::Conflict);
    drop(store);
    let store = open(&directory);
    assert!(store.check_integrity().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_purge_removes_a_damaged_document() {
    let fresh = fresh();
    let store = &*fresh;
    create(store, "a", "the secret words").await;
    raw(store).execute("UPDATE body SET text = 'other words'", []).unwrap();
    raw(store).execute("UPDATE document SET title = 'other'", []).unwrap();
    assert!(store.write(write("a", Change::Delete)).await.is_err());
    assert!(!store.check_integrity().await.unwrap().is_empty());
    store.purge(&path("a"), lyceum_kb::Actor::default()).await.unwrap();
    assert_eq!(store.check_integrity().await.unwrap(), Vec::<String>::new());
    let texts: i64 = raw(store)
        .query_row("SELECT count(*) FROM body WHERE text <> ''", [], |row| row.get(0))
        .unwrap();
    assert_eq!(texts, 0);
}

#[tokio::test]
async fn an_answer_is_kept_for_a_day() {
    let fresh = fresh();
    let store = &*fresh;
    let create = |at: &str| keyed(write(at, Change::Create(text("one"))), at, 1);
    done(store, create("a")).await;
    done(store, create("b")).await;
    let almost = 24 * 60 * 60 * 1000 - 60_000;
    age(store, "a", almost).await;
    age(store, "b", almost + 120_000).await;
    done(store, create("a")).await;
    assert_eq!(refused(store, create("b")).await, Code::Conflict, "the document exists");
    done(store, create("c")).await;
    let left: i64 =
        raw(store).query_row("SELECT count(*) FROM idempotency", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 2, "the old answer is forgotten");
}

async fn age(store: &SqliteStore, key: &str, by: i64) {
    let changed = raw(store)
        .execute("UPDATE idempotency SET at = at - ?2 WHERE key = ?1", rusqlite::params![key, by]);
    assert_eq!(changed.unwrap(), 1);
}

fn raw(store: &SqliteStore) -> Connection {
    Connection::open(store.path()).unwrap()
}

/// Rows without an id cannot be made through the store, only around it.
#[tokio::test]
async fn l15_a_row_without_a_path_is_left_out() {
    let fresh = fresh();
    create(&*fresh, "a", "one").await;
    let columns = "title, tags, source, metadata, mime, revision, text_revision, body, created_at, \
                   updated_at, deleted_at, seal, vector_status, vector_error";
    let sql = format!(
        "INSERT INTO document (key, path, {columns}) SELECT 99, '', {columns} FROM document"
    );
    raw(&fresh).execute(&sql, []).unwrap();
    let page = ListPage { limit: 10, ..ListPage::default() };
    let listed = fresh.list(&page).await.unwrap();
    assert_eq!(listed.iter().map(|meta| meta.path.as_str()).collect::<Vec<_>>(), ["a"]);
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    create(&store, "a", "one").await;
    let data = directory.path().join("data");
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(data.clone()), 0o700);
    for entry in std::fs::read_dir(data).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(path.clone()), 0o600, "{path:?}");
    }
}

#[tokio::test]
async fn closing_leaves_one_file_that_is_everything() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    create(&store, "a", "one").await;
    let path = store.path().to_owned();
    drop(store);
    assert!(!directory.path().join("data/kb.db-wal").exists());
    let copy = directory.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    let store = SqliteStore::open(&copy, Policy::default()).unwrap();
    assert_eq!(get(&store, "a").await.body, "one");
}

/// As two processes do: neither waits for the other to go, neither loses anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_share_a_file() {
    let directory = TempDir::new().unwrap();
    let stores = [open(&directory), open(&directory)];
    create(&stores[0], "shared", "").await;
    let writer = async |n: usize| {
        let store = &stores[n % 2];
        create(store, &format!("d/{n}"), "text").await;
        loop {
            let document = get(store, "shared").await;
            let body = format!("{}{n}\n", document.body);
            let mut write = write("shared", Change::Update(text(&body)));
            write.expected_revision = Some(document.meta.revision);
            match store.write(write).await {
                Ok(_) => return,
                Err(error) => assert_eq!(error.code(), Code::Conflict, "{error}"),
            }
        }
    };
    join_all((0..16).map(writer).collect()).await;
    for store in &stores {
        assert_eq!(get(store, "shared").await.body.lines().count(), 16);
        assert_eq!(store.health().await.documents, 17);
        assert_eq!(store.check_integrity().await.unwrap(), Vec::<String>::new());
    }
}

/// K7: readers that always overlap do not let the log grow. It would have some 30 MiB without checkpoints.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_small_under_readers() {
    let fresh = fresh();
    let store = &*fresh;
    let body = |n: usize| format!("{n} {}", "words of some length ".repeat(3000));
    let stop = AtomicBool::new(false);
    create(store, "a", &body(0)).await;
    let read = async |_: usize| {
        while !stop.load(Ordering::Relaxed) {
            get(store, "a").await;
        }
    };
    let write = async {
        let mut largest = 0;
        for n in 1..300 {
            update(store, "a", &body(n)).await;
            let log = store.path().with_extension("db-wal");
            largest = largest.max(std::fs::metadata(log).unwrap().len());
        }
        stop.store(true, Ordering::Relaxed);
        largest
    };
    let (largest, _) = tokio::join!(write, join_all((0..3).map(read).collect()));
    assert!(largest < 24 << 20, "{largest}");
}
