//! Vectors: sets, the outbox, leases, and what keeps stale vectors away.

use std::time::Duration;

use lyceum_kb::embed::Fingerprint;
use lyceum_kb::store::{Backlog, ChunkVector, DeadLetters, Job, Lease, Store};
use lyceum_kb::{Change, Code, Fields, Quantized, VectorStatus};

use super::{create, delete, done, get, update, write};

const LONG: Duration = Duration::from_secs(3600);

pub(crate) fn model(name: &str) -> Fingerprint {
    Fingerprint(name.to_owned())
}

async fn new_set(store: &dyn Store, name: &str) -> i64 {
    store.vector_set(&model(name)).await.unwrap().id
}

fn chunk(at: usize) -> ChunkVector {
    let vector = Quantized::new(&[at as f32, 1.0, -2.0]);
    ChunkVector { start: at, end: at + 10, vector }
}

async fn claim(store: &dyn Store, set: i64, limit: usize) -> Vec<Job> {
    store.claim(set, "worker", limit, LONG).await.unwrap()
}

async fn claim_one(store: &dyn Store, set: i64) -> Job {
    let mut jobs = claim(store, set, 10).await;
    assert_eq!(jobs.len(), 1);
    jobs.remove(0)
}

/// Gives every waiting document one chunk.
pub(crate) async fn embed_all(store: &dyn Store, set: i64) -> usize {
    let jobs = claim(store, set, 1000).await;
    for job in &jobs {
        assert!(store.finish(job, vec![chunk(0)]).await.unwrap());
    }
    jobs.len()
}

async fn status(store: &dyn Store, at: &str) -> VectorStatus {
    get(store, at).await.meta.vector_status
}

