//! What can go wrong, in the words a caller acts on: a code, a sentence that says what to do, details.
//!
//! One type for the whole crate, because every surface (tools, REST, command line) shows the same shape.

use std::fmt;

use serde_json::{Map, Value};

/// The kind of failure; surfaces map it to a status and never look at the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// No such document, or it is deleted.
    NotFound,
    /// The document is not in the state the caller expected.
    Conflict,
    /// A text to replace occurs more than once.
    Ambiguous,
    /// A text to replace does not occur.
    NotFoundInContent,
    /// The request cannot be right, whatever the state.
    InvalidArgument,
    /// The caller may not do this.
    Forbidden,
    /// It may work later: the disk is full, the store is read-only, a queue is full.
    Unavailable,
    /// A defect or damage.
    Internal,
}

/// A refusal or failure.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    code: Code,
    message: String,
    details: Map<String, Value>,
}

/// The result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Code {
    /// The code as clients read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::NotFound => "NOT_FOUND",
            Code::Conflict => "CONFLICT",
            Code::Ambiguous => "AMBIGUOUS",
            Code::NotFoundInContent => "NOT_FOUND_IN_CONTENT",
            Code::InvalidArgument => "INVALID_ARGUMENT",
            Code::Forbidden => "FORBIDDEN",
            Code::Unavailable => "UNAVAILABLE",
            Code::Internal => "INTERNAL",
        }
    }
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), details: Map::new() }
    }

    pub fn not_found(message: impl Into<String>) -> Error {
        Error::new(Code::NotFound, message)
    }

    pub fn conflict(message: impl Into<String>) -> Error {
        Error::new(Code::Conflict, message)
    }

    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(Code::InvalidArgument, message)
    }

    pub fn unavailable(message: impl Into<String>) -> Error {
        Error::new(Code::Unavailable, message)
    }

    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(Code::Internal, message)
    }

    /// Adds a machine-readable detail.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Error {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    pub fn code(&self) -> Code {
        self.code
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn details(&self) -> &Map<String, Value> {
        &self.details
    }
}

/// A caller's text as a message quotes it: short, with nothing in it that controls a terminal.
pub(crate) fn quoted(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{:?}", format!("{}…", &text[..end])),
        None => format!("{text:?}"),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}

impl std::error::Error for Error {}
