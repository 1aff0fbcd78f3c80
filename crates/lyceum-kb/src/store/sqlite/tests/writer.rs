//! The writer: shared commits, and failures that reach no further than they must.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rusqlite::{Connection, ffi};

use super::super::fault::Fault;
use super::super::{SqliteStore, Store};
use super::super::{integrity, pieces};
use super::{create, fresh};
use crate::store::{Filter, LexicalHit};
use crate::write::{Actor, Change, Fields, Write};
use crate::{Code, DocPath, Error, Policy, Query, Result};

fn failure(extended_code: i32) -> Fault {
    Fault::Sqlite(rusqlite::Error::SqliteFailure(ffi::Error::new(extended_code), None))
}

/// Holds the writer until the returned sender is dropped, so that what is sent meanwhile waits together.
async fn hold(
    store: &SqliteStore,
) -> (std::sync::mpsc::Sender<()>, impl Future<Output = Result<()>>) {
    let (release, held) = std::sync::mpsc::channel();
    let (started, begun) = tokio::sync::oneshot::channel();
    let mut holding = Box::pin(store.writer.run(0, move |_| {
        let _ = started.send(());
        let _ = held.recv();
        Ok(())
    }));
    tokio::select! {
        _ = &mut holding => panic!("it is held"),
        begun = begun => begun.unwrap(),
    }
    (release, holding)
}

#[tokio::test]
async fn writers_that_wait_together_share_a_commit() {
    let fresh = fresh();
    let store = &fresh.store;
    let before = store.writer_counts();
    let (release, held) = hold(store).await;
    let mut release = Some(release);
    let mut writes = Vec::new();
    for n in 0..50 {
        writes.push(Box::pin(async move { create(store, &format!("d/{n}"), "x").await }));
    }
    // The writes queue when they are first polled, and only then the writer goes on.
    for write in &mut writes {
        let polled = std::future::poll_fn(|context| {
            std::task::Poll::Ready(write.as_mut().poll(context).is_ready())
        });
        assert!(!polled.await, "nobody is told before the commit");
    }
    release.take();
    held.await.unwrap();
    for write in writes {
        write.await.unwrap();
    }
    let after = store.writer_counts();
    assert_eq!((after.jobs - before.jobs, after.commits - before.commits), (51, 2));
}

#[tokio::test]
async fn a_document_that_changes_twice_in_a_commit_has_its_last_words() {
    let fresh = fresh();
    let store = &fresh.store;
    create(store, "b", "first").await.unwrap();
    create(store, "a", "first").await.unwrap();
    let change = |path, change| {
        let (path, by) = (DocPath::parse(path).unwrap(), Actor::default());
        store.write(Write { path, change, expected_revision: None, idempotency: None, by })
    };
    let text =
        |body: &str| Change::Upsert(Fields { body: Some(body.to_owned()), ..Fields::default() });
    let (release, held) = hold(store).await;
    let changes = async {
        tokio::join!(
            change("b", Change::Delete),
            change("b", text("second")),
            change("c", text("second")),
            change("c", text("third")),
            change("a", Change::Delete),
            async { drop(release) },
        )
    };
    let (written, held) = tokio::join!(changes, held);
    held.unwrap();
    let written = [written.0, written.1, written.2, written.3, written.4];
    assert!(written.iter().all(Result::is_ok), "{written:?}");
    for (word, expected) in [("first", 0), ("second", 1), ("third", 1)] {
        let hits = store.lexical(&Query::parse(word), &Filter::default(), 9).await.unwrap();
        assert_eq!(hits.len(), expected, "{word}");
    }
    assert_eq!(store.check_integrity().await.unwrap(), [] as [String; 0]);
}

#[tokio::test]
async fn a_full_queue_asks_to_try_again() {
    let fresh = fresh();
    let store = &fresh.store;
    let (release, held) = hold(store).await;
    let mut writes: Vec<_> =
        (0..30).map(|_| Box::pin(store.writer.run(3 << 20, |_| Ok(())))).collect();
    let mut refused = 0;
    for write in &mut writes {
        let now = std::future::poll_fn(|context| {
            std::task::Poll::Ready(match write.as_mut().poll(context) {
                std::task::Poll::Ready(answer) => Some(answer),
                std::task::Poll::Pending => None,
            })
        });
        if let Some(answer) = now.await {
            assert_eq!(answer.unwrap_err().code(), Code::Unavailable);
            refused += 1;
        }
    }
    assert_eq!(refused, 30 - 21, "64 MiB may wait");
    drop((release, writes));
    held.await.unwrap();
}

