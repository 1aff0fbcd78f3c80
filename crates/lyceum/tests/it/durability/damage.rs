//! Bits that flip and files that are cut short: seen, or harmless (K6).

use std::path::Path;

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
const WRITES: usize = 300;
const PAGES: usize = 40;

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
    now: Document,
    /// All revisions, the first one first.
    then: Vec<Document>,
}

/// A file with documents, some of them deleted, all with a past.
async fn file(data: &Path) -> Book {
    let mut lyceum = Lyceum::start(data, &[]).await;
    let mut line = Line::open(lyceum.address, Door::Rest).await;
    let mut book = Book::new(0, PAGES, 6);
    for _ in 0..WRITES {
        let (n, operation) = book.plan();
        let answer = line.ask(operation.tool, operation.arguments).await;
        book.acknowledge(n, &answer);
    }
    lyceum.terminate().await;
    assert_eq!(lyceum.ended().await, Some(0));
    proof::check(data, std::slice::from_ref(&book)).await;
    book
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
    let mut judge = |found: Result<Option<Document>, Error>, expected: &Document| match found {
        Err(error) => {
            no_defect(&error);
            told = true;
        }
        Ok(None) => missing = true,
        Ok(Some(found)) => assert_eq!(plain(found), plain(expected.clone())),
    };
    for Told { path, now, then } in &truth.documents {
        let found = store.documents(std::slice::from_ref(path)).await;
        judge(found.map(|mut found| found.remove(0)), now);
        for (revision, expected) in (1..).zip(then) {
            judge(store.document_at(path, revision).await, expected);
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
        documents.push(Told { path, now, then });
    }
    Truth { documents, listed: listed(&store).await.unwrap() }
}

/// Writes `bytes` to a file of its own and examines it.
async fn check(bytes: &[u8], what: &str, truth: &Truth) -> Verdict {
    let directory = fast_directory();
    let file = database(directory.path());
    std::fs::write(&file, bytes).unwrap();
    // Shown when something below fails.
    eprintln!("{what}");
    let examined = timeout(PATIENCE, examine(&file, truth)).await;
    examined.expect("a damaged file is no reason to hang")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_a_damaged_file_is_seen_or_harmless() {
    let data = fast_directory();
    let book = file(data.path()).await;
    let whole = std::fs::read(database(data.path())).unwrap();
    let truth = truth(&database(data.path()), &book).await;
    assert_eq!(check(&whole, "whole", &truth).await, Verdict::Harmless);
    let mut dice = Dice::new(7);
    let stride = whole.len() / OFFSETS;
    let mut seen = [0, 0];
    for n in 0..OFFSETS {
        // The first strides are the header and the schema, so one offset falls into the header for sure.
        let offset = n * stride + usize::try_from(dice.below(stride as u64)).unwrap();
        let offset = if n == 0 { offset % 100 } else { offset };
        let mut flipped = whole.clone();
        flipped[offset] ^= 1 << dice.below(8);
        let verdicts = [
            check(&flipped, &format!("bit at {offset}"), &truth).await,
            check(&whole[..offset], &format!("cut at {offset}"), &truth).await,
        ];
        for (seen, verdict) in seen.iter_mut().zip(verdicts) {
            *seen += usize::from(verdict == Verdict::Seen);
        }
    }
    eprintln!("{} bytes; seen: {} of {OFFSETS} bits, {} cuts", whole.len(), seen[0], seen[1]);
    assert!(seen[0] > OFFSETS / 3, "most bits matter: {}", seen[0]);
    assert_eq!(seen[1], OFFSETS, "a file that is cut short is never whole");
}
