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
const HELD: Duration = Duration::from_secs(8);

/// Under this the log stays once nobody holds it.
const LOG: u64 = 64 << 20;
/// Beyond this the log would have begun again, had nobody held it.
const HELD_LOG: u64 = 16 << 20;

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
        let text = line_of_text.repeat(2000);
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
    let mut took = writing.join_all().await.concat();
    took.sort_unstable();
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_a_long_reader_stops_no_writer_and_leaves_a_small_log() {
    let (lyceum, data) = Lyceum::fresh(&[]).await;
    write_all(&lyceum, Duration::from_millis(500)).await;
    let reader = LongReader::begin(&database(data.path()));
    let took = write_all(&lyceum, HELD).await;
    let held = log_bytes(data.path());
    reader.end();
    write_all(&lyceum, Duration::from_millis(500)).await;
    let after = log_bytes(data.path());
    let p99 = took[took.len() * 99 / 100];
    eprintln!("{} writes, p99 {p99:?}, log {held} bytes while held, then {after}", took.len());
    assert!(held > HELD_LOG, "the reader held the log: {held}");
    assert!(after <= LOG, "the log began again: {after}");
    assert!(p99 < SLOW, "writers wait for the reader: {p99:?}");
}
