//! How an upstream is doing, for people and for `/health`.

use std::time::SystemTime;

use lyceum_wire::Revision;

/// How an upstream is doing.
#[derive(Debug, Clone)]
pub struct Health {
    /// Whether it can be called.
    pub status: Status,
    /// `legacy` or `modern`, once it is known.
    pub era: Option<&'static str>,
    /// The revision in use.
    pub revision: Option<&'static str>,
    /// How it is reached.
    pub transport: &'static str,
    /// Tools it offers.
    pub tools: usize,
    /// Names, aliases and URIs of its that others had before.
    pub collisions: Vec<String>,
    /// Tools that are held back because their definition changed.
    pub quarantined: Vec<String>,
    /// Tools that are not what they were at first use, and are shown because nothing is locked.
    pub changed: Vec<String>,
    /// Characters nobody sees in its definitions.
    pub flagged: Vec<String>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Since when the status is what it is, in seconds since 1970.
    pub since: u64,
}

/// Whether an upstream can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It is being connected to.
    Connecting,
    /// It can be called.
    Up,
    /// Nobody used it for long, so the connection was closed; the next call opens it again.
    Idle,
    /// It is connected but does not answer.
    Failing,
    /// It cannot be reached; it is tried again.
    Down,
}

impl Status {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Connecting => "connecting",
            Status::Up => "up",
            Status::Idle => "idle",
            Status::Failing => "failing",
            Status::Down => "down",
        }
    }
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

pub(crate) fn era_of(revision: Revision) -> &'static str {
    match revision.era() {
        lyceum_wire::Era::Legacy => "legacy",
        lyceum_wire::Era::Modern => "modern",
    }
}
