//! What a caller searches for, as words.

/// A query's words; never fails to parse.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    text: String,
}
