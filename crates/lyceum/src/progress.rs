//! How far long work is: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Duration, Instant};

use crate::terminal;

/// How often a line is written where there is no terminal.
const PERIOD: Duration = Duration::from_secs(5);

/// Work that can be counted. Talk, so it goes to stderr.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    bar: ProgressBar,
    /// When the last line was written; `None` on a terminal, where the bar moves instead.
    told: Option<Mutex<Instant>>,
}

impl Progress {
    /// `what` is being done to `total` things.
    pub(crate) fn new(what: &'static str, total: usize) -> Self {
        if !std::io::stderr().is_terminal() {
            let bar = ProgressBar::hidden();
            bar.set_length(total as u64);
            return Self { what, bar, told: Some(Mutex::new(Instant::now())) };
        }
        let bar = ProgressBar::new(total as u64);
        let style =
            ProgressStyle::with_template("{prefix:>10} [{wide_bar}] {human_pos}/{human_len} {eta}")
                .expect("the template names known keys");
        bar.set_style(style.progress_chars("=> "));
        bar.set_prefix(what);
        Self { what, bar, told: None }
    }

    /// `done` things are done.
    pub(crate) fn set(&self, done: usize) {
        self.bar.set_position(done as u64);
        let Some(told) = &self.told else { return };
        let mut told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if told.elapsed() >= PERIOD {
            *told = Instant::now();
            eprintln!("{} {done} of {}", self.what, self.bar.length().unwrap_or_default());
        }
    }

    /// Says something without disturbing the bar.
    pub(crate) fn say(&self, text: &str) {
        self.bar.suspend(|| terminal::say(text));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
