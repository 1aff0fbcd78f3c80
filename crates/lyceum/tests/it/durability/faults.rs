//! Disks that fill up or fail: every write and every fsync fails once (K3).
//!
//! strace lets chosen system calls fail. It counts calls per thread, and the store writes in one thread once it is
//! open; the opening is another, so it has tests of its own.

mod strace;

use std::path::Path;

use lyceum_testkit::Request;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep};

use self::strace::{Fault, Tracee};
use super::book::Book;
use super::line::{Door, Line, Operation, Outcome};
use super::{fast_directory, proof};
use crate::lyceum::Lyceum;

const OPERATIONS: usize = 200;
const PAGES: usize = 12;
const SEED: u64 = 3;

/// In one run every so many-th write fails; as many runs, each shifted by one, make all fail.
const STEP: usize = 100;

/// How often a client tries again.
const TRIES: usize = 20;

/// As many runs at a time as there are processors at least.
const PARALLEL: usize = 2;

/// The files that are written once the store is open.
const OPEN: [&str; 3] = ["knowledge.db", "knowledge.db-wal", "knowledge.db-journal"];

/// A data directory that was opened and closed once.
async fn template() -> tempfile::TempDir {
    let data = fast_directory();
    let mut lyceum = Lyceum::start(data.path(), &[]).await;
    lyceum.terminate().await;
    assert_eq!(lyceum.ended().await, Some(0));
    data
}

fn copy(template: &Path) -> tempfile::TempDir {
    let data = fast_directory();
    for name in ["knowledge.db", "seal.key"] {
        std::fs::copy(template.join(name), data.path().join(name)).unwrap();
    }
    data
}

/// Tries until the write is acknowledged; says how often it was refused.
async fn insist(line: &mut Line, book: &mut Book) -> usize {
    let (n, operation) = book.plan();
    for refusals in 0..TRIES {
        match line.attempt(&operation).await {
            Outcome::Done(answer) => {
                book.acknowledge(n, &answer);
                return refusals;
            }
            Outcome::Refused { code, message } => assert_eq!(code, "UNAVAILABLE", "{message}"),
            Outcome::Lost => panic!("the server is gone"),
        }
    }
    panic!("refused {TRIES} times: {operation:?}")
}

async fn health(lyceum: &Lyceum) -> (u16, Value) {
    let response = lyceum.call(&Request::new("GET", "/health")).await;
    (response.head.status, response.json()["status"].clone())
}

/// Runs the script while every `STEP`-th write fails. Each refused write is tried again until it is acknowledged.
async fn script_on_a_bad_disk(template: &Path, error: &'static str, first: usize) -> usize {
    let data = copy(template);
    let when = format!("{first}+{STEP}");
    let fault = Fault { calls: "pwrite64,ftruncate", error, when, files: &OPEN };
    let mut tracee = Tracee::start(data.path(), &fault).await.expect("opening writes nothing here");
    let mut line = Line::open(tracee.lyceum.address, Door::Rest).await;
    let mut book = Book::new(0, PAGES, SEED);
    let mut refusals = 0;
    for _ in 0..OPERATIONS {
        refusals += insist(&mut line, &mut book).await;
    }
    recovers(&tracee.lyceum).await;
    // Closing writes too; dying does not.
    if first.is_multiple_of(10) {
        tracee.lyceum.terminate().await;
        tracee.lyceum.ended().await;
    } else {
        tracee.lyceum.kill().await;
    }
    assert!(tracee.injected() > 0, "nothing failed, so nothing is shown");
    proof::check(data.path(), &[book]).await;
    refusals
}

/// Runs the script until the `n`-th fsync fails; whether one did.
async fn script_until_an_fsync_fails(template: &Path, n: usize) -> bool {
    let data = copy(template);
    let fault = Fault { calls: "fsync,fdatasync", error: "EIO", when: n.to_string(), files: &OPEN };
    let mut tracee = Tracee::start(data.path(), &fault).await.expect("opening syncs nothing here");
    let mut line = Line::open(tracee.lyceum.address, Door::Mcp).await;
    let mut book = Book::new(0, PAGES, SEED);
    for _ in 0..OPERATIONS {
        let (page, operation) = book.plan();
        match line.attempt(&operation).await {
            Outcome::Done(answer) => book.acknowledge(page, &answer),
            refused => {
                check_refusal(refused, "");
                check_read_only(&tracee.lyceum, &mut line, &operation, &book).await;
                break;
            }
        }
    }
    let failed = tracee.injected() > 0;
    if failed {
        // It may have been the indexer's, after the last write.
        is_failing(&tracee.lyceum).await;
    }
    tracee.lyceum.kill().await;
    proof::check(data.path(), std::slice::from_ref(&book)).await;
    if n.is_multiple_of(20) {
        writes_again(data.path(), book).await;
    }
    failed
}

