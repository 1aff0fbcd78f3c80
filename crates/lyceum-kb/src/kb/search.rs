//! Searching: words and vectors, blended.

use std::time::Duration;

use crate::document::{Document, Meta};
use crate::kb::Kb;
use crate::store::Filter;
use crate::{DocPath, Result};

/// What to look for.
#[derive(Debug, Clone, Default)]
pub struct Search {
    pub query: String,
    pub limit: usize,
    pub filter: Filter,
    /// Whether hits say how their score came about.
    pub explain: bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResult {
    /// Best first.
    pub hits: Vec<Hit>,
    pub mode: Mode,
    /// Why vectors were not used although they should have been.
    pub degraded: Option<String>,
    pub latency: Duration,
}

/// What the answer was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Hybrid,
    Lexical,
}

/// One document that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub meta: Meta,
    /// 0 to 1.
    pub score: f32,
    pub snippet: Snippet,
    pub explanation: Option<Explanation>,
}

/// The passage that answers best.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snippet {
    pub text: String,
    /// Where it is in the document's text, in bytes.
    pub start: usize,
    pub end: usize,
    /// The headings it stands under, outermost first.
    pub headings: Vec<String>,
    /// Byte ranges within `text` that match the query.
    pub highlights: Vec<(usize, usize)>,
}

/// How a score came about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Explanation {
    /// The lexical score before and after scaling to 0–1, if words matched.
    pub lexical: Option<(f32, f32)>,
    /// The vector score before and after scaling to 0–1, if vectors matched.
    pub vector: Option<(f32, f32)>,
    /// How much the vector score counts.
    pub weight: f32,
}

/// A document near another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Related {
    pub path: DocPath,
    pub score: f32,
    pub snippet: String,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Hybrid => "hybrid",
            Mode::Lexical => "lexical",
        }
    }
}

impl Kb {
    /// The documents that answer best.
    pub async fn search(&self, search: &Search) -> Result<SearchResult> {
        let _ = search;
        Ok(SearchResult {
            hits: Vec::new(),
            mode: Mode::Lexical,
            degraded: None,
            latency: Duration::ZERO,
        })
    }

    /// The documents nearest to `document`, itself excluded.
    pub async fn related(&self, document: &Document, limit: usize) -> Result<Vec<Related>> {
        let _ = (document, limit);
        Ok(Vec::new())
    }
}