/// Key, text revision and number of chunks of every change.
async fn changes(store: &dyn Store, set: i64, after: i64) -> Vec<(i64, i64, usize)> {
    let changes = store.vectors_after(set, after, 1000).await.unwrap();
    assert!(changes.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    changes
        .into_iter()
        .map(|change| (change.key, change.text_revision, change.chunks.len()))
        .collect()
}

pub(crate) async fn the_first_set_is_active(store: &dyn Store) {
    assert_eq!(store.active_set().await.unwrap(), None);
    let first = store.vector_set(&model("a")).await.unwrap();
    assert!(first.active);
    assert_eq!(store.vector_set(&model("a")).await.unwrap(), first);
    assert_eq!(store.active_set().await.unwrap(), Some(first));
    assert!(!store.vector_set(&model("b")).await.unwrap().active);
}

pub(crate) async fn a_changed_text_is_claimed_once(store: &dyn Store) {
    let set = new_set(store, "m").await;
    create(store, "a", "one").await;
    let job = claim_one(store, set).await;
    assert_eq!((job.document.body.as_str(), job.attempts), ("one", 1));
    assert!(claim(store, set, 10).await.is_empty());
    assert!(store.finish(&job, vec![chunk(0), chunk(5)]).await.unwrap());
    assert_eq!(status(store, "a").await, VectorStatus::Ready);
    assert!(!store.finish(&job, vec![chunk(0)]).await.unwrap(), "a job is finished once");
    let stored = store.vectors_after(set, 0, 10).await.unwrap();
    assert_eq!(stored[0].chunks, [chunk(0), chunk(5)]);
}

pub(crate) async fn c01_one_job_per_change(store: &dyn Store) {
    let set = new_set(store, "m").await;
    create(store, "a", "one").await;
    update(store, "a", "two").await;
    update(store, "a", "three").await;
    let job = claim_one(store, set).await;
    assert_eq!(job.document.body, "three");
    assert!(store.finish(&job, vec![chunk(0)]).await.unwrap());
    assert!(claim(store, set, 10).await.is_empty());
}

pub(crate) async fn c02_running_again_changes_nothing(store: &dyn Store) {
    let set = new_set(store, "m").await;
    create(store, "a", "one").await;
    embed_all(store, set).await;
    let before = changes(store, set, 0).await;
    assert_eq!(store.enqueue_missing(set).await.unwrap(), 0);
    update(store, "a", "one").await;
    assert!(claim(store, set, 10).await.is_empty());
    assert_eq!(changes(store, set, 0).await, before);
}

pub(crate) async fn c04_other_fields_do_not_embed_again(store: &dyn Store) {
    let set = new_set(store, "m").await;
    create(store, "a", "one").await;
    embed_all(store, set).await;
    let fields = Fields {
        tags: Some(vec!["t".to_owned()]),
        metadata: Some([("k".to_owned(), 1.into())].into_iter().collect()),
        ..Fields::default()
    };
    done(store, write("a", Change::Update(fields))).await;
    assert_eq!(status(store, "a").await, VectorStatus::Ready);
    assert!(claim(store, set, 10).await.is_empty());
    let title = Fields { title: Some("New".to_owned()), ..Fields::default() };
    done(store, write("a", Change::Update(title))).await;
    assert_eq!(status(store, "a").await, VectorStatus::Pending);
    assert_eq!(embed_all(store, set).await, 1, "the title is embedded too");
}

pub(crate) async fn c07_skipped_prefixes_are_not_embedded(store: &dyn Store) {
    let set = new_set(store, "m").await;
    create(store, "skipped/a", "one").await;
    create(store, "skipped", "two").await;
    assert_eq!(status(store, "skipped/a").await, VectorStatus::Skipped);
    assert_eq!(claim_one(store, set).await.document.meta.path.as_str(), "skipped");
    assert_eq!(store.enqueue_missing(set).await.unwrap(), 0);
    update(store, "skipped", " ").await;
    assert_eq!(status(store, "skipped").await, VectorStatus::Skipped);
    assert_eq!(store.backlog().await.unwrap(), Backlog::default());
}

pub(crate) async fn a_delete_behind_an_insert_does_not_resurrect(store: &dyn Store) {
    let set = new_set(store, "m").await;
    create(store, "a", "one").await;
    let job = claim_one(store, set).await;
    delete(store, "a").await;
    assert!(!store.finish(&job, vec![chunk(0)]).await.unwrap());
    store.fail(&job, "too late", None).await.unwrap();
    assert_eq!(status(store, "a").await, VectorStatus::Deleted);
    assert!(changes(store, set, 0).await.is_empty());
    create(store, "a", "one").await;
    assert!(!store.finish(&job, vec![chunk(0)]).await.unwrap(), "same text, newer document");
    assert_eq!(embed_all(store, set).await, 1);
}

pub(crate) async fn a_stale_text_does_not_overwrite(store: &dyn Store) {
    let set = new_set(store, "m").await;
    create(store, "a", "one").await;
    let stale = claim_one(store, set).await;
    update(store, "a", "two").await;
    let fresh = claim_one(store, set).await;
    assert!(store.finish(&fresh, vec![chunk(2)]).await.unwrap());
    assert!(!store.finish(&stale, vec![chunk(1)]).await.unwrap());
    let stored = store.vectors_after(set, 0, 10).await.unwrap();
    assert_eq!((stored.len(), stored[0].text_revision), (1, 2));
    assert_eq!(stored[0].chunks, [chunk(2)]);
}

pub(crate) async fn a_lost_lease_does_not_count(store: &dyn Store) {
    let set = new_set(store, "m").await;
    create(store, "a", "one").await;
    let slow = store.claim(set, "slow", 1, Duration::ZERO).await.unwrap().remove(0);
    let quick = store.claim(set, "quick", 1, LONG).await.unwrap().remove(0);
    assert!(!store.finish(&slow, vec![chunk(1)]).await.unwrap());
    store.fail(&slow, "gave up", None).await.unwrap();
    assert_eq!(status(store, "a").await, VectorStatus::Pending);
    assert!(store.finish(&quick, vec![chunk(1)]).await.unwrap());
}

pub(crate) async fn an_expired_lease_is_claimed_again(store: &dyn Store) {
    let set = new_set(store, "m").await;
    create(store, "a", "one").await;
    let first = store.claim(set, "w", 1, Duration::ZERO).await.unwrap().remove(0);
    let second = store.claim(set, "w", 1, Duration::ZERO).await.unwrap().remove(0);
    assert_eq!((first.attempts, second.attempts), (1, 2));
    assert_ne!(first.lease, second.lease);
    assert!(store.finish(&second, vec![chunk(1)]).await.unwrap(), "late, but nobody else has it");
}

pub(crate) async fn a_job_given_back_waits(store: &dyn Store) {
    let set = new_set(store, "m").await;
    create(store, "a", "one").await;
    let job = claim_one(store, set).await;
    store.fail(&job, "busy", Some(LONG)).await.unwrap();
    assert!(claim(store, set, 10).await.is_empty());
    assert_eq!(status(store, "a").await, VectorStatus::Pending);
    assert_eq!(store.backlog().await.unwrap().waiting, 1);
    update(store, "a", "two").await;
    let job = claim_one(store, set).await;
    assert_eq!(job.attempts, 1, "a new text starts again");
    store.fail(&job, "busy", Some(Duration::ZERO)).await.unwrap();
    assert_eq!(claim_one(store, set).await.attempts, 2);
}

pub(crate) async fn a_dead_letter_keeps_its_reason(store: &dyn Store) {
    let set = new_set(store, "m").await;
    create(store, "a", "one").await;
    let job = claim_one(store, set).await;
    store.fail(&job, "too long for the model", None).await.unwrap();
    let meta = get(store, "a").await.meta;
    assert_eq!(meta.vector_status, VectorStatus::Error);
    assert_eq!(meta.vector_error.as_deref(), Some("too long for the model"));
    assert!(claim(store, set, 10).await.is_empty());
    let backlog = store.backlog().await.unwrap();
    assert_eq!((backlog.waiting, backlog.dead), (0, 1));
    update(store, "a", "shorter").await;
    let meta = get(store, "a").await.meta;
    assert_eq!((meta.vector_status, meta.vector_error), (VectorStatus::Pending, None));
    assert_eq!(embed_all(store, set).await, 1);
}

pub(crate) async fn changes_are_read_in_order(store: &dyn Store) {
    let set = new_set(store, "m").await;
    for at in ["a", "b", "c"] {
        create(store, at, "one").await;
    }
    embed_all(store, set).await;
    let keys = [get(store, "a").await, get(store, "b").await, get(store, "c").await]
        .map(|document| document.meta.key);
    assert_eq!(changes(store, set, 0).await, keys.map(|key| (key, 1, 1)));
    let page = store.vectors_after(set, 0, 2).await.unwrap();
    assert_eq!(changes(store, set, page[1].seq).await, [(keys[2], 1, 1)]);
    let last = store.vectors_after(set, 0, 9).await.unwrap()[2].seq;
    update(store, "a", "two").await;
    embed_all(store, set).await;
    delete(store, "b").await;
    assert_eq!(changes(store, set, last).await, [(keys[0], 2, 1), (keys[1], 1, 0)]);
    let everything = [(keys[2], 1, 1), (keys[0], 2, 1), (keys[1], 1, 0)];
    assert_eq!(changes(store, set, 0).await, everything);
}

pub(crate) async fn a_new_model_is_built_beside_the_old(store: &dyn Store) {
    let old = new_set(store, "old").await;
    create(store, "a", "one").await;
    create(store, "b", "one").await;
    embed_all(store, old).await;
    let new = new_set(store, "new").await;
    assert_eq!(store.enqueue_missing(new).await.unwrap(), 2);
    assert_eq!(status(store, "a").await, VectorStatus::Ready, "searches still use the old set");
    update(store, "a", "two").await;
    assert_eq!(claim(store, old, 9).await.len(), 1, "both sets learn of a write");
    let jobs = claim(store, new, 9).await;
    assert_eq!(jobs.len(), 2);
    let job = jobs.iter().find(|job| job.document.body == "two").unwrap();
    assert!(store.finish(job, vec![chunk(0)]).await.unwrap());
    assert_eq!(status(store, "a").await, VectorStatus::Pending, "not in the active set");
    store.activate_set(new).await.unwrap();
    assert_eq!(status(store, "a").await, VectorStatus::Ready);
    assert_eq!(status(store, "b").await, VectorStatus::Pending);
    assert_eq!(store.active_set().await.unwrap().map(|set| set.id), Some(new));
    assert!(changes(store, old, 0).await.is_empty());
    assert_eq!(store.activate_set(old).await.unwrap_err().code(), Code::NotFound);
    assert_ne!(new_set(store, "old").await, old, "a dropped set does not come back");
}

pub(crate) async fn a_set_is_complete_with_few_exceptions(store: &dyn Store) {
    let set = new_set(store, "m").await;
    assert!(store.is_complete(set).await.unwrap(), "there is nothing to embed");
    for n in 0..20 {
        create(store, &format!("d/{n}"), "one").await;
    }
    let jobs = claim(store, set, 20).await;
    for job in &jobs[..18] {
        store.finish(job, vec![chunk(0)]).await.unwrap();
    }
    store.fail(&jobs[18], "poison", None).await.unwrap();
    assert!(!store.is_complete(set).await.unwrap(), "one is still waiting");
    store.fail(&jobs[19], "poison", None).await.unwrap();
    assert!(!store.is_complete(set).await.unwrap(), "two in twenty are too many");
    create(store, "skipped/x", "one").await;
    update(store, jobs[19].document.meta.path.as_str(), "two").await;
    embed_all(store, set).await;
    assert!(store.is_complete(set).await.unwrap());
    let other = new_set(store, "other").await;
    assert!(!store.is_complete(other).await.unwrap(), "nothing was enqueued for it");
}

pub(crate) async fn what_is_missing_is_enqueued(store: &dyn Store) {
    for n in 0..3 {
        create(store, &format!("d/{n}"), "one").await;
    }
    create(store, "gone", "one").await;
    delete(store, "gone").await;
    let set = new_set(store, "m").await;
    assert!(claim(store, set, 10).await.is_empty(), "written before there was a set");
    assert_eq!(store.enqueue_missing(set).await.unwrap(), 3);
    assert_eq!(store.enqueue_missing(set).await.unwrap(), 0, "they are waiting already");
    let jobs = claim(store, set, 10).await;
    store.fail(&jobs[0], "poison", None).await.unwrap();
    assert_eq!(store.enqueue_missing(set).await.unwrap(), 0, "a dead letter stays one");
    let retry = async || store.retry_dead(set, DeadLetters::Refused).await.unwrap();
    assert_eq!(retry().await, 1, "until it is tried again");
    assert_eq!(retry().await, 0);
    let at = jobs[0].document.meta.path.as_str();
    assert_eq!(status(store, at).await, VectorStatus::Pending);
}

pub(crate) async fn the_backlog_is_counted(store: &dyn Store) {
    create(store, "early", "one").await;
    assert_eq!(store.backlog().await.unwrap().waiting, 1, "it waits for a set to be made");
    let set = new_set(store, "m").await;
    assert_eq!(store.backlog().await.unwrap().waiting, 1, "and for the set to hear of it");
    store.enqueue_missing(set).await.unwrap();
    assert_eq!(store.backlog().await.unwrap().waiting, 1);
    embed_all(store, set).await;
    assert_eq!(store.backlog().await.unwrap(), Backlog::default());
    create(store, "a", "one").await;
    create(store, "b", "one").await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    update(store, "a", "two").await;
    let backlog = store.backlog().await.unwrap();
    assert_eq!((backlog.waiting, backlog.dead), (2, 0));
    assert!(backlog.oldest >= Duration::from_millis(5), "{backlog:?}");
    embed_all(store, set).await;
    assert_eq!(store.backlog().await.unwrap(), Backlog::default());
}

pub(crate) async fn documents_and_vectors_are_compared(store: &dyn Store) {
    let set = new_set(store, "m").await;
    for at in ["a", "b", "c", "skipped/d"] {
        create(store, at, "one").await;
    }
    embed_all(store, set).await;
    create(store, "e", "one").await;
    update(store, "a", "two").await;
    delete(store, "b").await;
    let report = store.audit_sync().await.unwrap();
    assert_eq!(report.documents_without_vectors, ["a", "e"]);
    assert_eq!(report.n_documents_without_vectors, 2);
    assert_eq!(report.vectors_without_documents, 0);
    assert_eq!(store.cleanup_orphans(true).await.unwrap(), 0);
    assert_eq!(store.cleanup_orphans(false).await.unwrap(), 0);
}

pub(crate) async fn the_first_vectors_decide_how_long_all_are(store: &dyn Store) {
    let set = new_set(store, "m").await;
    let vector = |length: usize| {
        let vector = Quantized::new(&vec![1.0; length]);
        ChunkVector { start: 0, end: 1, vector }
    };
    for path in ["a", "b"] {
        create(store, path, "one").await;
    }
    let [a, b] = &claim(store, set, 10).await[..] else { panic!("two jobs") };
    let mixed = store.finish(a, vec![vector(3), vector(5)]).await.unwrap_err();
    assert_eq!(mixed.code(), Code::InvalidArgument);
    assert!(store.finish(a, vec![vector(3), vector(3)]).await.unwrap());
    let other = store.finish(b, vec![vector(5)]).await.unwrap_err();
    assert_eq!(other.code(), Code::InvalidArgument);
    assert!(other.message().contains("5 dimensions"), "{other}");
    assert_eq!(status(store, "b").await, VectorStatus::Pending);
    assert_eq!(store.vector_set(&model("m")).await.unwrap().dimensions, Some(3));
    assert!(store.finish(b, vec![vector(3)]).await.unwrap(), "the job is still to be done");
}

/// Claims, and lets the lease end without a word.
async fn abandon(store: &dyn Store, set: i64) -> Vec<String> {
    let jobs = store.claim(set, "worker", 10, Duration::ZERO).await.unwrap();
    jobs.into_iter().map(|job| job.document.meta.path.as_str().to_owned()).collect()
}

pub(crate) async fn what_ends_its_worker_is_leased_alone_and_then_given_up(store: &dyn Store) {
    let set = new_set(store, "m").await;
    for path in ["a", "b", "killer"] {
        create(store, path, "one").await;
    }
    assert_eq!(abandon(store, set).await.len(), 3, "nothing is known of them");
    for path in ["a", "b"] {
        let job = claim_one(store, set).await;
        assert_eq!(job.document.meta.path.as_str(), path);
        assert!(store.finish(&job, vec![chunk(0)]).await.unwrap());
    }
    for _ in 0..2 {
        assert_eq!(abandon(store, set).await, ["killer"]);
    }
    create(store, "c", "one").await;
    assert_eq!(abandon(store, set).await, ["c"], "it is given up, others are not");
    assert_eq!(status(store, "killer").await, VectorStatus::Error);
    let retry = async |which| store.retry_dead(set, which).await.unwrap();
    assert_eq!(retry(DeadLetters::Refused).await, 0, "it would end its worker again");
    assert_eq!(retry(DeadLetters::All).await, 1, "unless that is wanted");
    update(store, "killer", "another text").await;
    assert_eq!(status(store, "killer").await, VectorStatus::Pending);
}

pub(crate) async fn what_is_given_back_in_time_is_as_if_it_had_not_been_leased(store: &dyn Store) {
    let set = new_set(store, "m").await;
    create(store, "a", "one").await;
    for _ in 0..9 {
        let leases: Vec<Lease> = claim(store, set, 10).await.iter().map(Job::leased).collect();
        store.release(leases).await.unwrap();
    }
    let job = claim_one(store, set).await;
    assert_eq!(job.attempts, 1);
}
