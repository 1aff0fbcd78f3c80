//! Bits that flip and files that are cut short: seen, or harmless (K6).

use std::path::{Path, PathBuf};

use lyceum_kb::store::sqlite::SqliteStore;
use lyceum_kb::store::{ListPage, Store};
use lyceum_kb::{DocPath, Document, Error, Policy, VectorStatus};
use tokio::time::{Duration, timeout};

use super::book::Book;
use super::dice::Dice;
use super::line::{Door, Line};
use super::{database, fast_directory, proof};
use crate::lyceum::Lyceum;

const OFFSETS: usize = 200;

/// Opening and reading everything takes a fraction of it.
const PATIENCE: Duration = Duration::from_secs(20);

/// What became of a damaged file.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// Somebody is told.
    Seen,
    /// Everything is as it was.
    Harmless,
}

/// What a whole file holds.
struct Truth {
    documents: Vec<Told>,
    /// Living documents, in order.
    listed: Vec<DocPath>,
}

/// What there is to know about one document.
struct Told {
    path: DocPath,
    /// All revisions, the first one first.
    then: Vec<Document>,
}

/// The files of a data directory, by what follows the database's name.
type Files = Vec<(&'static str, Vec<u8>)>;

/// A server with documents, some of them deleted, all with a past.
async fn server(data: &Path, n_pages: usize, n_writes: usize) -> (Lyceum, Book) {
    let lyceum = Lyceum::start(data, &[]).await;
    let mut line = Line::open(lyceum.address, Door::Rest).await;
    let mut book = Book::new(0, n_pages, 6);
    for _ in 0..n_writes {
        let (n, operation) = book.plan();
        let answer = line.ask(operation.tool, operation.arguments).await;
        book.acknowledge(n, &answer);
    }
    (lyceum, book)
}

/// What a server leaves that was stopped: one file.
async fn stopped(data: &Path) -> (Files, Book) {
    let (mut lyceum, book) = server(data, 40, 300).await;
    lyceum.terminate().await;
    assert_eq!(lyceum.ended().await, Some(0));
    proof::check(data, std::slice::from_ref(&book)).await;
    (files(data, &[""]), book)
}

/// What a server leaves that was killed: everything is still in the log, for it wrote less than what the log is emptied
/// for.
async fn killed(data: &Path) -> (Files, Book) {
    let (mut lyceum, book) = server(data, 3, 30).await;
    lyceum.kill().await;
    let files = files(data, &["", "-wal", "-shm", ".mark"]);
    proof::check(data, std::slice::from_ref(&book)).await;
    (files, book)
}

fn files(data: &Path, suffixes: &[&'static str]) -> Files {
    let read = |suffix| (suffix, std::fs::read(beside(&database(data), suffix)).unwrap());
    suffixes.iter().copied().map(read).collect()
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", file.display()))
}

/// The same files, with one of them changed.
fn with(files: &Files, suffix: &str, change: impl FnOnce(&mut Vec<u8>)) -> Files {
    let mut files = files.clone();
    let (_, bytes) = files.iter_mut().find(|(name, _)| *name == suffix).unwrap();
    change(bytes);
    files
}

fn no_defect(error: &Error) {
    assert!(!error.message().contains("defect"), "{error}");
}

/// The living documents as a list names them.
async fn listed(store: &SqliteStore) -> Result<Vec<DocPath>, Error> {
    let page =
        ListPage { prefix: Default::default(), after: None, offset: 0, limit: usize::MAX >> 1 };
    Ok(store.list(&page).await?.into_iter().map(|meta| meta.path).collect())
}

/// Reads everything. Wrong content is never served; what is missing must be told by the integrity check.
async fn examine(file: &Path, truth: &Truth) -> Verdict {
    let store = match SqliteStore::open(file, Policy::default()) {
        Ok(store) => store,
        Err(error) => {
            no_defect(&error);
            return Verdict::Seen;
        }
    };
    let (mut told, mut missing) = (false, false);
    let mut judge = |found: Result<Option<Document>, Error>, then: &[Document]| match found {
        Err(error) => {
            no_defect(&error);
            told = true;
        }
        Ok(None) => missing = true,
        Ok(Some(found)) => {
            // What was true once may be found when newer writes are lost, which must be told.
            let n = usize::try_from(found.meta.revision).unwrap();
            missing |= n < then.len();
            assert_eq!(plain(found), plain(then[n - 1].clone()));
        }
    };
    for Told { path, then } in &truth.documents {
        let found = store.documents(std::slice::from_ref(path)).await;
        judge(found.map(|mut found| found.remove(0)), then);
        for revision in 1..=then.len() {
            let found = store.document_at(path, revision as i64).await;
            judge(found, &then[..revision]);
        }
    }
    match listed(&store).await {
        Ok(listed) => missing |= listed != truth.listed,
        Err(_) => told = true,
    }
    let problems = store.check_integrity().await;
    told |= problems.as_ref().map_or(true, |problems| !problems.is_empty());
    assert!(told || !missing, "documents are missing and nobody is told");
    if told { Verdict::Seen } else { Verdict::Harmless }
}

/// What the indexer notes about a document is not what its reader came for.
fn plain(mut document: Document) -> Document {
    document.meta.vector_error = None;
    document.meta.vector_status = VectorStatus::Pending;
    document
}

async fn truth(file: &Path, book: &Book) -> Truth {
    let store = SqliteStore::open(file, Policy::default()).unwrap();
    let mut documents = Vec::new();
    for page in &book.pages {
        let path = DocPath::parse(&page.path).unwrap();
        let now = store.documents(std::slice::from_ref(&path)).await.unwrap().remove(0).unwrap();
        let mut then = Vec::new();
        for revision in 1..=now.meta.revision {
            then.push(store.document_at(&path, revision).await.unwrap().unwrap());
        }
        assert_eq!(plain(now), plain(then.last().unwrap().clone()));
        documents.push(Told { path, then });
    }
    Truth { documents, listed: listed(&store).await.unwrap() }
}

/// Writes the files to a directory of their own and examines them.
async fn check(files: &Files, what: &str, truth: &Truth) -> Verdict {
    let directory = fast_directory();
    let file = database(directory.path());
    for (suffix, bytes) in files {
        std::fs::write(beside(&file, suffix), bytes).unwrap();
    }
    // Shown when something below fails.
    eprintln!("{what}");
    let examined = timeout(PATIENCE, examine(&file, truth)).await;
    examined.expect("a damaged file is no reason to hang")
}

/// Flips a bit in each of `n` parts of a file, and cuts it there; how often that was seen.
async fn damage(files: &Files, suffix: &str, n: usize, truth: &Truth) -> [usize; 2] {
    let (_, whole) = files.iter().find(|(name, _)| *name == suffix).unwrap();
    let mut dice = Dice::new(7);
    let stride = whole.len() / n;
    let mut seen = [0, 0];
    for part in 0..n {
        // The first strides are the header and the schema, so one offset falls into the header for sure. A file cut
        // to nothing is a new one.
        let offset = part * stride + usize::try_from(dice.below(stride as u64)).unwrap();
        let offset = if part == 0 { 1 + offset % 99 } else { offset };
        let bit = 1 << dice.below(8);
        let flipped = with(files, suffix, |bytes| bytes[offset] ^= bit);
        let cut = with(files, suffix, |bytes| bytes.truncate(offset));
        let verdicts = [
            check(&flipped, &format!("bit at {offset} of {suffix:?}"), truth).await,
            check(&cut, &format!("{suffix:?} cut at {offset}"), truth).await,
        ];
        if verdicts[1] == Verdict::Harmless {
            eprintln!("harmless: {suffix:?} cut at {offset} of {}", whole.len());
        }
        for (seen, verdict) in seen.iter_mut().zip(verdicts) {
            *seen += usize::from(verdict == Verdict::Seen);
        }
    }
    eprintln!("{} bytes; seen: {} of {n} bits, {} cuts", whole.len(), seen[0], seen[1]);
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_a_damaged_file_is_seen_or_harmless() {
    let data = fast_directory();
    let (files, book) = stopped(data.path()).await;
    let truth = truth(&database(data.path()), &book).await;
    assert_eq!(check(&files, "whole", &truth).await, Verdict::Harmless);
    let [bits, cuts] = damage(&files, "", OFFSETS, &truth).await;
    assert!(bits > OFFSETS / 3, "most bits matter: {bits}");
    assert_eq!(cuts, OFFSETS, "a file that is cut short is never whole");
    // SQLite takes what is missing of the last page for zeros, which it may have been.
    for n_lost in [1, 10, 100, 1000, 4000, 4095] {
        let cut = with(&files, "", |bytes| bytes.truncate(bytes.len() - n_lost));
        let verdict = check(&cut, &format!("{n_lost} bytes lost"), &truth).await;
        assert_eq!(verdict, Verdict::Seen);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_a_damaged_log_is_seen_or_harmless() {
    let data = fast_directory();
    let (files, book) = killed(data.path()).await;
    let truth = truth(&database(data.path()), &book).await;
    assert_eq!(check(&files, "whole", &truth).await, Verdict::Harmless);
    let [bits, cuts] = damage(&files, "-wal", OFFSETS, &truth).await;
    // What follows the last write are vectors, which are made again.
    assert!(bits > OFFSETS / 2 && cuts > OFFSETS / 2, "{bits} and {cuts}");
    // It is made anew from the log, and without the mark there is just one witness less.
    for suffix in ["-shm", ".mark"] {
        assert_eq!(damage(&files, suffix, 10, &truth).await, [0, 0], "{suffix}");
    }
}
