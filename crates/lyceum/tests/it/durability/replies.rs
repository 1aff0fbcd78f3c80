//! Answers that never arrive: a write with an idempotency key is applied once, however often it is sent (K4).

use std::net::SocketAddr;

use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};

use super::book::Book;
use super::dice::Dice;
use super::line::{Door, Line, Operation, Outcome};
use super::proof;
use crate::lyceum::Lyceum;

const WRITERS: usize = 8;
const WRITES: usize = 50;

/// Sends the operation a few times and cuts each connection at another moment, then waits for the answer.
async fn write(address: SocketAddr, book: &mut Book, key: String, dice: &mut Dice) -> u64 {
    let (n, mut operation) = book.plan();
    operation.arguments["idempotency_key"] = key.into();
    let door = || if n % 2 == 0 { Door::Mcp } else { Door::Rest };
    let cuts = 1 + dice.below(3);
    for _ in 0..cuts {
        let line = Line::open(address, door()).await;
        line.abandon(&operation, Duration::from_micros(dice.below(3000))).await;
    }
    let mut line = Line::open(address, door()).await;
    let Outcome::Done(first) = line.attempt(&operation).await else { panic!("{operation:?}") };
    book.acknowledge(n, &first);
    // The same again is answered the same.
    assert_eq!(line.ask(operation.tool, operation.arguments.clone()).await, first);
    refuses_other_arguments(&mut line, operation).await;
    cuts
}

/// The key stands for one request only.
async fn refuses_other_arguments(line: &mut Line, mut operation: Operation) {
    operation.arguments["expected_revision"] = 1_000_000.into();
    match line.attempt(&operation).await {
        Outcome::Refused { code, .. } => assert_eq!(code, "CONFLICT"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_a_write_whose_reply_is_lost_is_applied_once() {
    let data = tempfile::tempdir().unwrap();
    let mut lyceum = Lyceum::start(data.path(), &[]).await;
    let address = lyceum.address;
    let mut writing = JoinSet::new();
    for writer in 0..WRITERS {
        writing.spawn(async move {
            let mut dice = Dice::new(writer as u64);
            let mut book = Book::new(writer, 8, 4);
            let mut cuts = 0;
            for n in 0..WRITES {
                cuts += write(address, &mut book, format!("{writer}-{n}"), &mut dice).await;
            }
            (book, cuts)
        });
    }
    let (books, cuts): (Vec<Book>, Vec<u64>) = writing.join_all().await.into_iter().unzip();
    let cuts: u64 = cuts.iter().sum();
    eprintln!("{} writes, {cuts} replies cut", WRITERS * WRITES);
    // Requests that were cut are still under way; whatever they do must not show.
    sleep(Duration::from_millis(100)).await;
    lyceum.kill().await;
    proof::check(data.path(), &books).await;
}