fn check_refusal(outcome: Outcome, says: &str) {
    let Outcome::Refused { code, message } = outcome else { panic!("{outcome:?}") };
    assert_eq!(code, "UNAVAILABLE", "{message}");
    assert!(message.contains(says), "{message}");
}

/// Nothing is written any more, and everything can be read.
async fn check_read_only(lyceum: &Lyceum, line: &mut Line, operation: &Operation, book: &Book) {
    check_refusal(line.attempt(operation).await, "read-only");
    assert_eq!(health(lyceum).await, (503, json!("failing")));
    let living = book.pages.iter().find(|page| page.doubtful.is_none() && page.text().is_some());
    let Some(page) = living else { return };
    let read = line.ask("get_document_for_rewrite", json!({ "path": page.path })).await;
    assert_eq!(read["content"].as_str(), page.text());
    assert_eq!(read["revision"], page.states.len());
}

/// The last thing to fail may have been upkeep after the last write, or what finds out that writing works again.
async fn recovers(lyceum: &Lyceum) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while health(lyceum).await != (200, json!("ok")) {
        assert!(Instant::now() < deadline, "health does not recover");
        sleep(Duration::from_millis(100)).await;
    }
}

async fn is_failing(lyceum: &Lyceum) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while health(lyceum).await != (503, json!("failing")) {
        assert!(Instant::now() < deadline, "a failed fsync goes unnoticed");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A restart makes it writable.
async fn writes_again(data: &Path, mut book: Book) {
    let mut lyceum = Lyceum::start(data, &[]).await;
    let mut line = Line::open(lyceum.address, Door::Mcp).await;
    book.settle(&mut line).await;
    for _ in 0..10 {
        assert_eq!(insist(&mut line, &mut book).await, 0);
    }
    lyceum.kill().await;
    proof::check(data, &[book]).await;
}

/// Opens a fresh directory while the `n`-th call fails; whether one did.
async fn open_on_a_bad_disk(calls: &'static str, error: &'static str, n: usize) -> bool {
    let data = fast_directory();
    let files = ["", "seal.key", "knowledge.db-shm", OPEN[0], OPEN[1], OPEN[2]];
    let fault = Fault { calls, error, when: n.to_string(), files: &files };
    let injected = match Tracee::start(data.path(), &fault).await {
        Ok(mut tracee) => {
            tracee.lyceum.kill().await;
            tracee.injected()
        }
        Err(failed) => {
            assert!(failed.message.starts_with("lyceum: "), "{}", failed.message);
            failed.injected
        }
    };
    writes_again(data.path(), Book::new(0, PAGES, SEED)).await;
    injected > 0
}

/// Runs a few at a time.
async fn in_parallel<I, F>(runs: impl Iterator<Item = I>, run: impl Fn(I) -> F) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut running = JoinSet::new();
    let mut results = Vec::new();
    for each in runs {
        if running.len() == PARALLEL {
            results.push(running.join_next().await.expect("some run").unwrap());
        }
        running.spawn(run(each));
    }
    results.extend(running.join_all().await);
    results
}

/// Lets the first, the second… call fail until there is none left to fail; says how many there were.
async fn one_after_another<F>(run: impl Fn(usize) -> F) -> usize
where
    F: Future<Output = bool> + Send + 'static,
{
    let mut n = 0;
    loop {
        let failed = in_parallel(n + 1..=n + PARALLEL, &run).await;
        n += failed.iter().filter(|failed| **failed).count();
        if failed.contains(&false) {
            return n;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_every_failed_write_is_refused_and_the_next_one_works() {
    let template = template().await;
    let runs = (1..=STEP).flat_map(|first| [("ENOSPC", first), ("EIO", first)]);
    let refusals = in_parallel(runs, |(error, first)| {
        let template = template.path().to_owned();
        async move { script_on_a_bad_disk(&template, error, first).await }
    })
    .await;
    let total: usize = refusals.iter().sum();
    eprintln!("{} runs of {OPERATIONS} operations, {total} refusals", refusals.len());
    assert!(total > refusals.len(), "hardly anything failed: {total}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_a_failed_fsync_makes_the_store_read_only() {
    let template = template().await;
    let n = one_after_another(|n| {
        let template = template.path().to_owned();
        async move { script_until_an_fsync_fails(&template, n).await }
    })
    .await;
    eprintln!("{n} fsyncs failed, each in a run of its own");
    assert!(n >= OPERATIONS, "every acknowledged write is synced: {n}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_a_disk_that_fails_at_the_start_is_told_and_does_no_harm() {
    let rows = [
        ("pwrite64", "ENOSPC"),
        ("pwrite64", "EIO"),
        ("write", "ENOSPC"),
        ("ftruncate", "ENOSPC"),
        ("ftruncate", "EIO"),
        ("fsync,fdatasync", "EIO"),
    ];
    for (calls, error) in rows {
        let n = one_after_another(|n| open_on_a_bad_disk(calls, error, n)).await;
        eprintln!("{calls}: {n} times {error}");
        assert!(n > 0, "{calls}");
    }
}
