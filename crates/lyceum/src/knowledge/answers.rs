//! What the knowledge base answers, in the shapes clients know.
//!
//! These are wire shapes only: domain types stay in `lyceum_kb` and are copied over here.

use lyceum_kb::{Document, Hit, Meta, Related, Revision, SearchResult, Written};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::knowledge::time;

/// How much of a document a summary shows, in characters.
const SUMMARY: usize = 500;

/// What a search found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Hits {
    /// Best first.
    pub(crate) hits: Vec<HitAnswer>,
    pub(crate) usage: Usage,
}

/// One document that was found.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HitAnswer {
    /// Pass it to get_document to read on.
    document_id: String,
    title: String,
    /// The passage that matches best.
    snippet: String,
    /// 0 to 1, comparable within this answer only.
    score: f64,
    metadata: Map<String, Value>,
    revision: i64,
    tags: Vec<String>,
    updated_at: String,
    /// The headings the passage stands under, outermost first.
    headings: Vec<String>,
    /// Where the passage begins and ends in the document's text, in bytes.
    range: [usize; 2],
    /// Where in the snippet the query's words are, in bytes.
    highlights: Vec<[usize; 2]>,
    /// How the score came about; with `explain` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<ExplanationAnswer>,
}

/// How a score came about.
#[derive(Debug, Serialize, JsonSchema)]
struct ExplanationAnswer {
    /// The lexical score as it is and scaled to 0–1, if words matched.
    lexical: Option<[f64; 2]>,
    /// The vector score as it is and scaled to 0–1, if the meaning is near.
    vector: Option<[f64; 2]>,
    /// How much the vector score counts, 0 to 1.
    vector_weight: f64,
}

/// What a search took.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Usage {
    latency_ms: f64,
    hits: usize,
    /// `hybrid` (words and meaning) or `lexical` (words only).
    mode: &'static str,
    /// Why only words were searched although meaning should have been too.
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded: Option<String>,
}

/// A page of documents.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Page {
    pub(crate) items: Vec<Item>,
    /// How many items are in this page.
    pub(crate) count: usize,
    /// Whether more documents follow.
    pub(crate) truncated: bool,
    /// The `offset` of the next page; null at the end, or when only the cursor leads on.
    pub(crate) next_offset: Option<usize>,
    /// The `cursor` of the next page; null at the end.
    pub(crate) next_cursor: Option<String>,
}

/// A document in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Item {
    document_id: String,
    parent_id: String,
    title: String,
    tags: Vec<String>,
    revision: i64,
}

/// A document, whole or in part.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DocumentAnswer {
    pub(crate) document_id: String,
    pub(crate) parent_id: String,
    pub(crate) title: String,
    pub(crate) tags: Vec<String>,
    pub(crate) content: String,
    pub(crate) mime_type: &'static str,
    pub(crate) source: Option<String>,
    pub(crate) metadata: Map<String, Value>,
    /// Pass it as `expected_revision` when writing what you made of this text.
    pub(crate) revision: i64,
    /// Whether `content` is only a part of the text.
    pub(crate) truncated: bool,
    /// Length of the whole text in characters.
    pub(crate) content_length: usize,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    /// `pending`, `ready`, `error`, `skipped`: whether search knows the meaning of this text.
    pub(crate) vector_status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vector_error: Option<String>,
}

/// A document that is near another one.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RelatedAnswer {
    document_id: String,
    score: f64,
    snippet: String,
}

/// One revision of a document.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RevisionAnswer {
    revision: i64,
    at: String,
    author: String,
    /// `created`, `updated`, `patched`, `deleted` or `restored`.
    action: String,
    title: String,
    /// Length of the text in characters.
    content_length: usize,
}

/// What a write did.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WriteAnswer {
    /// The document's id.
    id: String,
    /// `created`, `updated`, `patched`, `deleted`, `restored` or `unchanged`.
    status: &'static str,
    /// The revision the document has now.
    revision: i64,
}

impl From<SearchResult> for Hits {
    fn from(result: SearchResult) -> Self {
        let usage = Usage {
            latency_ms: rounded(result.latency.as_secs_f64() * 1000.0),
            hits: result.hits.len(),
            mode: result.mode.as_str(),
            degraded: result.degraded,
        };
        Self { hits: result.hits.into_iter().map(HitAnswer::from).collect(), usage }
    }
}

impl From<Hit> for HitAnswer {
    fn from(hit: Hit) -> Self {
        let Hit { meta, score, snippet, explanation } = hit;
        let pair = |(raw, scaled)| [rounded(f64::from(raw)), rounded(f64::from(scaled))];
        Self {
            document_id: meta.path.to_string(),
            title: meta.title,
            snippet: snippet.text,
            score: rounded(f64::from(score)),
            metadata: meta.metadata,
            revision: meta.revision,
            tags: meta.tags,
            updated_at: time::written(meta.updated_at),
            headings: snippet.headings,
            range: [snippet.start, snippet.end],
            highlights: snippet.highlights.into_iter().map(|(from, to)| [from, to]).collect(),
            explanation: explanation.map(|explanation| ExplanationAnswer {
                lexical: explanation.lexical.map(pair),
                vector: explanation.vector.map(pair),
                vector_weight: rounded(f64::from(explanation.weight)),
            }),
        }
    }
}

impl From<Meta> for Item {
    fn from(meta: Meta) -> Self {
        Self {
            parent_id: meta.path.parent().to_owned(),
            document_id: meta.path.to_string(),
            title: meta.title,
            tags: meta.tags,
            revision: meta.revision,
        }
    }
}

impl DocumentAnswer {
    /// The document with its whole text.
    pub(crate) fn whole(document: Document) -> Self {
        let Document { meta, body } = document;
        Self {
            parent_id: meta.path.parent().to_owned(),
            document_id: meta.path.to_string(),
            title: meta.title,
            tags: meta.tags,
            content_length: body.chars().count(),
            content: body,
            mime_type: meta.mime_type.as_str(),
            source: meta.source,
            metadata: meta.metadata,
            revision: meta.revision,
            truncated: false,
            created_at: time::written(meta.created_at),
            updated_at: time::written(meta.updated_at),
            vector_status: meta.vector_status.as_str(),
            vector_error: meta.vector_error,
        }
    }

    /// The document with the beginning of its text.
    pub(crate) fn summary(document: Document) -> Self {
        let mut answer = Self::whole(document);
        if let Some((end, _)) = answer.content.char_indices().nth(SUMMARY) {
            answer.content.truncate(end);
            // A short text must not keep the room of a long one.
            answer.content.shrink_to_fit();
            answer.truncated = true;
        }
        answer
    }

    /// The document with `part` of its text.
    pub(crate) fn part(document: Document, part: String) -> Self {
        let mut answer = Self::whole(document);
        answer.truncated = part.len() < answer.content.len();
        answer.content = part;
        answer
    }
}

impl From<Related> for RelatedAnswer {
    fn from(related: Related) -> Self {
        let score = rounded(f64::from(related.score));
        Self { document_id: related.path.to_string(), score, snippet: related.snippet }
    }
}

impl From<Revision> for RevisionAnswer {
    fn from(revision: Revision) -> Self {
        Self {
            revision: revision.revision,
            at: time::written(revision.at),
            author: revision.author,
            action: revision.action,
            title: revision.title,
            content_length: revision.length,
        }
    }
}

impl From<Written> for WriteAnswer {
    fn from(written: Written) -> Self {
        let (id, status) = (written.path.to_string(), written.status.as_str());
        Self { id, status, revision: written.revision }
    }
}

/// Four digits after the point: scores and times are not more exact than that.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}