#[tokio::test]
async fn a_panic_harms_only_its_own_write() {
    let fresh = fresh();
    let store = &fresh.store;
    let panicking = store.writer.run(0, |batch| -> std::result::Result<(), Fault> {
        batch.connection.execute_batch("DELETE FROM sqlite_sequence; DELETE FROM audit")?;
        panic!("on purpose");
    });
    create(store, "a", "x").await.unwrap();
    assert_eq!(panicking.await.unwrap_err().code(), Code::Internal);
    create(store, "b", "x").await.unwrap();
    assert_eq!(store.audit_trail(None, 9).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_refusal_undoes_only_its_own_changes() {
    let fresh = fresh();
    let store = &fresh.store;
    create(store, "a", "x").await.unwrap();
    let refused = store.writer.run(0, |batch| -> std::result::Result<(), Fault> {
        batch.connection.execute_batch("DELETE FROM audit")?;
        Err(Error::conflict("no").into())
    });
    assert_eq!(refused.await.unwrap_err().code(), Code::Conflict);
    assert_eq!(store.audit_trail(None, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_there_is_space() {
    let fresh = fresh();
    let store = &fresh.store;
    create(store, "a", "x").await.unwrap();
    limit(store, 1).await;
    let error = create(store, "b", &"y".repeat(100_000)).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("disk is full"), "{error}");
    let health = store.health().await;
    assert_eq!((health.documents, health.unreadable), (1, None));
    assert!(health.unwritable.unwrap().contains("disk is full"));
    limit(store, 1 << 30).await;
    create(store, "b", &"y".repeat(100_000)).await.unwrap();
    assert!(store.check_integrity().await.unwrap().is_empty());
}

#[tokio::test]
async fn work_that_changes_nothing_does_not_make_a_full_disk_look_writable() {
    let fresh = fresh();
    let store = &fresh.store;
    create(store, "a", "x").await.unwrap();
    limit(store, 1).await;
    create(store, "b", &"y".repeat(100_000)).await.unwrap_err();
    assert_eq!(create(store, "a", "x").await.unwrap_err().code(), Code::Conflict);
    assert_eq!(store.revoke_key("nobody", 0).await.unwrap(), 0);
    assert!(store.health().await.unwritable.unwrap().contains("disk is full"));
    limit(store, 1 << 30).await;
    create(store, "b", "y").await.unwrap();
    assert_eq!(store.health().await.unwritable, None);
}

/// The most pages the file may have; at least what it has now.
async fn limit(store: &SqliteStore, pages: i64) {
    let set = store.writer.run(0, move |batch| {
        let set = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        batch.connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], set)?;
        Ok(())
    });
    set.await.unwrap();
}

#[tokio::test]
async fn an_unconfirmed_write_ends_writing_until_a_restart() {
    let fresh = fresh();
    let store = &fresh.store;
    create(store, "a", "x").await.unwrap();
    let broken = store
        .writer
        .run(0, |_| -> std::result::Result<(), Fault> { Err(failure(ffi::SQLITE_IOERR_FSYNC)) });
    assert_eq!(broken.await.unwrap_err().code(), Code::Unavailable);
    let error = create(store, "b", "x").await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("read-only"), "{error}");
    assert!(error.message().contains("restart"), "{error}");
    assert!(store.health().await.unwritable.unwrap().contains("restart"));
    assert_eq!(store.health().await.documents, 1, "reading goes on");
    let path = store.path().to_owned();
    drop(fresh.store);
    let store = SqliteStore::open(&path, Policy::default()).unwrap();
    create(&store, "b", "x").await.unwrap();
    drop(fresh.directory);
}

#[tokio::test]
async fn other_io_errors_end_only_their_batch() {
    let fresh = fresh();
    let store = &fresh.store;
    for code in [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_READ, ffi::SQLITE_NOMEM] {
        let broken =
            store.writer.run(0, move |_| -> std::result::Result<(), Fault> { Err(failure(code)) });
        assert_eq!(broken.await.unwrap_err().code(), Code::Unavailable);
    }
    assert_eq!(store.health().await.unwritable, None, "it was only once");
    create(store, "a", "x").await.unwrap();
}

#[tokio::test]
async fn pieces_of_the_index_are_merged_along_with_writes_and_when_nobody_writes() {
    let fresh = fresh();
    let store = &fresh.store;
    let mut most = 0;
    for n in 0..100 {
        create(store, &format!("d/{n}"), "every write adds a piece").await.unwrap();
        most = most.max(pieces(store).await);
    }
    assert!(most < 40, "{most} pieces of 100 writes");
    let merged = async {
        while pieces(store).await > 7 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), merged).await.expect("they are merged");
    let hits = store.lexical(&Query::parse("piece"), &Filter::default(), 999).await.unwrap();
    assert_eq!(hits.len(), 100);
    assert_eq!(store.check_integrity().await.unwrap(), [] as [String; 0]);
}

