//! Readers that stay long: writers go on, and the log is small again when the reader is gone (K7).

use std::net::SocketAddr;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

use super::database;
use super::line::{Door, Line};
use crate::lyceum::Lyceum;

const WRITERS: usize = 4;
/// How long writers write between looks at the log, and how often anybody looks.
const ROUND: Duration = Duration::from_millis(500);
const ROUNDS: usize = 30;

/// The log begins again at 16 MiB; a commit that is under way may come on top.
const LOG: u64 = 20 << 20;
/// So this much is there only because a reader holds it.
const HELD_LOG: u64 = 24 << 20;

/// Far above what writers wait for readers.
const SLOW: Duration = Duration::from_secs(2);

/// A reader of another process's kind, with a snapshot it does not let go.
struct LongReader {
    connection: Connection,
    documents: i64,
}

impl LongReader {
    fn begin(file: &Path) -> Self {
        let connection =
            Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        connection.execute_batch("BEGIN").unwrap();
        let documents = count(&connection);
        Self { connection, documents }
    }

    fn end(self) {
        assert_eq!(count(&self.connection), self.documents, "a snapshot does not change");
        self.connection.execute_batch("COMMIT").unwrap();
    }
}

fn count(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM revision", [], |row| row.get(0)).unwrap()
}

fn log_bytes(data: &Path) -> u64 {
    let log = database(data).with_extension("db-wal");
    std::fs::metadata(log).map_or(0, |log| log.len())
}

/// Writes until `end`; no write may fail. How long each took.
async fn write(address: SocketAddr, writer: usize, end: Instant) -> Vec<Duration> {
    let mut line = Line::open(address, Door::Rest).await;
    let mut took = Vec::new();
    while Instant::now() < end {
        // Texts that are not embedded for long: it is the log that shall grow.
        let n = took.len();
        let line_of_text = format!("{writer} {n} harbour lantern orchard granite\n");
        let text = line_of_text.repeat(4000);
        let arguments = json!({ "path": format!("{writer}"), "content": text, "upsert": true });
        let start = Instant::now();
        line.ask("upload_document", arguments).await;
        took.push(start.elapsed());
    }
    took
}

async fn write_all(lyceum: &Lyceum, time: Duration) -> Vec<Duration> {
    let mut writing = JoinSet::new();
    for writer in 0..WRITERS {
        writing.spawn(write(lyceum.address, writer, Instant::now() + time));
    }
    writing.join_all().await.concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_a_long_reader_stops_no_writer_and_leaves_a_small_log() {
    let (lyceum, data) = Lyceum::fresh(&[]).await;
    write_all(&lyceum, ROUND).await;
    let reader = LongReader::begin(&database(data.path()));
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        took.extend(write_all(&lyceum, ROUND).await);
        if log_bytes(data.path()) > HELD_LOG {
            break;
        }
    }
    let held = log_bytes(data.path());
    reader.end();
    write_all(&lyceum, ROUND).await;
    let after = log_bytes(data.path());
    took.sort_unstable();
    let p99 = took[took.len() * 99 / 100];
    eprintln!("{} writes, p99 {p99:?}, log {held} bytes while held, then {after}", took.len());
    assert!(held > HELD_LOG, "the reader held the log: {held}");
    assert!(after <= LOG, "the log began again: {after}");
    assert!(p99 < SLOW, "writers wait for the reader: {p99:?}");
}
