//! Creating, changing and deleting.

use lyceum_kb::store::Store;
use lyceum_kb::{Change, Code, Fields, MimeType, Replacement, Status, VectorStatus, Write};
use serde_json::json;

use super::{
    create, delete, done, find, get, join_all, outcome, path, refused, text, update, write,
};

pub(crate) async fn a_document_is_created_and_read(store: &dyn Store) {
    let metadata = json!({"owner": "ops", "n": 1}).as_object().unwrap().clone();
    let fields = Fields {
        title: Some("Setup".to_owned()),
        tags: Some(vec!["b".to_owned(), "a".to_owned()]),
        source: Some("https://example.org".to_owned()),
        metadata: Some(metadata.clone()),
        mime_type: Some(MimeType::Plain),
        ..text("héllo \u{1f600}\0 world")
    };
    let written = done(store, write("guides/setup.md", Change::Create(fields))).await;
    assert_eq!(outcome(&written), (Status::Created, 1));
    let document = get(store, "guides/setup.md").await;
    let meta = &document.meta;
    assert_eq!(document.body, "héllo \u{1f600}\0 world");
    assert_eq!((meta.title.as_str(), &meta.path), ("Setup", &path("guides/setup.md")));
    assert_eq!(meta.tags, ["b", "a"]);
    assert_eq!(meta.source.as_deref(), Some("https://example.org"));
    assert_eq!((&meta.metadata, meta.mime_type), (&metadata, MimeType::Plain));
    assert_eq!((meta.revision, meta.text_revision), (1, 1));
    assert_eq!((meta.created_at, meta.deleted_at), (meta.updated_at, None));
    assert_eq!(meta.vector_status, VectorStatus::Pending);
    let by_key = store.documents_by_key(&[meta.key, meta.key + 1000]).await.unwrap();
    assert_eq!(by_key, std::slice::from_ref(&document));
    let several = store.documents(&[path("none"), path("guides/setup.md")]).await.unwrap();
    assert_eq!(several, [None, Some(document)]);
}

pub(crate) async fn creating_twice_is_a_conflict(store: &dyn Store) {
    create(store, "a", "one").await;
    let error = store.write(write("a", Change::Create(text("two")))).await.unwrap_err();
    assert_eq!(
        (error.code(), error.details()["actual_revision"].as_i64()),
        (Code::Conflict, Some(1))
    );
    assert_eq!(get(store, "a").await.body, "one");
    let upserted = done(store, write("a", Change::Upsert(text("two")))).await;
    assert_eq!(outcome(&upserted), (Status::Updated, 2));
}

pub(crate) async fn an_update_keeps_what_is_not_given(store: &dyn Store) {
    let fields = Fields { title: Some("T".to_owned()), ..super::tagged("one", &["x"]) };
    done(store, write("a", Change::Create(fields))).await;
    assert_eq!(outcome(&update(store, "a", "two").await), (Status::Updated, 2));
    let document = get(store, "a").await;
    assert_eq!((document.body.as_str(), document.meta.title.as_str()), ("two", "T"));
    assert_eq!(document.meta.tags, ["x"]);
    let only_tags = Fields { tags: Some(vec![]), ..Fields::default() };
    done(store, write("a", Change::Update(only_tags))).await;
    let document = get(store, "a").await;
    assert_eq!((document.body.as_str(), document.meta.tags.len()), ("two", 0));
    assert_eq!((document.meta.revision, document.meta.text_revision), (3, 2));
    assert_eq!(refused(store, write("b", Change::Update(text("x")))).await, Code::NotFound);
}

pub(crate) async fn an_update_without_a_difference_is_unchanged(store: &dyn Store) {
    create(store, "a", "one").await;
    assert_eq!(outcome(&update(store, "a", "one").await), (Status::Unchanged, 1));
    assert_eq!(store.history(&path("a"), None, 10).await.unwrap().len(), 1);
}

pub(crate) async fn a_patch_replaces_one_passage(store: &dyn Store) {
    create(store, "a", "one two two").await;
    let patch = |old: &str, new: &str| {
        let edit = Replacement { old: old.to_owned(), new: new.to_owned() };
        write("a", Change::Patch(vec![edit]))
    };
    assert_eq!(outcome(&done(store, patch("one", "1")).await), (Status::Patched, 2));
    assert_eq!(refused(store, patch("two", "2")).await, Code::Ambiguous);
    assert_eq!(refused(store, patch("three", "3")).await, Code::NotFoundInContent);
    assert_eq!(get(store, "a").await.body, "1 two two");
}

