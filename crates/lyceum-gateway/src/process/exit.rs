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

/// Says how the process ended. Callers read this, so it leaves out standard error, which may hold secrets;
/// the log has it, redacted.
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
