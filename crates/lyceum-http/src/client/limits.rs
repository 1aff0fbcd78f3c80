//! [`Limits`]: how much of a server's output, patience and curiosity the client puts up with.

use std::time::Duration;

/// Bounds on what one server can make the client hold, wait for or do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one JSON answer.
    pub body: usize,
    /// Bytes of one server-sent event, or of one line.
    pub event: usize,
    /// Bytes of what a server says about itself: its answer to `server/discover` or `initialize`, and
    /// whatever else comes in an event or a line before it. Less than the other two, because a server
    /// that is unwell is connected to again and again.
    pub greeting: usize,
    /// How long a call may hear nothing from the server (messages count, keep-alive comments do
    /// not) while no handler of ours is at work; and how long a server may take no lines.
    pub silence: Duration,
    /// How long the first probe of a server may take before it is taken for an old one.
    pub probe: Duration,
    /// How often one call may come back with `input_required`.
    pub rounds: usize,
    /// Input requests in one round, and server requests being answered at once.
    pub server_requests: usize,
    /// Attempts in a row to resume a broken stream that bring nothing new.
    pub resumes: u32,
    /// Calls and subscriptions waiting at once, where all answers share a stream (lines, HTTP+SSE).
    pub pending: usize,
    /// Pages of one listing.
    pub pages: usize,
    /// Bytes of one whole listing.
    pub listing: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body: 16 << 20,
            event: 16 << 20,
            greeting: 1 << 20,
            silence: Duration::from_secs(60),
            probe: Duration::from_secs(10),
            rounds: 16,
            server_requests: 32,
            resumes: 5,
            pending: 1024,
            pages: 1000,
            listing: 64 << 20,
        }
    }
}
