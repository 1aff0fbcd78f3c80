//! A thousand times kill -9 under eight writers (K1, V1).

use std::path::Path;

use lyceum_testkit::Request;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep};

use super::book::Book;
use super::dice::Dice;
use super::line::{Door, Line};
use super::proof;
use crate::lyceum::Lyceum;

const KILLS: usize = 1000;
const WRITERS: usize = 8;
const PAGES: usize = 24;

/// How long the vectors may take to catch up with what the last cycles wrote.
const CATCH_UP: Duration = Duration::from_secs(60);

/// Holds the server against the books, then writes until it is killed.
async fn cycle(data: &Path, books: Vec<Book>, life: Duration) -> Vec<Book> {
    let mut lyceum = Lyceum::start(data, &[]).await;
    let writers = settle(&lyceum, books).await;
    let mut writing = JoinSet::new();
    for (mut book, mut line) in writers {
        writing.spawn(async move {
            book.write_until_lost(&mut line).await;
            book
        });
    }
    sleep(life).await;
    lyceum.kill().await;
    writing.join_all().await
}

async fn settle(lyceum: &Lyceum, books: Vec<Book>) -> Vec<(Book, Line)> {
    let mut settling = JoinSet::new();
    for (n, mut book) in books.into_iter().enumerate() {
        let door = if n % 2 == 0 { Door::Mcp } else { Door::Rest };
        let mut line = Line::open(lyceum.address, door).await;
        settling.spawn(async move {
            book.settle(&mut line).await;
            (book, line)
        });
    }
    settling.join_all().await
}

/// Waits until every living document has its vectors, and no vectors are left over.
async fn catch_up(lyceum: &Lyceum) {
    let deadline = Instant::now() + CATCH_UP;
    loop {
        let sync = lyceum.call(&Request::post("/kb/audit-sync", "{}")).await.json();
        if sync["status"] == "in_sync" {
            assert_eq!(sync["documents_without_vectors"], 0, "{sync}");
            assert_eq!(sync["vectors_without_documents"], 0, "{sync}");
            return;
        }
        assert!(Instant::now() < deadline, "{sync}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_acknowledged_writes_survive_a_thousand_kills() {
    let data = tempfile::tempdir().unwrap();
    let mut dice = Dice::new(1);
    let mut books: Vec<Book> = (0..WRITERS).map(|n| Book::new(n, PAGES, dice.next())).collect();
    let start = Instant::now();
    for _ in 0..KILLS {
        let life = Duration::from_micros(10_000 + dice.below(70_000));
        books = cycle(data.path(), books, life).await;
    }
    let spent = start.elapsed();
    let acknowledged: usize = books.iter().map(|book| book.acknowledged).sum();
    eprintln!("{KILLS} kills, {acknowledged} acknowledged, {:?} per cycle", spent / 1000);
    assert!(acknowledged > KILLS, "the writers hardly wrote: {acknowledged}");
    let mut lyceum = Lyceum::start(data.path(), &[]).await;
    let settled = settle(&lyceum, books).await;
    books = settled.into_iter().map(|(book, _)| book).collect();
    catch_up(&lyceum).await;
    lyceum.terminate().await;
    assert_eq!(lyceum.ended().await, Some(0));
    proof::check(data.path(), &books).await;
}
