//! Errors of the knowledge base as results a model can read: `{error: {code, message, details}}`.

use lyceum_kb::{Code, Error};
use lyceum_server::{ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// What a failed call returns.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Refusal {
    pub(crate) error: Problem,
}

/// Why a call failed. Act on the code: it never changes its meaning.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Problem {
    /// NOT_FOUND, CONFLICT, AMBIGUOUS, NOT_FOUND_IN_CONTENT, INVALID_ARGUMENT, FORBIDDEN,
    /// UNAVAILABLE or INTERNAL.
    pub(crate) code: &'static str,
    /// What happened and what to do about it.
    pub(crate) message: String,
    /// Facts to act on, such as `actual_revision` of a conflict or `lines` of an ambiguous passage.
    pub(crate) details: Map<String, Value>,
}

impl From<&Error> for Refusal {
    fn from(error: &Error) -> Self {
        let code = error.code().as_str();
        let (message, details) = (error.message().to_owned(), error.details().clone());
        Self { error: Problem { code, message, details } }
    }
}

/// The same error without what it says about a document's text, for callers that may not read it.
pub(crate) fn discreet(error: Error) -> Error {
    let message = match error.code() {
        Code::NotFoundInContent => "old_str does not occur in the document",
        Code::Ambiguous => "old_str occurs more than once; add surrounding text",
        _ => return error,
    };
    Error::new(error.code(), message)
}

/// The failed result that tells of `error`.
pub(crate) fn told(error: &Error) -> ToolError {
    match ToolResult::new().structured(&Refusal::from(error)) {
        Ok(result) => ToolError::from_result(result),
        Err(error) => error,
    }
}
