//! Large patches are decided before they reach the writing thread.

use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::time::{Duration, timeout};

use super::super::prepare::{Outcome, Prepared};
use super::super::{SqliteStore, Store};
use super::{create, fresh};
use crate::fair::COMPUTE;
use crate::write::{Actor, Change, Write};
use crate::{CallerId, Code, DocPath, Replacement, Status};

fn patch(path: &str, old: &str, new: &str) -> Write {
    let edit = Replacement { old: old.to_owned(), new: new.to_owned() };
    Write {
        path: DocPath::parse(path).unwrap(),
        change: Change::Patch(vec![edit]),
        expected_revision: None,
        idempotency: None,
        by: Actor::default(),
    }
}

async fn last_outcomes(store: &SqliteStore, limit: usize) -> Vec<String> {
    let lines = store.audit_trail(None, limit).await.unwrap();
    lines.into_iter().map(|line| line.entry.outcome).collect()
}

#[tokio::test]
async fn other_writes_go_on_while_a_large_patch_is_decided() {
    let fresh = fresh();
    let store = Arc::new(fresh.store);
    create(&store, "large", &"a".repeat(4 << 20)).await.unwrap();
    // Nothing can be patched before a slot is free.
    let mut busy = Vec::new();
    for _ in 0..available_parallelism().unwrap().get() {
        busy.push(COMPUTE.acquire(&CallerId::INTERNAL).await.unwrap());
    }
    let write = patch("large", &"a".repeat(2 << 20), "b");
    let (patcher, mut patching) = (Arc::clone(&store), tokio::task::JoinSet::new());
    patching.spawn(async move { patcher.write(write).await });
    for n in 0..3 {
        create(&store, &format!("small/{n}"), "x").await.unwrap();
    }
    assert!(timeout(Duration::from_millis(100), patching.join_next()).await.is_err());
    drop(busy);
    let error = patching.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.code(), Code::Ambiguous);
    assert_eq!(error.details()["occurrences"], (2 << 20) + 1);
    assert_eq!(last_outcomes(&store, 9).await, ["ok"; 4]);
}

#[tokio::test]
async fn a_patch_prepared_for_another_revision_is_prepared_again() {
    let fresh = fresh();
    let store = &fresh.store;
    let body = "x\n".repeat(100_000) + "end";
    create(store, "large", &body).await.unwrap();
    let write = Arc::new(patch("large", "end", "END"));
    for revision in [0, 2] {
        let prepared = Prepared::Patched { revision, body: Ok("another text".to_owned()) };
        let outcome = store.submit(&write, prepared).await.unwrap();
        assert!(matches!(outcome, Outcome::Unprepared), "{outcome:?}");
    }
    assert_eq!(last_outcomes(store, 9).await, ["ok"], "what is not decided is not audited");
    let written = store.write(patch("large", "end", "END")).await.unwrap();
    assert_eq!((written.status, written.revision), (Status::Patched, 2));
    let document = store.documents(&[written.path]).await.unwrap().remove(0).unwrap();
    assert_eq!(document.body, body.replace("end", "END"));
}
