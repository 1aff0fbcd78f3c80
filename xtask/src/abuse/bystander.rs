//! The innocent bystander: reads, searches and writes small documents at a modest pace and notes how
//! long each call took.
//!
//! A call that takes longer than the pace also counts for the calls that were due meanwhile, each with
//! what was left of the wait when it was due. So a stall of seconds is seen by all calls that would
//! have been made in it, not by one (coordinated omission), and slow calls do not add up to a backlog
//! that independent callers would not have had.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::json;

use super::http::{HttpAnswer, HttpConnection};
use super::request::{self, NONCE, RequestBytes};
use super::server::{DOCUMENTS, LyceumServer};
use crate::stopwatch::Stopwatch;

/// The time between two calls of one operation.
const PACE: Duration = Duration::from_millis(40);
/// After so long a call is an error.
const PATIENCE: Duration = Duration::from_secs(10);
const MOST_ANSWER: usize = 4 << 20;
/// Words of errors that are kept.
const KEPT_ERRORS: usize = 3;

/// What the bystander does, in the order of [`Latencies`].
pub(super) const OPERATIONS: [&str; 3] = ["get", "search", "upload"];

/// Calls of one operation.
#[derive(Debug, Clone, Default)]
pub(super) struct Latencies {
    millis: Vec<f64>,
    pub(super) errors: usize,
    pub(super) words: Vec<String>,
}

/// Calls of all operations.
pub(super) type Experience = [Latencies; 3];

/// A bystander at work.
#[derive(Debug)]
pub(super) struct Bystander {
    stop: Arc<AtomicBool>,
    worst: Arc<WorstCall>,
    threads: Vec<JoinHandle<Latencies>>,
}

/// The worst that happened to a bystander since the last look.
#[derive(Debug, Default)]
struct WorstCall {
    micros: AtomicU64,
    errors: AtomicU64,
}

/// One operation: its requests, and whether each has a connection of its own.
#[derive(Debug)]
struct Operation {
    requests: Vec<RequestBytes>,
    always_connects: bool,
}

impl Bystander {
    /// Starts calling.
    pub(super) fn start(server: &LyceumServer) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let worst = Arc::new(WorstCall::default());
        let operations = [reading(server), searching(server), uploading(server)];
        let threads = operations.into_iter().map(|operation| {
            let (address, stop, worst) = (server.address, Arc::clone(&stop), Arc::clone(&worst));
            thread::spawn(move || operation.run(address, &stop, &worst))
        });
        Self { threads: threads.collect(), stop, worst }
    }

    /// The longest call that ended since the last look, and how many failed.
    pub(super) fn take_worst(&self) -> (Duration, u64) {
        let micros = self.worst.micros.swap(0, Ordering::Relaxed);
        (Duration::from_micros(micros), self.worst.errors.swap(0, Ordering::Relaxed))
    }

    /// Stops calling and tells how it was.
    pub(super) fn stop(self) -> Experience {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = self.threads.into_iter().map(|thread| thread.join().unwrap_or_default());
        std::array::from_fn(|_| all.next().unwrap_or_default())
    }

    /// Calls for this long.
    pub(super) fn observe(server: &LyceumServer, duration: Duration) -> Experience {
        let bystander = Self::start(server);
        thread::sleep(duration);
        bystander.stop()
    }
}

impl Operation {
    fn run(&self, address: SocketAddr, stop: &AtomicBool, worst: &WorstCall) -> Latencies {
        // Numbers of all bystanders of this process, so that no upload meets an earlier one.
        static NUMBERS: AtomicUsize = AtomicUsize::new(1);
        let watch = Stopwatch::start();
        let mut latencies = Latencies::default();
        let mut connection = None;
        let mut due = Duration::ZERO;
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(due.saturating_sub(watch.elapsed()));
            let start = watch.elapsed();
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            let request = self.requests[number % self.requests.len()].whole(number as u64);
            if self.always_connects {
                connection = None;
            }
            let called = call(&mut connection, address, &request);
            let latency = watch.elapsed().saturating_sub(start);
            latencies.note_with_missed(latency, PACE);
            worst.micros.fetch_max(latency.as_micros() as u64, Ordering::Relaxed);
            if let Err(words) = called {
                connection = None;
                latencies.fail(words);
                worst.errors.fetch_add(1, Ordering::Relaxed);
            }
            due = (start + PACE).max(watch.elapsed());
        }
        latencies
    }
}

