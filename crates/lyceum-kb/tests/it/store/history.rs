//! Revisions: all are kept, any can be read and brought back.

use lyceum_kb::store::Store;
use lyceum_kb::{Actor, Change, Code, Fields, Status, VectorStatus};

use super::{create, delete, done, get, outcome, path, refused, tagged, update, write};

pub(crate) async fn every_revision_is_kept(store: &dyn Store) {
    create(store, "a", "öne").await;
    update(store, "a", "two!").await;
    let mut deletion = write("a", Change::Delete);
    deletion.by.principal = "bob".to_owned();
    done(store, deletion).await;
    create(store, "b", "other").await;
    let history = store.history(&path("a"), None, 10).await.unwrap();
    let told: Vec<_> = history
        .iter()
        .map(|revision| (revision.revision, &*revision.author, &*revision.action, revision.length))
        .collect();
    let expected =
        [(3, "bob", "deleted", 4), (2, "alice", "updated", 4), (1, "alice", "created", 3)];
    assert_eq!(told, expected);
    assert!(history.windows(2).all(|pair| pair[0].at >= pair[1].at));
}

pub(crate) async fn history_goes_on_before_a_revision(store: &dyn Store) {
    create(store, "a", "0").await;
    for n in 1..5 {
        update(store, "a", &n.to_string()).await;
    }
    let revisions = async |before, limit| {
        let history = store.history(&path("a"), before, limit).await.unwrap();
        history.into_iter().map(|revision| revision.revision).collect::<Vec<_>>()
    };
    assert_eq!(revisions(None, 2).await, [5, 4]);
    assert_eq!(revisions(Some(4), 2).await, [3, 2]);
    assert_eq!(revisions(Some(2), 2).await, [1]);
    assert!(revisions(Some(1), 2).await.is_empty());
    assert!(store.history(&path("none"), None, 9).await.unwrap().is_empty());
}

pub(crate) async fn a_document_is_as_it_was(store: &dyn Store) {
    done(store, write("a", Change::Create(tagged("one", &["x"])))).await;
    let first = get(store, "a").await;
    update(store, "a", "two").await;
    delete(store, "a").await;
    let mut then = store.document_at(&path("a"), 1).await.unwrap().unwrap();
    assert_eq!(then.meta.vector_status, VectorStatus::Deleted, "the vectors are those of today");
    then.meta.vector_status = first.meta.vector_status;
    assert_eq!(then, first);
    let gone = store.document_at(&path("a"), 3).await.unwrap().unwrap();
    assert!(!gone.meta.is_alive());
    assert!(store.document_at(&path("a"), 4).await.unwrap().is_none());
    assert!(store.document_at(&path("b"), 1).await.unwrap().is_none());
}

pub(crate) async fn a_deleted_document_comes_back(store: &dyn Store) {
    create(store, "a", "one").await;
    update(store, "a", "two").await;
    delete(store, "a").await;
    assert_eq!(refused(store, write("a", Change::Restore(3))).await, Code::NotFound);
    assert_eq!(refused(store, write("a", Change::Restore(9))).await, Code::NotFound);
    let restored = done(store, write("a", Change::Restore(1))).await;
    assert_eq!(outcome(&restored), (Status::Restored, 4));
    let document = get(store, "a").await;
    assert_eq!((document.body.as_str(), document.meta.text_revision), ("one", 4));
    assert!(document.meta.is_alive());
}

pub(crate) async fn restoring_tags_does_not_embed_again(store: &dyn Store) {
    let set = store.vector_set(&super::vectors::model("m")).await.unwrap().id;
    done(store, write("a", Change::Create(tagged("one", &["x"])))).await;
    super::vectors::embed_all(store, set).await;
    let tags = Fields { tags: Some(vec!["y".to_owned()]), ..Fields::default() };
    done(store, write("a", Change::Update(tags))).await;
    done(store, write("a", Change::Restore(1))).await;
    let meta = get(store, "a").await.meta;
    assert_eq!((meta.revision, meta.text_revision), (3, 1));
    assert_eq!(meta.tags, ["x"]);
    assert_eq!(meta.vector_status, VectorStatus::Ready);
}

pub(crate) async fn a_purge_takes_every_text_away(store: &dyn Store) {
    done(store, write("a/b", Change::Create(tagged("first words", &["tag"])))).await;
    update(store, "a/b", "second words").await;
    create(store, "c", "other words").await;
    let purged = store.purge(&path("a/b"), Actor::default()).await.unwrap();
    assert_eq!(outcome(&purged), (Status::Deleted, 3));
    let left = get(store, "a/b").await;
    assert!(!left.meta.is_alive() && left.meta.tags.is_empty() && left.meta.title == "b");
    for revision in 1..=3 {
        let text = store.document_at(&path("a/b"), revision).await.unwrap().unwrap().body;
        assert_eq!(text, "", "revision {revision}");
    }
    assert_eq!(store.writes_after(3, 9).await.unwrap().len(), 1, "others are told");
    assert!(store.tags("", 9).await.unwrap().is_empty());
    assert_eq!(get(store, "c").await.body, "other words");
    assert!(store.check_integrity().await.unwrap().is_empty());
    let again = store.purge(&path("a/b"), Actor::default()).await.unwrap();
    assert_eq!(outcome(&again), (Status::Deleted, 3), "what is empty stays as it is");
    assert_eq!(outcome(&create(store, "a/b", "new").await), (Status::Created, 4));
    assert!(store.check_integrity().await.unwrap().is_empty());
    let nothing = store.purge(&path("none"), Actor::default()).await.unwrap_err();
    assert_eq!(nothing.code(), Code::NotFound);
}
