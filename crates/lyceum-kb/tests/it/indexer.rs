//! The indexer on a real store: the canaries C1 to C7, and what must hold when models fail.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use lyceum_kb::embed::{EmbedError, Embedder, Fingerprint};
use lyceum_kb::store::sqlite::SqliteStore;
use lyceum_kb::{
    Actor, Change, DocPath, Document, Fields, Indexer, Kb, Mode, Policy, Search, VectorStatus,
    Write,
};
use tempfile::TempDir;
use tokio::time::{Duration, Instant, sleep};

const DIMENSIONS: usize = 16;

/// A model that counts what it is asked, and fails on demand.
struct Counting {
    fingerprint: Fingerprint,
    calls: AtomicUsize,
    texts: Mutex<HashMap<String, usize>>,
    /// Texts that contain this are refused for ever.
    poison: &'static str,
    /// Calls that fail for now.
    failing: AtomicUsize,
    /// Calls that are answered with vectors of another length for now.
    odd: AtomicUsize,
    /// Calls that panic for now.
    panicking: AtomicUsize,
}

/// A knowledge base in a directory of its own.
struct Bench {
    kb: Kb,
    model: Arc<Counting>,
    directory: TempDir,
}

impl Counting {
    fn new(name: &str) -> Arc<Counting> {
        Arc::new(Counting {
            fingerprint: Fingerprint(name.to_owned()),
            calls: AtomicUsize::new(0),
            texts: Mutex::default(),
            poison: "POISON",
            failing: AtomicUsize::new(0),
            odd: AtomicUsize::new(0),
            panicking: AtomicUsize::new(0),
        })
    }

    fn times_embedded(&self, needle: &str) -> usize {
        let texts = self.texts.lock().unwrap();
        texts.iter().filter(|(text, _)| text.contains(needle)).map(|(_, times)| times).sum()
    }
}

#[async_trait]
impl Embedder for Counting {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    fn weight(&self) -> f32 {
        0.5
    }

    fn batch_size(&self) -> usize {
        8
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        assert!(!takes_one(&self.panicking), "on purpose");
        if takes_one(&self.failing) {
            return Err(EmbedError::Later { message: "the service is down".to_owned() });
        }
        if takes_one(&self.odd) {
            return Ok(texts.iter().map(|_| vec![1.0; DIMENSIONS + 1]).collect());
        }
        if texts.iter().any(|text| text.contains(self.poison)) {
            return Err(EmbedError::Never { message: "the text is too long".to_owned() });
        }
        let mut counted = self.texts.lock().unwrap();
        for text in texts {
            *counted.entry(text.clone()).or_default() += 1;
        }
        Ok(texts.iter().map(|text| vector(text)).collect())
    }
}

/// Counts down; says whether there was one left.
fn takes_one(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

/// Letters, counted: near texts have near vectors.
fn vector(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0; DIMENSIONS];
    text.bytes().for_each(|byte| vector[usize::from(byte) % DIMENSIONS] += 1.0);
    vector
}

fn open(directory: &TempDir, policy: Policy) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(&directory.path().join("kb.sqlite"), policy).unwrap())
}