/// Makes one call. A kept connection that the server has closed meanwhile is replaced, as every
/// HTTP client does.
fn call(
    connection: &mut Option<HttpConnection>,
    address: SocketAddr,
    request: &[u8],
) -> Result<(), String> {
    if let Some(kept) = connection.as_mut() {
        let watch = Stopwatch::start();
        match kept.exchange(request, MOST_ANSWER, PATIENCE) {
            Ok(answer) => return judged(&answer),
            Err(error) if watch.is_past(PATIENCE / 2) => return Err(format!("{error:#}")),
            Err(_) => {}
        }
    }
    let mut fresh = HttpConnection::open(address, PATIENCE).map_err(|error| error.to_string())?;
    let answer = fresh.exchange(request, MOST_ANSWER, PATIENCE);
    let answer = answer.map_err(|error| format!("{error:#}"))?;
    *connection = Some(fresh);
    judged(&answer)
}

fn judged(answer: &HttpAnswer) -> Result<(), String> {
    if answer.is_success() {
        return Ok(());
    }
    let excerpt: String = answer.text.chars().take(160).collect();
    Err(format!("{} {excerpt}", answer.status))
}

impl Latencies {
    pub(super) fn note(&mut self, latency: Duration) {
        self.millis.push(latency.as_secs_f64() * 1000.0);
    }

    /// Notes a call, and those that were due while it ran.
    fn note_with_missed(&mut self, latency: Duration, pace: Duration) {
        let mut left = latency;
        self.note(left);
        while left > 2 * pace {
            left -= pace;
            self.note(left);
        }
    }

    fn fail(&mut self, words: String) {
        self.errors += 1;
        if self.words.len() < KEPT_ERRORS {
            self.words.push(words);
        }
    }

    /// The latency that this share of all calls stays within; 0 without calls.
    pub(super) fn percentile(&self, share: f64) -> f64 {
        let mut sorted = self.millis.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (sorted.len() as f64 * share).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    pub(super) fn n_calls(&self) -> usize {
        self.millis.len()
    }
}

fn reading(server: &LyceumServer) -> Operation {
    let request = |n: usize| {
        let arguments = json!({ "document_id": format!("notes/{n:03}.md") });
        request::call(&server.keys.bystander, "get_document", &arguments)
    };
    let requests = (0..DOCUMENTS).step_by(7).map(request).collect();
    // Newcomers must be served too, so one of the operations always connects anew.
    Operation { requests, always_connects: true }
}

fn searching(server: &LyceumServer) -> Operation {
    let queries = ["river harbour", "where is the lantern", "copper engine archive", "granite"];
    let request = |query: &&str| {
        let arguments = json!({ "query": query, "prefix": "notes/" });
        request::call(&server.keys.bystander, "search_knowledge", &arguments)
    };
    Operation { requests: queries.iter().map(request).collect(), always_connects: false }
}

fn uploading(server: &LyceumServer) -> Operation {
    let arguments = json!({
        "path": format!("bystander/{NONCE}.md"),
        "content": "# A small note\n\nWith a sentence about the river.\n",
    });
    let request = request::call(&server.keys.bystander, "upload_document", &arguments);
    Operation { requests: vec![request], always_connects: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(millis: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        for millis in millis {
            latencies.note(Duration::from_millis(millis));
        }
        latencies
    }

    #[test]
    fn a_stall_is_seen_by_every_call_that_was_due_in_it() {
        let mut calls = Latencies::default();
        calls.note_with_missed(Duration::from_millis(100), Duration::from_millis(40));
        assert_eq!(calls.millis, [100.0, 60.0]);
        calls.note_with_missed(Duration::from_millis(50), Duration::from_millis(40));
        assert_eq!(calls.n_calls(), 3);
    }

    #[test]
    fn percentiles_are_ranks() {
        let hundred = of((1..=100).rev());
        assert_eq!(hundred.percentile(0.99), 99.0);
        assert_eq!(hundred.percentile(0.5), 50.0);
        assert_eq!(hundred.percentile(1.0), 100.0);
        assert_eq!(of([7]).percentile(0.99), 7.0);
        assert_eq!(of([]).percentile(0.99), 0.0);
    }
}