/// The pieces the index of words consists of; the numbers of its pages begin with that of their piece.
async fn pieces(store: &SqliteStore) -> i64 {
    const PIECES: &str = "SELECT count(DISTINCT id >> 37) FROM lexical_data WHERE id >> 37 > 0";
    store.readers.run(|db| Ok(db.query_row(PIECES, [], |row| row.get(0))?)).await.unwrap()
}

#[tokio::test]
async fn health_finds_out_by_itself_when_a_full_disk_has_space_again() {
    let fresh = fresh();
    let store = &fresh.store;
    create(store, "a", "x").await.unwrap();
    limit(store, 1).await;
    create(store, "b", &"y".repeat(100_000)).await.unwrap_err();
    for _ in 0..2 {
        let health = store.health().await;
        assert!(health.unwritable.unwrap().contains("disk is full"));
    }
    let counts = store.writer_counts();
    // Not by a job, which would be a write that succeeds.
    let direct = store.writer.run(0, |batch| -> std::result::Result<(), Fault> {
        batch.connection.pragma_update(None, "max_page_count", 1 << 30)?;
        Err(failure(ffi::SQLITE_FULL))
    });
    direct.await.unwrap_err();
    assert_eq!(store.writer_counts(), counts);
    let recovered = async {
        while store.health().await.unwritable.is_some() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), recovered).await.expect("a probe succeeds");
    assert_eq!(store.audit_trail(None, 9).await.unwrap().len(), 1, "a probe leaves nothing");
}

#[tokio::test]
async fn a_writer_that_hangs_neither_counts_as_healthy_nor_keeps_the_store_from_closing() {
    let fresh = fresh();
    let (release, held) = hold(&fresh.store).await;
    assert_eq!(fresh.store.health().await.unwritable, None, "it has only begun");
    tokio::time::sleep(Duration::from_millis(5200)).await;
    let why = fresh.store.health().await.unwritable.expect("nothing can be written");
    assert!(why.contains("waiting"), "{why}");
    drop(held);
    let closed = tokio::task::spawn_blocking(move || drop(fresh.store));
    tokio::time::timeout(Duration::from_secs(30), closed)
        .await
        .expect("it is left behind")
        .unwrap();
    drop(release);
}

async fn write(store: &SqliteStore, path: &str, change: Change) {
    let (path, by) = (DocPath::parse(path).unwrap(), Actor::default());
    let write = Write { path, change, expected_revision: None, idempotency: None, by };
    store.write(write).await.unwrap();
}

fn text(body: &str) -> Change {
    Change::Upsert(Fields { body: Some(body.to_owned()), ..Fields::default() })
}

fn assert_whole(store: &SqliteStore) {
    let connection = Connection::open(store.path()).unwrap();
    let problems = integrity::check_now(&connection).map_err(Fault::into_error);
    assert_eq!(problems.unwrap(), Vec::<String>::new());
}

/// Lets the writer index two pieces of each long text and no more, until `DROP TRIGGER refuse`.
fn refuse_pieces(store: &SqliteStore) -> Connection {
    let other = Connection::open(store.path()).unwrap();
    other
        .execute_batch(
            "CREATE TRIGGER refuse BEFORE UPDATE ON lexical_pending WHEN NEW.next > 2 \
             BEGIN SELECT RAISE(ABORT, 'on purpose'); END",
        )
        .unwrap();
    other
}

