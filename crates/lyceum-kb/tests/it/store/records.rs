//! What is kept beside documents: audit lines, API keys, answers to repeated requests, health.

use lyceum_kb::store::{ApiKey, AuditEntry, AuditLine, Store};
use lyceum_kb::{Actor, Change, Code, Status, Write};

use super::{create, delete, done, get, keyed, outcome, path, refused, text, write};

async fn trail(store: &dyn Store) -> Vec<AuditLine> {
    store.audit_trail(None, 100).await.unwrap()
}

pub(crate) async fn a_write_leaves_an_audit_line(store: &dyn Store) {
    let write = write("a", Change::Create(text("x")));
    let actor = write.by.clone();
    done(store, write).await;
    let lines = trail(store).await;
    let expected = AuditEntry { actor, document: Some("a".to_owned()), outcome: "ok".to_owned() };
    assert_eq!(lines.into_iter().map(|line| line.entry).collect::<Vec<_>>(), [expected]);
}

pub(crate) async fn a_refused_write_leaves_none(store: &dyn Store) {
    create(store, "a", "x").await;
    refused(store, write("a", Change::Create(text("y")))).await;
    refused(store, write("b", Change::Delete)).await;
    let outcomes: Vec<_> = trail(store).await.into_iter().map(|line| line.entry.outcome).collect();
    assert_eq!(outcomes, ["ok"]);
}

pub(crate) async fn the_trail_is_read_backwards(store: &dyn Store) {
    for n in 0..5 {
        let actor = Actor { principal: format!("p{n}"), ..Actor::default() };
        let entry = AuditEntry { actor, document: None, outcome: "FORBIDDEN".to_owned() };
        store.audit(entry).await.unwrap();
    }
    let first = store.audit_trail(None, 2).await.unwrap();
    let second = store.audit_trail(Some(first[1].id), 10).await.unwrap();
    let names: Vec<_> =
        first.iter().chain(&second).map(|line| line.entry.actor.principal.as_str()).collect();
    assert_eq!(names, ["p4", "p3", "p2", "p1", "p0"]);
}

pub(crate) async fn keys_are_kept_and_revoked(store: &dyn Store) {
    let key = |id: &str, name: &str, expires_at| ApiKey {
        id: id.to_owned(),
        name: name.to_owned(),
        secret_sha256: [7; 32],
        created_at: 1,
        expires_at,
        revoked_at: None,
    };
    let keys = [key("1", "laptop", None), key("2", "laptop", Some(5)), key("3", "ci", Some(500))];
    for key in &keys {
        store.add_key(key.clone()).await.unwrap();
    }
    assert_eq!(store.keys().await.unwrap(), keys);
    assert_eq!(store.add_key(keys[0].clone()).await.unwrap_err().code(), Code::Conflict);
    assert_eq!(store.revoke_key("laptop", 100).await.unwrap(), 1, "the other had expired");
    assert_eq!(store.revoke_key("laptop", 100).await.unwrap(), 0);
    assert_eq!(store.revoke_key("3", 200).await.unwrap(), 1);
    assert_eq!(store.revoke_key("none", 200).await.unwrap(), 0);
    let revoked: Vec<_> = store.keys().await.unwrap().iter().map(|key| key.revoked_at).collect();
    assert_eq!(revoked, [Some(100), Some(100), Some(200)]);
}

pub(crate) async fn an_answer_is_given_again(store: &dyn Store) {
    let create = || keyed(write("a", Change::Create(text("x"))), "k", 1);
    let first = done(store, create()).await;
    super::update(store, "a", "y").await;
    assert_eq!(done(store, create()).await, first);
    assert_eq!(get(store, "a").await.body, "y");
    let deletion = || keyed(write("a", Change::Delete), "d", 2);
    assert_eq!(outcome(&done(store, deletion()).await), (Status::Deleted, 3));
    assert_eq!(outcome(&done(store, deletion()).await), (Status::Deleted, 3));
    assert_eq!(store.history(&path("a"), None, 9).await.unwrap().len(), 3);
}

pub(crate) async fn a_key_with_other_arguments_is_a_conflict(store: &dyn Store) {
    done(store, keyed(write("a", Change::Create(text("x"))), "k", 1)).await;
    let other = keyed(write("b", Change::Create(text("x"))), "k", 2);
    assert_eq!(refused(store, other).await, Code::Conflict);
    assert!(super::find(store, "b").await.is_none());
    assert_eq!(trail(store).await.len(), 1, "the refusal is the caller's to write down");
}

pub(crate) async fn a_key_belongs_to_a_principal_and_a_tool(store: &dyn Store) {
    let create = |at: &str, digest, principal: &str, tool: &str| {
        let mut write = keyed(write(at, Change::Create(text("x"))), "k", digest);
        write.by.principal = principal.to_owned();
        write.by.tool = tool.to_owned();
        write
    };
    done(store, create("a", 1, "alice", "upload")).await;
    done(store, create("b", 2, "bob", "upload")).await;
    done(store, create("c", 3, "alice", "ingest")).await;
}

pub(crate) async fn a_refused_write_may_be_tried_again(store: &dyn Store) {
    create(store, "a", "x").await;
    let again = || keyed(write("a", Change::Create(text("y"))), "k", 1);
    assert_eq!(refused(store, again()).await, Code::Conflict);
    delete(store, "a").await;
    assert_eq!(outcome(&done(store, again()).await), (Status::Created, 3));
}

pub(crate) async fn a_new_store_is_healthy_and_whole(store: &dyn Store) {
    let unchanged = |write| Write { expected_revision: Some(1), ..write };
    create(store, "a", "x").await;
    create(store, "b", "x").await;
    delete(store, "b").await;
    done(store, unchanged(write("a", Change::Update(text("x"))))).await;
    let health = store.health().await;
    assert_eq!((health.documents, health.last_error), (1, None));
    assert_eq!((health.unreadable, health.unwritable), (None, None));
    assert_eq!(store.check_integrity().await.unwrap(), Vec::<String>::new());
}
