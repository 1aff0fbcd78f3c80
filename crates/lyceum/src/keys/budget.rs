//! How many lines about refusals an audit trail takes.
//!
//! Anyone can cause a refusal, so the trail is kept short: a burst is written in full, then one line
//! a second, and what was left out is told as a number.

use std::sync::{Mutex, PoisonError};

use tokio::time::{Duration, Instant};

/// How long a new line takes to become allowed.
const REFILL: Duration = Duration::from_secs(1);

/// The lines that may still be written.
#[derive(Debug)]
pub(crate) struct Budget {
    burst: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    left: u32,
    refilled: Instant,
    /// Refusals that got no line.
    omitted: u64,
}

impl Budget {
    /// `burst` lines may be written at once.
    pub(crate) fn new(burst: u32) -> Self {
        let state = State { left: burst, refilled: Instant::now(), omitted: 0 };
        Self { burst, state: Mutex::new(state) }
    }

    /// Whether a line may be written; if so, how many refusals got none since the last one.
    pub(crate) fn allowed(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let refills = state.refilled.elapsed().as_secs() / REFILL.as_secs();
        if refills > 0 {
            let refills = u32::try_from(refills).unwrap_or(self.burst);
            state.left = state.left.saturating_add(refills).min(self.burst);
            state.refilled = Instant::now();
        }
        if state.left == 0 {
            state.omitted += 1;
            return None;
        }
        state.left -= 1;
        Some(std::mem::take(&mut state.omitted))
    }

    /// Counts a refusal that got no line after all.
    pub(crate) fn omit(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).omitted += 1;
    }

    /// How a trail tells of refusals that have no line of their own.
    pub(crate) fn summary(omitted: u64) -> String {
        format!("REFUSED {omitted} MORE")
    }
}
