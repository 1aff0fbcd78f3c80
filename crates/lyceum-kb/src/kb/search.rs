//! Searching: words and vectors, blended.

use std::collections::{HashMap, VecDeque};

use tokio::time::{Duration, Instant, timeout};

use crate::document::{Document, Meta};
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
/// Texts that a search holds at once.
pub const SEARCHED_TEXTS: usize = 5;
/// How long a search waits for the model; words alone answer after that.
const PATIENCE: Duration = Duration::from_secs(2);
/// How much of a query a model reads, in bytes.
const MAX_EMBEDDED: usize = 2048;
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
        let near =
            blocking(move || index.matrix(|matrix| matrix.related(key, limit + SPARE))).await?;
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
        let vector = match timeout(PATIENCE, embedder.embed(&[text])).await {
            Ok(Ok(vectors)) => vectors.into_iter().next().unwrap_or_default(),
            Ok(Err(error)) => return without(&format!("the embedding model failed: {error}")),
            Err(_) => return without("the embedding model did not answer in time"),
        };
        let allowed =
            if filter.is_empty() { None } else { Some(self.store.matching(filter).await?) };
        let index = self.index.clone();
        let near = blocking(move || {
            index.with(&fingerprint, |matrix| {
                matrix.nearest(&vector, CANDIDATES, allowed.as_deref())
            })
        })
        .await?;
        Ok(NearDocuments {
            near: near.unwrap_or_default(),
            weight: embedder.weight(),
            degraded: None,
        })
    }

    /// The best of `ranked` with their documents and passages.
    async fn hits(
        &self,
        search: &Search,
        query: Query,
        ranked: Vec<Ranked>,
        vectors: &NearDocuments,
    ) -> Result<Vec<Hit>> {
        let mut ranked: VecDeque<Ranked> = ranked.into_iter().take(search.limit + SPARE).collect();
        let mut hits = Vec::new();
        while hits.len() < search.limit && !ranked.is_empty() {
            let next = ranked.drain(..ranked.len().min(SEARCHED_TEXTS)).collect();
            hits.extend(self.hits_among(search, query.clone(), next, vectors).await?);
        }
        hits.truncate(search.limit);
        Ok(hits)
    }

    /// Those of `ranked` whose documents are still what was found.
    async fn hits_among(
        &self,
        search: &Search,
        query: Query,
        ranked: Vec<Ranked>,
        vectors: &NearDocuments,
    ) -> Result<Vec<Hit>> {
        let found = |near: &&Near| ranked.iter().any(|ranked| ranked.key == near.key);
        let near: HashMap<i64, Near> =
            vectors.near.iter().filter(found).map(|near| (near.key, *near)).collect();
        let keys: Vec<i64> = ranked.iter().map(|ranked| ranked.key).collect();
        let mut documents = self.by_key(&keys).await?;
        let (explain, weight) = (search.explain, vectors.weight);
        // Finding passages in large documents takes a while, so it must not hold up other calls.
        blocking(move || {
            let hits = ranked.into_iter().filter_map(|ranked| {
                let document = documents.remove(&ranked.key)?;
                let near = near
                    .get(&ranked.key)
                    .filter(|near| near.text_revision == document.meta.text_revision);
                if ranked.lexical.is_none() && near.is_none() {
                    return None;
                }
                let snippet = snippet(
                    &document.body,
                    document.meta.mime_type,
                    &query,
                    near.map(|near| near.start..near.end),
                );
                let explanation = explain.then_some(Explanation {
                    lexical: ranked.lexical,
                    vector: ranked.vector,
                    weight,
                });
                Some(Hit { meta: document.meta, score: ranked.score, snippet, explanation })
            });
            hits.collect()
        })
        .await
    }

    async fn by_key(&self, keys: &[i64]) -> Result<HashMap<i64, Document>> {
        let documents = self.store.documents_by_key(keys).await?;
        Ok(documents.into_iter().map(|document| (document.meta.key, document)).collect())
    }
}

/// Runs what keeps a processor busy where it keeps nobody waiting.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::internal(format!("a search stopped: {error}")))
}

/// The first characters of a passage, on one line.
fn beginning(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(RELATED_CHARS).collect()
}
