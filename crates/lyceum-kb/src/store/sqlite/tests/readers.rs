//! Reading under abuse: endless queries, callers that hang up, filters made up by the hundred.

use rusqlite::Connection;
use tokio::time::{Duration, Instant, timeout};

use super::super::fault::Fault;
use super::super::{SqliteStore, Store};
use super::{create, fresh};
use crate::store::{ApiKey, Filter};
use crate::{CallerId, Code, Prefix, Query};

/// Far more than any of this takes, and far less than what is interrupted would take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A query that never ends by itself.
fn endless(connection: &Connection) -> std::result::Result<i64, Fault> {
    let sql =
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// Keeps every connection for documents and searches busy until the futures are dropped.
fn occupy(store: &SqliteStore) -> Vec<tokio::task::JoinHandle<()>> {
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (documents, searches) = (store.readers.clone(), store.readers.clone());
        tasks.push(tokio::spawn(async move {
            documents.run(endless).await.ok();
        }));
        tasks.push(tokio::spawn(async move {
            searches.run_search(|connection, _| endless(connection)).await.ok();
        }));
    }
    tasks
}

/// Waits until no search holds a connection.
async fn until_free(store: &SqliteStore) {
    let free = async {
        while !store.readers.all_searchers_are_free() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, free).await.unwrap();
}

fn key(name: &str) -> ApiKey {
    ApiKey {
        id: name.to_owned(),
        name: name.to_owned(),
        secret_sha256: [0; 32],
        created_at: 1,
        expires_at: None,
        revoked_at: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_health_are_read_while_every_reader_is_busy() {
    let fresh = fresh();
    let store = &fresh.store;
    store.add_key(key("robot")).await.unwrap();
    let busy = occupy(store);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(timeout(PATIENCE, store.revoke_key("robot", 5)).await.unwrap().unwrap(), 1);
    let keys = timeout(PATIENCE, store.keys()).await.unwrap().unwrap();
    assert_eq!(keys[0].revoked_at, Some(5));
    assert_eq!(timeout(PATIENCE, store.health()).await.unwrap().last_error, None);
    timeout(PATIENCE, store.last_write()).await.unwrap().unwrap();
    timeout(PATIENCE, store.active_set()).await.unwrap().unwrap();
    busy.iter().for_each(tokio::task::JoinHandle::abort);
    // Requests that hung up leave the queue.
    let page = crate::store::ListPage { limit: 1, ..Default::default() };
    timeout(PATIENCE, store.list(&page)).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_whose_caller_hangs_up_frees_its_connection() {
    let fresh = fresh();
    let readers = fresh.store.readers.on_behalf_of(CallerId::new("a"));
    for _ in 0..10 {
        let search = readers.run_search(|connection, _| endless(connection));
        assert!(timeout(Duration::from_millis(20), search).await.is_err());
    }
    until_free(&fresh.store).await;
}

/// FTS5 compares positions of a phrase outside of SQLite's virtual machine; it must be stopped there as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_for_a_phrase_in_repetitive_texts_can_be_interrupted() {
    let fresh = fresh();
    let body = "a ".repeat(400_000);
    for n in 0..4 {
        create(&fresh.store, &format!("d/{n}"), &body).await.unwrap();
    }
    let store = fresh.store.on_behalf_of(CallerId::new("a"));
    let phrases: String = (2..40).map(|n| format!("\"{}\" ", "a ".repeat(n))).collect();
    let (query, everything) = (Query::parse(&phrases), Filter::default());
    let started = Instant::now();
    assert_eq!(fresh.store.lexical(&query, &everything, 10).await.unwrap().len(), 4);
    let whole = started.elapsed();
    let started = Instant::now();
    for _ in 0..3 {
        let search = store.lexical(&query, &everything, 10);
        assert!(timeout(Duration::from_millis(10), search).await.is_err());
    }
    until_free(&fresh.store).await;
    // Not interrupted, they would take about half as long as the one before, which found no pages in memory.
    assert!(started.elapsed() < whole / 5, "{:?} of {whole:?}", started.elapsed());
}

#[test]
fn a_filter_holds_only_what_a_document_can_have() {
    let tags = |tags: Vec<String>| Filter { tags, ..Filter::default() };
    assert!(tags(vec!["x".repeat(256)]).check().is_ok());
    for bad in [vec!["x".repeat(15 << 20)], vec![String::new()], vec!["x".to_owned(); 65]] {
        assert_eq!(tags(bad).check().unwrap_err().code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn filters_count_against_the_budget_with_their_text() {
    let fresh = fresh();
    let long = "p".repeat(900);
    for n in 0..200 {
        create(&fresh.store, &format!("{long}{n}"), "text").await.unwrap();
    }
    for n in 0..200 {
        let prefix = Prefix::parse(&format!("{long}{n}")).unwrap();
        let kept = Filter { prefix, ..Filter::default() };
        assert!(!fresh.store.matching(&kept).await.unwrap().is_empty());
        let made_up = Filter { tags: vec![format!("{long}{n}")], ..Filter::default() };
        assert!(fresh.store.matching(&made_up).await.unwrap().is_empty());
    }
    let (entries, bytes) = fresh.store.memory.kept_filters();
    assert_eq!(entries, 200, "empty results are not kept");
    assert!(bytes > 200 * 900, "{bytes}");
}