/// The key of the document at `long.md`.
fn key_of_long(connection: &Connection) -> i64 {
    let sql = "SELECT key FROM document WHERE path = 'long.md'";
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// A text of several pieces, with a word of its own in each.
fn long_text(word: &str) -> String {
    let filler = "filling words of no interest ".repeat(pieces::PIECE_BYTES / 29 + 1);
    (0..4).map(|n| format!("{word}{n} {word}all {filler}")).collect()
}

async fn found(store: &SqliteStore, word: &str) -> Vec<LexicalHit> {
    store.lexical(&Query::parse(word), &Filter::default(), 9).await.unwrap()
}

#[tokio::test]
async fn every_piece_of_a_long_text_is_found() {
    let fresh = fresh();
    let store = &fresh.store;
    write(store, "long.md", text(&long_text("first"))).await;
    for word in ["first0", "first1", "first2", "first3"] {
        assert_eq!(found(store, word).await.len(), 1, "{word}");
    }
    // A document counts once, however many of its pieces have the word.
    assert_eq!(found(store, "firstall").await.len(), 1);
    write(store, "long.md", text(&long_text("second"))).await;
    assert!(found(store, "first3").await.is_empty(), "old pieces are gone");
    assert_eq!(found(store, "second3").await.len(), 1);
    assert_whole(store);
    write(store, "long.md", Change::Delete).await;
    assert!(found(store, "second3").await.is_empty());
    assert_whole(store);
}

#[tokio::test]
async fn pieces_left_by_a_killed_process_are_indexed_at_the_next_start() {
    let fresh = fresh();
    let refused = refuse_pieces(&fresh.store);
    write(&fresh.store, "long.md", text(&long_text("word"))).await;
    assert_eq!(found(&fresh.store, "word1").await.len(), 1);
    assert!(found(&fresh.store, "word3").await.is_empty());
    refused.execute_batch("DROP TRIGGER refuse").unwrap();
    let reopened = SqliteStore::open(fresh.store.path(), Policy::default()).unwrap();
    until_found(&reopened, "word3").await;
}

#[tokio::test]
async fn a_client_that_hangs_up_leaves_no_text_half_indexed() {
    let fresh = fresh();
    let (path, by) = (DocPath::parse("long.md").unwrap(), Actor::default());
    let change = text(&long_text("word"));
    let write = Write { path, change, expected_revision: None, idempotency: None, by };
    // Polled once, so that the write is queued, and dropped.
    let mut writing = fresh.store.write(write);
    assert!(poll_once(&mut writing).is_pending());
    drop(writing);
    until_found(&fresh.store, "word3").await;
}

/// Polls once, with a waker that does nothing.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

async fn until_found(store: &SqliteStore, word: &str) {
    for _ in 0..500 {
        if found(store, word).await.len() == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{word} is never found");
}

#[tokio::test]
async fn lists_made_while_pieces_are_missing_do_not_hide_them() {
    let fresh = fresh();
    let store = &fresh.store;
    // A word that so many documents have that its list is kept.
    for n in 0..300 {
        write(store, &format!("n/{n}.md"), text("wordall and more")).await;
    }
    let refused = refuse_pieces(store);
    let body = long_text("other").replace("other3", "wordall");
    write(store, "long.md", text(&body)).await;
    let (query, filter) = (Query::parse("wordall"), Filter::default());
    assert_eq!(store.lexical(&query, &filter, 999).await.unwrap().len(), 300);
    refused.execute_batch("DROP TRIGGER refuse").unwrap();
    // As another process would.
    while pieces::index_next(&refused, key_of_long(&refused)).unwrap() {}
    assert_eq!(store.lexical(&query, &filter, 999).await.unwrap().len(), 301);
}

#[tokio::test]
async fn a_text_replaced_before_all_its_words_are_indexed_leaves_none_behind() {
    let fresh = fresh();
    let store = &fresh.store;
    let (release, held) = hold(store).await;
    // Each is committed alone, so that the second comes between the pieces of the first.
    let writes = async {
        tokio::join!(
            write(store, "long.md", text(&long_text("first"))),
            write(store, "short.md", text(&long_text("third"))),
            write(store, "long.md", text(&long_text("second"))),
            write(store, "short.md", text("fourth")),
            async { drop(release) },
        )
    };
    let (_, held) = tokio::join!(writes, held);
    held.unwrap();
    let rows = [("first0", 0), ("first3", 0), ("second0", 1), ("second3", 1), ("third3", 0)];
    for (word, n_documents) in rows {
        assert_eq!(found(store, word).await.len(), n_documents, "{word}");
    }
    assert_eq!(n_pending(&Connection::open(store.path()).unwrap()), 0);
    assert_whole(store);
}

/// Documents with words that are still to be indexed.
fn n_pending(connection: &Connection) -> usize {
    pieces::pending(connection).unwrap().len()
}

#[tokio::test]
async fn a_long_text_is_indexed_between_other_writes_and_not_after_all_of_them() {
    let fresh = fresh();
    let store = &fresh.store;
    let (release, held) = hold(store).await;
    let long = write(store, "long.md", text(&long_text("word")));
    // So large that each is committed alone.
    let look = || store.writer.run(1 << 20, |batch| Ok(n_pending(batch.connection)));
    let (_, first, _, _, _, _, last, (), held) = tokio::join!(
        long,
        look(),
        look(),
        look(),
        look(),
        look(),
        look(),
        async { drop(release) },
        held
    );
    held.unwrap();
    assert_eq!((first.unwrap(), last.unwrap()), (1, 0));
}

#[tokio::test]
async fn words_that_could_not_be_indexed_are_tried_again_with_the_next_write_and_not_before() {
    let fresh = fresh();
    let store = &fresh.store;
    let refused = refuse_pieces(store);
    write(store, "long.md", text(&long_text("word"))).await;
    assert_eq!(found(store, "word0").await.len(), 1, "the write itself is done");
    let counts = store.writer_counts();
    // Many attempts would fit into this.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(store.writer_counts(), counts);
    assert!(found(store, "word3").await.is_empty());
    refused.execute_batch("DROP TRIGGER refuse").unwrap();
    create(store, "a", "x").await.unwrap();
    until_found(store, "word3").await;
}
