//! Searching: words and vectors, blended.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::{Duration, Instant, timeout};

use crate::cancel::CancelFlag;
use crate::document::{Document, Meta};
use crate::embed::embed_catching_panics;
use crate::fair::COMPUTE;
use crate::kb::Kb;
use crate::query::Query;
use crate::search::{Ranked, blend};
use crate::snippet::snippet;
use crate::store::Filter;
use crate::vector::Near;
use crate::{DocPath, Error, Result};

/// Documents each side may propose.
const CANDIDATES: usize = 100;
/// Documents read beyond the limit, in case some changed since they were indexed.
const SPARE: usize = 8;
/// How long a search waits for the model; words alone answer after that.
const PATIENCE: Duration = Duration::from_secs(2);
/// How much of a query a model reads, in bytes.
const MAX_EMBEDDED: usize = 2048;
/// Bytes of documents that a search holds at a time while it finds passages, or one larger document.
pub const SEARCHED_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of documents that a search looks through for passages; of further ones it looks at the beginning.
const MAX_LOOKED: usize = 16 * 1024 * 1024;
/// How much of a document is looked through at least.
const MIN_LOOKED: usize = 64 * 1024;
/// Characters of a related document that are shown.
const RELATED_CHARS: usize = 200;

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

impl Related {
    fn new(near: &Near, Document { meta, body }: &Document) -> Related {
        Related {
            path: meta.path.clone(),
            score: near.score,
            snippet: beginning(body.get(near.start..near.end).unwrap_or(body)),
        }
    }
}

/// What vectors say about a query.
#[derive(Debug, Default)]
struct NearDocuments {
    near: Vec<Near>,
    /// How much they count; 0 when they were not asked.
    weight: f32,
    /// Why they were not asked although they should have been.
    degraded: Option<String>,
}

impl Kb {
    /// The documents that answer best.
    pub async fn search(&self, search: &Search) -> Result<SearchResult> {
        let started = Instant::now();
        let query = Query::parse(&search.query);
        if query.text().is_empty() {
            return Err(Error::invalid("query: give the words to search for"));
        }
        search.filter.check()?;
        let (lexical, vectors) = tokio::join!(
            self.store.lexical(&query, &search.filter, CANDIDATES),
            self.near(&query, &search.filter)
        );
        let (lexical, vectors) = (lexical?, vectors?);
        let words: Vec<(i64, f32)> = lexical.iter().map(|hit| (hit.key, hit.score)).collect();
        let nears: Vec<(i64, f32)> =
            vectors.near.iter().map(|near| (near.key, near.score)).collect();
        let ranked = blend(&words, &nears, vectors.weight);
        let hits = self.hits(search, query, ranked, &vectors).await?;
        let mode = if vectors.weight > 0.0 { Mode::Hybrid } else { Mode::Lexical };
        Ok(SearchResult { hits, mode, degraded: vectors.degraded, latency: started.elapsed() })
    }

    /// The documents nearest to `document`, itself excluded.
    pub async fn related(&self, document: &Document, limit: usize) -> Result<Vec<Related>> {
        let (index, key) = (self.index.clone(), document.meta.key);
        let compare = move |cancel: &CancelFlag| {
            index.matrix(|matrix| matrix.related_cancellable(key, limit + SPARE, cancel))
        };
        let near = COMPUTE.run(&self.caller, compare).await?;
        let mut related = Vec::new();
        // Hardly ever has one of them changed, so that more than the first have to be read.
        for near in near.chunks(limit.max(1)) {
            let keys: Vec<i64> = near.iter().map(|near| near.key).collect();
            let documents = self.by_key(&keys).await?;
            let unchanged = near.iter().filter_map(|near| {
                let document = documents.get(&near.key)?;
                (document.meta.text_revision == near.text_revision).then_some((near, document))
            });
            related.extend(unchanged.map(|(near, document)| Related::new(near, document)));
            if related.len() >= limit {
                break;
            }
        }
        related.truncate(limit);
        Ok(related)
    }

