//! Lists: L1 to L15, as far as they concern the store. Bounds of arguments and synonyms are the surfaces' business.

use lyceum_kb::store::{ListPage, Store};
use lyceum_kb::{Change, Prefix};

use super::{create, delete, done, join_all, tagged, write};

async fn fill(store: &dyn Store, paths: &[&str]) {
    for at in paths {
        create(store, at, "text").await;
    }
}

fn page(prefix: &str, offset: usize, limit: usize) -> ListPage {
    ListPage { prefix: Prefix::parse(prefix).unwrap(), after: None, offset, limit }
}

async fn list(store: &dyn Store, page: &ListPage) -> Vec<String> {
    let metas = store.list(page).await.unwrap();
    metas.into_iter().map(|meta| meta.path.as_str().to_owned()).collect()
}

async fn check(store: &dyn Store, prefix: &str, expected: &[&str]) {
    assert_eq!(list(store, &page(prefix, 0, 50)).await, expected, "{prefix:?}");
}

pub(crate) async fn l01_an_empty_prefix_lists_everything(store: &dyn Store) {
    check(store, "", &[]).await;
    fill(store, &["b/c", "a", "b", "é", "B", "\u{10ffff}/x", "b-c"]).await;
    check(store, "", &["B", "a", "b", "b-c", "b/c", "é", "\u{10ffff}/x"]).await;
}

pub(crate) async fn l02_a_prefix_does_not_leak(store: &dyn Store) {
    fill(
        store,
        &["knowledge", "knowledge/a", "knowledge/b/c", "knowledgeX", "knowledge0", "other"],
    )
    .await;
    check(store, "knowledge/", &["knowledge/a", "knowledge/b/c"]).await;
    check(store, "/knowledge/", &["knowledge/a", "knowledge/b/c"]).await;
    check(store, "knowledge/b/c", &["knowledge/b/c"]).await;
}

pub(crate) async fn l03_an_underscore_is_literal(store: &dyn Store) {
    fill(store, &["knowledge_/a", "knowledgeX/a", "knowledge/a"]).await;
    check(store, "knowledge_/", &["knowledge_/a"]).await;
    check(store, "knowledge\\_", &[]).await;
}

pub(crate) async fn l04_a_percent_sign_is_literal(store: &dyn Store) {
    fill(store, &["100%/a", "1000/a", "100%"]).await;
    check(store, "100%", &["100%", "100%/a"]).await;
    check(store, "%", &[]).await;
    check(store, "1*", &[]).await;
}

pub(crate) async fn l05_an_unknown_prefix_gives_an_empty_page(store: &dyn Store) {
    fill(store, &["a"]).await;
    check(store, "zzz", &[]).await;
    check(store, "\u{10ffff}", &[]).await;
    check(store, "\u{1}", &[]).await;
}

pub(crate) async fn l06_deleted_documents_are_left_out(store: &dyn Store) {
    fill(store, &["a", "b", "c"]).await;
    delete(store, "b").await;
    check(store, "", &["a", "c"]).await;
    create(store, "b", "again").await;
    check(store, "", &["a", "b", "c"]).await;
}

async fn hundred(store: &dyn Store) -> Vec<String> {
    let paths: Vec<String> = (0..100).map(|n| format!("d/{n:03}")).collect();
    join_all(paths.iter().map(|at| create(store, at, "text")).collect()).await;
    paths
}

pub(crate) async fn l07_offsets_cut_the_list(store: &dyn Store) {
    let paths = hundred(store).await;
    for offset in [0, 24, 49, 50, 99, 100, 9999, 10_000] {
        let expected: Vec<_> = paths.iter().skip(offset).take(50).cloned().collect();
        assert_eq!(list(store, &page("d/", offset, 50)).await, expected, "{offset}");
    }
    assert_eq!(list(store, &page("d/", 0, 101)).await.len(), 100);
}

pub(crate) async fn l11_five_clients_list_at_once(store: &dyn Store) {
    clients_list_at_once(store, 5).await;
}

pub(crate) async fn l12_ten_clients_list_at_once(store: &dyn Store) {
    clients_list_at_once(store, 10).await;
}

/// All see the same, also while somebody writes elsewhere.
async fn clients_list_at_once(store: &dyn Store, clients: usize) {
    let paths = hundred(store).await;
    let read = async |client: usize| {
        for _ in 0..10 {
            assert_eq!(list(store, &page("d/", 0, 100)).await, paths);
            create(store, &format!("e/{client}/{}", uniquely()), "text").await;
        }
    };
    join_all((0..clients).map(read).collect()).await;
}

fn uniquely() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub(crate) async fn l14_the_order_is_stable(store: &dyn Store) {
    fill(store, &["b", "a", "c"]).await;
    let first = list(store, &page("", 0, 50)).await;
    super::update(store, "a", "newer").await;
    assert_eq!(list(store, &page("", 0, 50)).await, first);
    assert_eq!(list(store, &page("", 0, 50)).await, first);
}

pub(crate) async fn a_cursor_goes_on_where_the_page_ended(store: &dyn Store) {
    let paths = hundred(store).await;
    fill(store, &["d", "d/000/x", "e"]).await;
    let mut expected = paths;
    expected.insert(1, "d/000/x".to_owned());
    let mut seen: Vec<String> = Vec::new();
    loop {
        let after = seen.last().cloned();
        let next = list(store, &ListPage { after, ..page("d/", 0, 7) }).await;
        if next.is_empty() {
            break;
        }
        seen.extend(next);
    }
    assert_eq!(seen, expected);
    let beyond = ListPage { after: Some("zzz".to_owned()), ..page("d/", 0, 7) };
    assert!(list(store, &beyond).await.is_empty());
    let below = ListPage { after: Some("a".to_owned()), ..page("d/", 0, 1) };
    assert_eq!(list(store, &below).await, ["d/000"]);
}

pub(crate) async fn tags_are_completed_in_order(store: &dyn Store) {
    for (at, tags) in [("a", &["ops", "open"][..]), ("b", &["ops", "x_%"]), ("c", &["zeta", "oz"])]
    {
        done(store, write(at, Change::Create(tagged("text", tags)))).await;
    }
    assert_eq!(store.tags("", 10).await.unwrap(), ["open", "ops", "oz", "x_%", "zeta"]);
    assert_eq!(store.tags("op", 10).await.unwrap(), ["open", "ops"]);
    assert_eq!(store.tags("o", 2).await.unwrap(), ["open", "ops"]);
    assert_eq!(store.tags("x_", 2).await.unwrap(), ["x_%"]);
    assert!(store.tags("%", 10).await.unwrap().is_empty());
    delete(store, "c").await;
    assert_eq!(store.tags("", 10).await.unwrap(), ["open", "ops", "x_%"]);
    done(store, write("a", Change::Update(tagged("text", &["new"])))).await;
    assert_eq!(store.tags("", 10).await.unwrap(), ["new", "ops", "x_%"]);
}
