//! How a child ended, and what it said last.

use std::fmt;
use std::process::ExitStatus;

/// How a child ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exit {
    /// What the system says; `None` if it could not be asked.
    pub status: Option<ExitStatus>,
    /// The last lines it wrote to its standard error.
    pub last_words: Vec<String>,
}

/// Says how it ended and not what it wrote, which may be nobody's business: callers read this. What it
/// wrote is in the log.
impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "the process ended ({status})")?,
            None => write!(f, "the process ended")?,
        }
        if self.last_words.is_empty() {
            return Ok(());
        }
        write!(f, "; what it wrote to its standard error is in the log")
    }
}