    /// The documents whose vectors are nearest to the query's.
    async fn near(&self, query: &Query, filter: &Filter) -> Result<NearDocuments> {
        let without = |why: &str| {
            Ok(NearDocuments { degraded: Some(why.to_owned()), ..NearDocuments::default() })
        };
        if !self.index.is_loaded() {
            return without("the vectors are still being loaded");
        }
        let Some(fingerprint) = self.index.fingerprint() else {
            return Ok(NearDocuments::default());
        };
        let Some(embedder) =
            self.embedders.iter().find(|embedder| *embedder.fingerprint() == fingerprint)
        else {
            return without("the vectors of the configured model are still being made");
        };
        let text = query.text();
        let text = text[..text.floor_char_boundary(MAX_EMBEDDED)].to_owned();
        let embedded = timeout(PATIENCE, embed_catching_panics(&**embedder, &[text])).await;
        let vector = match embedded {
            Ok(Ok(vectors)) => vectors.into_iter().next().unwrap_or_default(),
            Ok(Err(error)) => return without(&format!("the embedding model failed: {error}")),
            Err(_) => return without("the embedding model did not answer in time"),
        };
        let allowed =
            if filter.is_empty() { None } else { Some(self.store.matching(filter).await?) };
        let index = self.index.clone();
        let scan = move |cancel: &CancelFlag| {
            let near = index.with(&fingerprint, |matrix| {
                matrix.nearest_cancellable(&vector, CANDIDATES, allowed.as_deref(), cancel)
            });
            near.unwrap_or_else(|| Ok(Vec::new()))
        };
        let near = COMPUTE.run(&self.caller, scan).await?;
        Ok(NearDocuments { near, weight: embedder.weight(), degraded: None })
    }

    /// The best of `ranked` with their documents and passages. Holds a few documents at a time, however large all of
    /// them are.
    async fn hits(
        &self,
        search: &Search,
        query: Query,
        ranked: Vec<Ranked>,
        vectors: &NearDocuments,
    ) -> Result<Vec<Hit>> {
        let near: HashMap<i64, Near> = vectors.near.iter().map(|near| (near.key, *near)).collect();
        let mut passages = Passages {
            query: Arc::new(query),
            near: Arc::new(near),
            weight: search.explain.then_some(vectors.weight),
            budget: MAX_LOOKED,
        };
        let mut hits = Vec::new();
        let mut rest = &ranked[..ranked.len().min(search.limit + SPARE)];
        while !rest.is_empty() && hits.len() < search.limit {
            let keys: Vec<i64> = rest.iter().map(|ranked| ranked.key).collect();
            // Documents are read only when their turn has come, so that waiting searches hold none.
            let slot = self.work_slot().await?;
            let documents = self.store.first_documents(&keys, SEARCHED_BYTES).await?;
            let (now, later) = rest.split_at(documents.len().clamp(1, rest.len()));
            rest = later;
            let found: Vec<(Ranked, Document)> =
                now.iter().copied().zip(documents).filter_map(both).collect();
            let left = search.limit - hits.len();
            // Finding passages in large documents takes a while, so it must not hold up other calls.
            let work = passages.clone();
            let run = move |cancel: &CancelFlag| work.find(found, left, cancel);
            let (found, budget) = slot.run(run).await?;
            passages.budget = budget;
            hits.extend(found);
        }
        Ok(hits)
    }

    async fn by_key(&self, keys: &[i64]) -> Result<HashMap<i64, Document>> {
        let documents = self.store.documents_by_key(keys).await?;
        Ok(documents.into_iter().map(|document| (document.meta.key, document)).collect())
    }
}

fn both((ranked, document): (Ranked, Option<Document>)) -> Option<(Ranked, Document)> {
    Some((ranked, document?))
}

/// Finds the passages of one search.
#[derive(Debug, Clone)]
struct Passages {
    query: Arc<Query>,
    near: Arc<HashMap<i64, Near>>,
    /// How much vectors count, if hits are to explain their score.
    weight: Option<f32>,
    /// Bytes of documents still to be looked through.
    budget: usize,
}

impl Passages {
    /// The first `limit` hits among `found`, and what is left of the budget.
    fn find(
        mut self,
        found: Vec<(Ranked, Document)>,
        limit: usize,
        cancel: &CancelFlag,
    ) -> Result<(Vec<Hit>, usize)> {
        let mut hits = Vec::new();
        for (ranked, document) in found {
            cancel.check()?;
            if hits.len() < limit {
                hits.extend(self.hit(ranked, document));
            }
        }
        Ok((hits, self.budget))
    }

    fn hit(&mut self, ranked: Ranked, Document { meta, body }: Document) -> Option<Hit> {
        let near = self.near.get(&ranked.key);
        let near = near.filter(|near| near.text_revision == meta.text_revision);
        if ranked.lexical.is_none() && near.is_none() {
            return None;
        }
        let look = self.budget.max(MIN_LOOKED).min(body.len());
        self.budget = self.budget.saturating_sub(look);
        let near = near.map(|near| near.start..near.end);
        let snippet = snippet(&body, meta.mime_type, &self.query, near, look);
        let explanation = self.weight.map(|weight| Explanation {
            lexical: ranked.lexical,
            vector: ranked.vector,
            weight,
        });
        Some(Hit { meta, score: ranked.score, snippet, explanation })
    }
}

/// The first characters of a passage, on one line.
fn beginning(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        let room = RELATED_CHARS - line.chars().count();
        let space = if line.is_empty() { "" } else { " " };
        line.extend(space.chars().chain(word.chars()).take(room));
        if room <= 1 {
            break;
        }
    }
    line
}