impl Bench {
    async fn new(policy: Policy) -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let model = Counting::new("counting");
        let kb = Kb::open(open(&directory, policy), model.clone(), Vec::new()).await.unwrap();
        Bench { kb, model, directory }
    }

    async fn write(&self, path: &str, change: Change) {
        let write = Write {
            path: DocPath::parse(path).unwrap(),
            change,
            expected_revision: None,
            idempotency: None,
            by: Actor { principal: "tester".to_owned(), ..Actor::default() },
        };
        self.kb.write(write).await.unwrap();
    }

    async fn upload(&self, path: &str, body: &str) {
        self.write(
            path,
            Change::Upsert(Fields { body: Some(body.to_owned()), ..Fields::default() }),
        )
        .await;
    }

    async fn get(&self, path: &str) -> Document {
        self.kb.get(&DocPath::parse(path).unwrap()).await.unwrap()
    }

    async fn status(&self, path: &str) -> VectorStatus {
        self.get(path).await.meta.vector_status
    }

    /// Waits until nothing is left to index.
    async fn settled(&self) {
        let deadline = Instant::now() + Duration::from_secs(15);
        while self.kb.store().backlog().await.unwrap().waiting > 0 {
            assert!(Instant::now() < deadline, "the indexer does not finish");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn c1_one_upload_is_embedded_once() {
    let bench = Bench::new(Policy::default()).await;
    let _indexer = Indexer::start(bench.kb.clone()).unwrap();
    bench.upload("a.md", "alpha text").await;
    bench.settled().await;
    assert_eq!(bench.model.times_embedded("alpha text"), 1);
    assert_eq!(bench.status("a.md").await, VectorStatus::Ready);
    let tags = Fields { tags: Some(vec!["new".to_owned()]), ..Fields::default() };
    bench.write("a.md", Change::Update(tags)).await;
    bench.upload("a.md", "alpha text").await;
    bench.settled().await;
    assert_eq!(
        bench.model.calls.load(Ordering::Relaxed),
        1,
        "tags and unchanged text embed nothing"
    );
    bench.upload("a.md", "alpha text, changed").await;
    bench.settled().await;
    assert_eq!(bench.model.times_embedded("changed"), 1);
}

#[tokio::test]
async fn c2_indexing_again_changes_nothing() {
    let bench = Bench::new(Policy::default()).await;
    let indexer = Indexer::start(bench.kb.clone()).unwrap();
    bench.upload("a.md", "alpha text").await;
    bench.settled().await;
    let set = bench.kb.store().active_set().await.unwrap().unwrap();
    let before = bench.kb.store().vectors_after(set.id, 0, 10).await.unwrap();
    drop(indexer);
    let _again = Indexer::start(bench.kb.clone()).unwrap();
    assert_eq!(bench.kb.reindex_missing().await.unwrap(), 0);
    bench.settled().await;
    assert_eq!(bench.kb.store().vectors_after(set.id, 0, 10).await.unwrap(), before);
    assert_eq!(bench.model.times_embedded("alpha text"), 1);
}

/// There are no ids of points here: a document's vectors are one entry, whose pieces are told apart by where they are in
/// the text. So what must come out the same is the number of entries, the places and the vectors.
#[tokio::test]
async fn c2_made_again_from_nothing_they_are_the_same() {
    let bench = Bench::new(Policy::default()).await;
    let text = format!("# One\n\n{}\n\n# Two\n\n{}", "alpha ".repeat(300), "beta ".repeat(300));
    let _indexer = Indexer::start(bench.kb.clone()).unwrap();
    bench.upload("a.md", &text).await;
    bench.settled().await;
    let made = async || {
        let set = bench.kb.store().active_set().await.unwrap().unwrap();
        let mut vectors = bench.kb.store().vectors_after(set.id, 0, 10).await.unwrap();
        assert_eq!(vectors.len(), 1, "one entry per document");
        let vectors = vectors.remove(0);
        (vectors.key, vectors.text_revision, vectors.chunks)
    };
    let before = made().await;
    assert!(before.2.len() > 2, "several pieces: {}", before.2.len());
    let lose = rusqlite::Connection::open(bench.directory.path().join("kb.sqlite")).unwrap();
    lose.execute("DELETE FROM vector", []).unwrap();
    assert_eq!(bench.kb.reindex_missing().await.unwrap(), 1);
    bench.settled().await;
    assert_eq!(made().await, before);
}

#[tokio::test]
async fn c3_a_write_is_searchable_by_meaning_within_two_seconds() {
    let bench = Bench::new(Policy::default()).await;
    let _indexer = Indexer::start(bench.kb.clone()).unwrap();
    bench.upload("other.md", "zzzz yyyy xxxx").await;
    bench.upload("a.md", "alpha text").await;
    let search =
        Search { query: "text alpah".to_owned(), limit: 5, explain: true, ..Search::default() };
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let found = bench.kb.search(&search).await.unwrap();
        let near = found.hits.iter().any(|hit| hit.explanation.unwrap().vector.is_some());
        if found.mode == Mode::Hybrid && near {
            break;
        }
        assert!(Instant::now() < deadline, "still {found:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn c4_status_goes_from_pending_to_ready_and_stays() {
    let bench = Bench::new(Policy::default()).await;
    for n in 0..10 {
        bench.upload(&format!("d{n}.md"), &format!("text number {n}")).await;
        assert_eq!(bench.status(&format!("d{n}.md")).await, VectorStatus::Pending);
    }
    let _indexer = Indexer::start(bench.kb.clone()).unwrap();
    let mut ready = [false; 10];
    while !ready.iter().all(|ready| *ready) {
        for (n, was) in ready.iter_mut().enumerate() {
            let is = bench.status(&format!("d{n}.md")).await == VectorStatus::Ready;
            assert!(is || !*was, "document {n} was ready and is not any more");
            *was = is;
        }
    }
}

#[tokio::test]
async fn c5_a_new_indexer_finishes_what_a_stopped_one_left() {
    let bench = Bench::new(Policy::default()).await;
    let indexer = Indexer::start(bench.kb.clone()).unwrap();
    for n in 0..200 {
        bench.upload(&format!("d{n}.md"), &format!("text number {n}")).await;
    }
    drop(indexer);
    let reopened = Bench {
        kb: Kb::open(open(&bench.directory, Policy::default()), bench.model.clone(), Vec::new())
            .await
            .unwrap(),
        model: bench.model.clone(),
        directory: tempfile::tempdir().unwrap(),
    };
    let _indexer = Indexer::start(reopened.kb.clone()).unwrap();
    reopened.settled().await;
    let report = reopened.kb.store().audit_sync().await.unwrap();
    assert_eq!((report.n_documents_without_vectors, report.vectors_without_documents), (0, 0));
}

#[tokio::test]
async fn c7_skipped_prefixes_and_empty_documents_are_not_embedded() {
    let policy = Policy { skip_prefixes: vec!["registries/".to_owned()], ..Policy::default() };
    let bench = Bench::new(policy).await;
    let _indexer = Indexer::start(bench.kb.clone()).unwrap();
    bench.upload("registries/a.md", "alpha").await;
    bench.upload("empty.md", "").await;
    bench.upload("registries.md", "beta").await;
    bench.settled().await;
    assert_eq!(bench.status("registries/a.md").await, VectorStatus::Skipped);
    assert_eq!(bench.status("empty.md").await, VectorStatus::Skipped);
    assert_eq!(bench.status("registries.md").await, VectorStatus::Ready);
    assert_eq!(bench.model.texts.lock().unwrap().len(), 1);
    assert_eq!(bench.kb.reindex_missing().await.unwrap(), 0);
    let report = bench.kb.store().audit_sync().await.unwrap();
    assert_eq!(report.n_documents_without_vectors, 0);
}

#[tokio::test]
async fn c7_changed_skip_rules_reach_old_documents() {
    let rules = || Policy { skip_prefixes: vec!["registries/".to_owned()], ..Policy::default() };
    let mut bench = Bench::new(Policy::default()).await;
    let indexer = Indexer::start(bench.kb.clone()).unwrap();
    for (path, body) in [("registries/a.md", "alpha"), ("b.md", "beta"), ("registries/c.md", "")] {
        bench.upload(path, body).await;
    }
    bench.settled().await;
    drop(indexer);
    // What is on the outbox when the rules change must not be embedded after all.
    bench.upload("registries/d.md", "delta").await;
    let expected = [
        (rules(), (2, 0), VectorStatus::Skipped, 1),
        (rules(), (0, 0), VectorStatus::Skipped, 1),
        (Policy::default(), (0, 2), VectorStatus::Ready, 3),
        (Policy::default(), (0, 0), VectorStatus::Ready, 3),
    ];
    for (policy, (skipped, queued), status, with_vectors) in expected {
        let store = open(&bench.directory, policy);
        bench.kb = Kb::open(store, bench.model.clone(), Vec::new()).await.unwrap();
        let skips = bench.kb.apply_skip_rules().await.unwrap();
        assert_eq!((skips.skipped, skips.queued), (skipped, queued));
        let _indexer = Indexer::start(bench.kb.clone()).unwrap();
        bench.settled().await;
        assert_eq!(bench.status("registries/a.md").await, status);
        assert_eq!(bench.status("registries/d.md").await, status);
        assert_eq!(bench.status("b.md").await, VectorStatus::Ready);
        assert_eq!(bench.status("registries/c.md").await, VectorStatus::Skipped, "it is empty");
        let set = bench.kb.store().active_set().await.unwrap().unwrap();
        let vectors = bench.kb.store().vectors_after(set.id, 0, 10).await.unwrap();
        let n = vectors.iter().filter(|change| !change.chunks.is_empty()).count();
        assert_eq!(n, with_vectors);
        let report = bench.kb.store().audit_sync().await.unwrap();
        assert_eq!((report.n_documents_without_vectors, report.vectors_without_documents), (0, 0));
    }
    assert_eq!(bench.model.times_embedded("beta"), 1);
    assert_eq!(bench.model.times_embedded("alpha"), 2);
}

#[tokio::test]
async fn a_deleted_document_never_comes_back_through_its_vectors() {
    let bench = Bench::new(Policy::default()).await;
    for n in 0..50 {
        bench.upload(&format!("d{n}.md"), &format!("text number {n}")).await;
    }
    let _indexer = Indexer::start(bench.kb.clone()).unwrap();
    for n in 0..50 {
        bench.write(&format!("d{n}.md"), Change::Delete).await;
    }
    bench.settled().await;
    bench.kb.load_vectors().await.unwrap();
    let search = Search { query: "text number 7".to_owned(), limit: 20, ..Search::default() };
    assert_eq!(bench.kb.search(&search).await.unwrap().hits, []);
    let report = bench.kb.store().audit_sync().await.unwrap();
    assert_eq!(report.vectors_without_documents, 0);
}

#[tokio::test]
async fn a_late_answer_does_not_overwrite_newer_vectors() {
    let bench = Bench::new(Policy::default()).await;
    let store = bench.kb.store();
    let set = store.vector_set(&bench.model.fingerprint).await.unwrap();
    bench.upload("a.md", "old text").await;
    let late = store.claim(set.id, "slow", 1, Duration::from_secs(60)).await.unwrap().remove(0);
    bench.upload("a.md", "new text").await;
    assert!(!store.finish(&late, Vec::new()).await.unwrap(), "the fence holds");
    let _indexer = Indexer::start(bench.kb.clone()).unwrap();
    bench.settled().await;
    let vectors = store.vectors_after(set.id, 0, 10).await.unwrap();
    assert_eq!(vectors.len(), 1);
    assert_eq!(vectors[0].text_revision, 2);
}

#[tokio::test]
async fn v2_a_poisonous_document_does_not_hold_up_others() {
    let bench = Bench::new(Policy::default()).await;
    for n in 0..40 {
        let body = if n % 20 == 3 { "POISON".to_owned() } else { format!("text number {n}") };
        bench.upload(&format!("d{n}.md"), &body).await;
    }
    let _indexer = Indexer::start(bench.kb.clone()).unwrap();
    bench.settled().await;
    for n in 0..40 {
        let meta = bench.get(&format!("d{n}.md")).await.meta;
        if n % 20 == 3 {
            assert_eq!(meta.vector_status, VectorStatus::Error);
            assert_eq!(meta.vector_error.as_deref(), Some("the text is too long"));
        } else {
            assert_eq!(meta.vector_status, VectorStatus::Ready);
        }
    }
    assert_eq!(bench.kb.store().backlog().await.unwrap().dead, 2);
    bench.upload("d3.md", "harmless now").await;
    bench.settled().await;
    assert_eq!(bench.status("d3.md").await, VectorStatus::Ready);
}

#[tokio::test]
async fn a_service_that_is_down_for_a_while_costs_only_time() {
    let bench = Bench::new(Policy::default()).await;
    bench.model.failing.store(2, Ordering::Relaxed);
    let _indexer = Indexer::start(bench.kb.clone()).unwrap();
    bench.upload("a.md", "alpha").await;
    bench.settled().await;
    assert_eq!(bench.status("a.md").await, VectorStatus::Ready);
}

#[tokio::test]
async fn a_panic_of_the_model_is_a_failed_attempt() {
    let bench = Bench::new(Policy::default()).await;
    bench.model.panicking.store(1, Ordering::Relaxed);
    bench.upload("a.md", "alpha").await;
    bench.upload("b.md", "beta").await;
    let _indexer = Indexer::start(bench.kb.clone()).unwrap();
    bench.settled().await;
    for path in ["a.md", "b.md"] {
        assert_eq!(bench.status(path).await, VectorStatus::Ready, "{path}");
    }
    assert_eq!(bench.model.panicking.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_model_that_panics_leaves_search_its_words() {
    let bench = Bench::new(Policy::default()).await;
    bench.upload("a.md", "alpha text").await;
    let _indexer = Indexer::start(bench.kb.clone()).unwrap();
    bench.settled().await;
    bench.kb.load_vectors().await.unwrap();
    bench.model.panicking.store(1, Ordering::Relaxed);
    let search = Search { query: "alpha".to_owned(), limit: 5, ..Search::default() };
    let found = bench.kb.search(&search).await.unwrap();
    assert_eq!((found.hits.len(), found.mode), (1, Mode::Lexical));
    assert!(found.degraded.unwrap().contains("panicked"));
}

#[tokio::test]
async fn v4_search_answers_from_words_while_vectors_cannot_be_used() {
    let bench = Bench::new(Policy::default()).await;
    bench.upload("a.md", "alpha text").await;
    let search = Search { query: "alpha".to_owned(), limit: 5, ..Search::default() };
    let found = bench.kb.search(&search).await.unwrap();
    assert_eq!((found.hits.len(), found.mode), (1, Mode::Lexical));
    assert!(found.degraded.is_some(), "vectors were not loaded");
    let _indexer = Indexer::start(bench.kb.clone()).unwrap();
    bench.settled().await;
    bench.kb.load_vectors().await.unwrap();
    assert_eq!(bench.kb.search(&search).await.unwrap().degraded, None);
    bench.model.failing.store(1, Ordering::Relaxed);
    let found = bench.kb.search(&search).await.unwrap();
    assert_eq!((found.hits.len(), found.mode), (1, Mode::Lexical));
    assert!(found.degraded.unwrap().contains("down"));
}

#[tokio::test]
async fn another_model_is_built_beside_the_old_one_and_then_takes_over() {
    let bench = Bench::new(Policy::default()).await;
    for n in 0..20 {
        bench.upload(&format!("d{n}.md"), &format!("text number {n}")).await;
    }
    let indexer = Indexer::start(bench.kb.clone()).unwrap();
    bench.settled().await;
    drop(indexer);
    let newer = Counting::new("newer");
    newer.failing.store(1, Ordering::Relaxed);
    let kb = Kb::open(
        open(&bench.directory, Policy::default()),
        newer.clone(),
        vec![bench.model.clone()],
    )
    .await
    .unwrap();
    kb.load_vectors().await.unwrap();
    let search = Search { query: "text number 7".to_owned(), limit: 5, ..Search::default() };
    let found = kb.search(&search).await.unwrap();
    assert_eq!((found.mode, found.degraded), (Mode::Hybrid, None), "the old model still answers");
    let _indexer = Indexer::start(kb.clone()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(15);
    while kb.store().active_set().await.unwrap().unwrap().fingerprint != newer.fingerprint {
        assert!(Instant::now() < deadline, "the new model does not take over");
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(newer.texts.lock().unwrap().len(), 20);
    kb.load_vectors().await.unwrap();
    let found = kb.search(&search).await.unwrap();
    assert_eq!((found.mode, found.degraded), (Mode::Hybrid, None));
    let report = kb.store().audit_sync().await.unwrap();
    assert_eq!((report.n_documents_without_vectors, report.vectors_without_documents), (0, 0));
}

/// The niceness of every thread that indexes.
#[cfg(target_os = "linux")]
fn niceness_of_indexing() -> Vec<String> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap());
    let stats =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    stats
        .filter(|stat| stat.contains("(kb-indexer)"))
        .map(|stat| stat.split(' ').nth(18).unwrap().to_owned())
        .collect()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn indexing_gives_way_and_ends_with_its_owner() {
    let bench = Bench::new(Policy::default()).await;
    let indexer = Indexer::start(bench.kb.clone()).unwrap();
    bench.upload("a.md", "alpha text").await;
    bench.settled().await;
    let niceness = niceness_of_indexing();
    assert!(niceness.len() >= 2, "one that waits and one that works: {niceness:?}");
    assert!(niceness.iter().all(|nice| nice == "10"), "{niceness:?}");
    drop(indexer);
    assert_eq!(niceness_of_indexing(), [""; 0]);
}

#[tokio::test]
async fn vectors_of_another_length_are_asked_for_again() {
    let bench = Bench::new(Policy::default()).await;
    let indexer = Indexer::start(bench.kb.clone()).unwrap();
    bench.upload("a.md", "alpha text").await;
    bench.settled().await;
    drop(indexer);
    // After a restart the first answer is wrong.
    bench.model.odd.store(1, Ordering::Relaxed);
    let _indexer = Indexer::start(bench.kb.clone()).unwrap();
    bench.upload("b.md", "beta text").await;
    bench.settled().await;
    assert_eq!(bench.status("b.md").await, VectorStatus::Ready);
    let set = bench.kb.store().active_set().await.unwrap().unwrap();
    assert_eq!(set.dimensions, Some(DIMENSIONS));
    let vectors = bench.kb.store().vectors_after(set.id, 0, 10).await.unwrap();
    let lengths = vectors.iter().flat_map(|change| &change.chunks);
    assert!(lengths.clone().count() == 2, "{vectors:?}");
    assert!(lengths.into_iter().all(|chunk| chunk.vector.values.len() == DIMENSIONS));
}

/// What versions stored that took the first answer after each start for the rule.
#[tokio::test]
async fn vectors_of_another_length_that_are_stored_are_made_again() {
    let bench = Bench::new(Policy::default()).await;
    let indexer = Indexer::start(bench.kb.clone()).unwrap();
    for path in ["a.md", "b.md"] {
        bench.upload(path, "some text").await;
        bench.settled().await;
    }
    bench.model.odd.store(1, Ordering::Relaxed);
    drop(indexer);
    let file = rusqlite::Connection::open(bench.directory.path().join("kb.sqlite")).unwrap();
    file.execute_batch(
        "UPDATE vector_set SET dimensions = NULL; DELETE FROM vector WHERE document = 2",
    )
    .unwrap();
    // A vector of one component more than the others, all zero.
    let odd =
        [vec![0; 16], vec![DIMENSIONS as u8 + 5, 0, 0, 0, 0, 0, 0, 0], vec![0; DIMENSIONS + 5]];
    file.execute(
        "INSERT INTO vector (set_id, document, text_revision, n, seal, chunks) VALUES (1, 2, 1, 1, 0, ?1)",
        [odd.concat()],
    )
    .unwrap();
    let store = open(&bench.directory, Policy::default());
    let kb = Kb::open(store, bench.model.clone(), Vec::new()).await.unwrap();
    let set = kb.store().active_set().await.unwrap().unwrap();
    assert_eq!(set.dimensions, Some(DIMENSIONS));
    assert_eq!(kb.reindex_missing().await.unwrap(), 1);
}
