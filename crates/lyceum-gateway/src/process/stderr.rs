//! What a child says on its standard error: into the log, with limits, and the last lines kept.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

use crate::invisible;
use crate::redact::redacted;

/// Bytes of a line; what is beyond is left out.
const MAX_LINE: usize = 2048;
/// Lines kept for reports.
const N_LAST: usize = 10;
/// Lines that are logged at once, and per second after that.
const LINES: Allowance = Allowance { at_once: 200.0, per_second: 20.0 };
/// Bytes that are read at once, and per second after that. Whoever writes more has to wait.
const BYTES: Allowance = Allowance { at_once: 1_048_576.0, per_second: 1_048_576.0 };

/// The last lines a child wrote.
#[derive(Debug, Default)]
pub(super) struct Tail(Mutex<VecDeque<String>>);

#[derive(Debug, Clone, Copy)]
struct Allowance {
    at_once: f64,
    per_second: f64,
}

/// What is left of an allowance.
#[derive(Debug)]
struct Budget {
    allowance: Allowance,
    left: f64,
    since: Instant,
}

/// Collects lines from pieces.
#[derive(Debug, Default)]
struct Line {
    bytes: Vec<u8>,
    cut: bool,
}

/// Where lines go.
struct Log {
    upstream: String,
    budget: Budget,
    n_left_out: u64,
}

impl Tail {
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == N_LAST {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

/// Reads until the end.
pub(super) async fn drain(
    mut stderr: impl AsyncRead + Unpin,
    upstream: String,
    tail: std::sync::Arc<Tail>,
) {
    let mut log = Log { upstream, budget: Budget::of(LINES), n_left_out: 0 };
    let mut budget = Budget::of(BYTES);
    let mut line = Line::default();
    let mut buffer = vec![0; 8192];
    while let Ok(n @ 1..) = stderr.read(&mut buffer).await {
        for &byte in &buffer[..n] {
            match byte {
                b'\n' => line.end(&tail, &mut log),
                _ => line.push(byte),
            }
        }
        tokio::time::sleep(budget.spend(n as f64)).await;
    }
    line.end(&tail, &mut log);
    log.confess();
}

impl Line {
    fn push(&mut self, byte: u8) {
        match self.bytes.len() < MAX_LINE {
            true => self.bytes.push(byte),
            false => self.cut = true,
        }
    }

    fn end(&mut self, tail: &Tail, log: &mut Log) {
        let text = String::from_utf8_lossy(&self.bytes);
        // A log is read on terminals, which must not take orders from a child.
        let mut text = redacted(&invisible::visible(text.trim_end())).into_owned();
        if self.cut {
            text.push('…');
        }
        self.bytes.clear();
        self.cut = false;
        if !text.is_empty() {
            log.write(&text);
            tail.push(text);
        }
    }
}

impl Log {
    fn write(&mut self, line: &str) {
        if self.budget.spend(1.0).is_zero() {
            self.confess();
            tracing::info!(upstream = self.upstream, "stderr: {line}");
        } else {
            // It is not written, so it costs nothing either.
            self.budget.left += 1.0;
            self.n_left_out += 1;
        }
    }

    fn confess(&mut self) {
        let n_left_out = std::mem::take(&mut self.n_left_out);
        if n_left_out > 0 {
            let upstream = &self.upstream;
            tracing::warn!(upstream, n_left_out, "it writes too much; lines were left out");
        }
    }
}

impl Budget {
    fn of(allowance: Allowance) -> Budget {
        Budget { allowance, left: allowance.at_once, since: Instant::now() }
    }

    /// Spends, and says how long to wait until that is paid for.
    fn spend(&mut self, amount: f64) -> Duration {
        let now = Instant::now();
        let Allowance { at_once, per_second } = self.allowance;
        let gained = (now - self.since).as_secs_f64() * per_second;
        self.since = now;
        self.left = (self.left + gained).min(at_once) - amount;
        Duration::from_secs_f64((-self.left / per_second).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    async fn last_words(bytes: &[u8]) -> Vec<String> {
        let tail = Arc::new(Tail::default());
        drain(bytes, "test".to_owned(), tail.clone()).await;
        tail.lines()
    }

    #[tokio::test]
    async fn lines_are_cut_and_made_harmless() {
        let long = "x".repeat(100_000);
        let bytes = format!("one\r\n\n{long}\n\x1b[31mred\x07\ntail");
        let cut = format!("{}…", "x".repeat(MAX_LINE));
        let expected = ["one", &cut, r"\u{1b}[31mred\u{7}", "tail"];
        assert_eq!(last_words(bytes.as_bytes()).await, expected);
        assert_eq!(last_words(b"API_KEY=sk-1 is no good").await, ["API_KEY=*** is no good"]);
        assert_eq!(last_words(b"\xff\xfe").await, ["\u{fffd}\u{fffd}"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_read_no_faster_than_allowed_and_only_its_end_is_kept() {
        let start = Instant::now();
        let flood: String = (0..1_000_000).map(|n| format!("{n:07}\n")).collect();
        let words = last_words(flood.as_bytes()).await;
        assert_eq!(words.len(), N_LAST);
        assert_eq!(words.last().map(String::as_str), Some("0999999"));
        let taken = start.elapsed().as_secs_f64();
        assert!((5.0..8.0).contains(&taken), "8 MB at 1 MiB a second took {taken} seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn lines_beyond_the_allowance_are_counted_instead() {
        let budget = Budget::of(LINES);
        let mut log = Log { upstream: "test".to_owned(), budget, n_left_out: 0 };
        for _ in 0..1_000 {
            log.write("x");
        }
        assert_eq!(log.n_left_out, 800);
        tokio::time::advance(Duration::from_secs(1)).await;
        log.write("x");
        assert_eq!(log.n_left_out, 0);
    }
}