pub(crate) async fn a_delete_is_soft(store: &dyn Store) {
    create(store, "a", "one").await;
    assert_eq!(outcome(&delete(store, "a").await), (Status::Deleted, 2));
    let document = get(store, "a").await;
    assert!(!document.meta.is_alive());
    assert_eq!(document.meta.vector_status, VectorStatus::Deleted);
    assert_eq!(document.body, "one");
    assert!(store.documents_by_key(&[document.meta.key]).await.unwrap().is_empty());
    assert_eq!(refused(store, write("a", Change::Delete)).await, Code::NotFound);
    assert_eq!(refused(store, write("a", Change::Update(text("x")))).await, Code::NotFound);
    assert!(find(store, "never").await.is_none());
}

pub(crate) async fn a_document_can_be_created_again(store: &dyn Store) {
    create(store, "a", "one").await;
    let key = get(store, "a").await.meta.key;
    delete(store, "a").await;
    assert_eq!(outcome(&create(store, "a", "one").await), (Status::Created, 3));
    let meta = get(store, "a").await.meta;
    assert_eq!((meta.key, meta.revision, meta.text_revision), (key, 3, 3));
    assert_eq!(meta.vector_status, VectorStatus::Pending);
}

pub(crate) async fn an_expected_revision_is_checked(store: &dyn Store) {
    let expecting =
        |change, revision| Write { expected_revision: Some(revision), ..write("a", change) };
    assert_eq!(refused(store, expecting(Change::Create(text("x")), 1)).await, Code::Conflict);
    done(store, expecting(Change::Create(text("one")), 0)).await;
    let error = store.write(expecting(Change::Update(text("two")), 7)).await.unwrap_err();
    assert_eq!(
        (error.code(), error.details()["actual_revision"].as_i64()),
        (Code::Conflict, Some(1))
    );
    assert_eq!(refused(store, expecting(Change::Delete, 2)).await, Code::Conflict);
    done(store, expecting(Change::Update(text("two")), 1)).await;
    done(store, expecting(Change::Delete, 2)).await;
}

pub(crate) async fn a_document_that_is_too_large_is_refused(store: &dyn Store) {
    let limit = super::policy().max_body;
    create(store, "a", &"x".repeat(limit)).await;
    let larger = write("b", Change::Create(text(&"x".repeat(limit + 1))));
    assert_eq!(refused(store, larger).await, Code::InvalidArgument);
}

pub(crate) async fn empty_text_is_skipped_by_the_indexer(store: &dyn Store) {
    create(store, "a", " \n").await;
    assert_eq!(get(store, "a").await.meta.vector_status, VectorStatus::Skipped);
    update(store, "a", "words").await;
    assert_eq!(get(store, "a").await.meta.vector_status, VectorStatus::Pending);
}

/// K5: each writer adds its own line and tries again when somebody was faster.
pub(crate) async fn sixty_four_writers_lose_no_update(store: &dyn Store) {
    create(store, "a", "").await;
    let add = async |n: usize| {
        let mut conflicts = 0;
        loop {
            let document = get(store, "a").await;
            let body = format!("{}{n}\n", document.body);
            let mut write = write("a", Change::Update(text(&body)));
            write.expected_revision = Some(document.meta.revision);
            match store.write(write).await {
                Ok(_) => return conflicts,
                Err(error) => assert_eq!(error.code(), Code::Conflict),
            }
            conflicts += 1;
        }
    };
    let mut tasks = Vec::new();
    for n in 0..64 {
        tasks.push(add(n));
    }
    let conflicts: usize = join_all(tasks).await.into_iter().sum();
    assert!(conflicts > 0, "the writers were meant to collide");
    let document = get(store, "a").await;
    let mut lines: Vec<usize> = document.body.lines().map(|line| line.parse().unwrap()).collect();
    lines.sort_unstable();
    assert_eq!(lines, (0..64).collect::<Vec<_>>());
    assert_eq!(document.meta.revision, 65);
    assert_eq!(store.history(&path("a"), None, 100).await.unwrap().len(), 65);
}
