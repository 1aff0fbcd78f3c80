//! Whether a file holds what the books say, read by the store itself and not by the server that wrote it.

use std::path::Path;

use lyceum_kb::store::sqlite::SqliteStore;
use lyceum_kb::store::{Filter, Store};
use lyceum_kb::{DocPath, Policy, Query};

use super::book::{Book, Page};
use super::database;

/// Every acknowledged write is there, with its whole history, its words and nothing half done.
pub(super) async fn check(data: &Path, books: &[Book]) {
    let store = SqliteStore::open(&database(data), Policy::default()).unwrap();
    let problems = store.check_integrity().await.unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    for page in books.iter().flat_map(|book| &book.pages) {
        check_page(&store, page).await;
    }
}

async fn check_page(store: &SqliteStore, page: &Page) {
    let path = DocPath::parse(&page.path).unwrap();
    let history = store.history(&path, None, usize::MAX >> 1).await.unwrap();
    let revisions: Vec<i64> = history.iter().rev().map(|revision| revision.revision).collect();
    let n = i64::try_from(page.states.len()).unwrap();
    let last = n + i64::from(page.doubtful.is_some() && revisions.last() == Some(&(n + 1)));
    let expected: Vec<i64> = (1..=last).collect();
    assert_eq!(revisions, expected, "{}: {n} were acknowledged", page.path);
    let doubtful = page.doubtful.iter().filter(|_| last > n);
    let states: Vec<_> = page.states.iter().chain(doubtful).collect();
    for (revision, state) in (1..).zip(&states) {
        let document = store.document_at(&path, revision).await.unwrap().expect("it is in history");
        let is = document.meta.is_alive().then_some(document.body);
        assert_eq!(is, **state, "revision {revision} of {}", page.path);
    }
    let Some(newest) = states.last() else { return };
    let [document] = &store.documents(&[path]).await.unwrap()[..] else { panic!("one document") };
    let document = document.as_ref().expect("it was written");
    assert_eq!(document.meta.revision, last);
    assert_eq!(document.meta.is_alive(), newest.is_some());
    check_words(store, page, states.len(), newest.is_some().then_some(document.meta.key)).await;
}

/// The newest text is found by its words and older ones are not.
async fn check_words(store: &SqliteStore, page: &Page, last: usize, living: Option<i64>) {
    for revision in last.saturating_sub(3).max(1)..=last {
        let query = Query::parse(&page.mark(revision));
        let hits = store.lexical(&query, &Filter::default(), 2).await.unwrap();
        let keys: Vec<i64> = hits.iter().map(|hit| hit.key).collect();
        let expected: Vec<i64> = living.filter(|_| revision == last).into_iter().collect();
        assert_eq!(keys, expected, "words of revision {revision} of {last} of {}", page.path);
    }
}
