//! A knowledge base for agents: documents with revisions, hybrid search, embeddings.
//!
//! [`Kb`] is the front door. It knows neither MCP nor HTTP; surfaces call it and show what it answers.

mod caller;
mod cancel;
mod chunk;
pub mod convert;
mod cpu_share;
mod diff;
mod document;
pub mod embed;
mod error;
mod fair;
mod hidden;
mod indexer;
mod kb;
mod keys;
mod lines;
mod outline;
mod patch;
mod path;
mod query;
mod search;
mod snippet;
pub mod store;
mod vector;
mod write;

pub use caller::CallerId;
pub use chunk::{Chunk, chunks};
pub use diff::{Diff, diff};
pub use document::{Document, Meta, Millis, MimeType, Revision, VectorStatus};
pub use error::{Code, Error, Result};
pub use fair::WorkSlot;
pub use hidden::is_hidden;
pub use indexer::Indexer;
pub use kb::{
    Changed, Changes, Explanation, Found, Hit, Kb, List, Mode, Related, SEARCHED_BYTES, Search,
    SearchResult, Snippet,
};
pub use keys::Keys;
pub use lines::Lines;
pub use outline::{Heading, Outline};
pub use patch::Replacement;
pub use path::{DocPath, Prefix};
pub use query::{Query, Term};
pub use vector::{Matrix, Near, Quantized};
pub use write::{
    Actor, Change, Fields, Idempotency, MAX_METADATA_DEPTH, Next, Policy, Status, Write, Written,
    decide,
};
