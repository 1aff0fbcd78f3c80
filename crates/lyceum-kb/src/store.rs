//! The one trait a store implements, and the plain data that crosses it.
//!
//! A store keeps documents, their history, the lexical index, vectors, the outbox and the audit trail together: a
//! write is one transaction. What a write *means* is decided by [`crate::decide`]; a store only applies it.

pub mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::document::{Document, Meta, Millis, Revision};
use crate::embed::Fingerprint;
use crate::kb::Changed;
use crate::query::Query;
use crate::vector::Quantized;
use crate::write::{Actor, Write, Written, check_tags};
use crate::{CallerId, DocPath, Keys, Prefix, Result};

/// Where a knowledge base lives.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The same store, reading for `caller`: reads of different callers share it fairly, those of a caller have a
    /// deadline, and dropping a read's future stops it.
    fn on_behalf_of(&self, caller: CallerId) -> Arc<dyn Store>;

    /// Applies one write and everything that follows from it, durably, or nothing at all.
    ///
    /// A write leaves its audit line in the same transaction. A refused one (a conflict, say) leaves none: who
    /// asked for it decides whether [`Store::audit`] is to have it, because refusals cost a caller nothing.
    async fn write(&self, write: Write) -> Result<Written>;

    /// Deletes the document at `path`, if it lives, and takes the texts of all its revisions away for good.
    ///
    /// Works on damaged documents, too. Revisions stay as empty shells, so that numbers never go back.
    async fn purge(&self, path: &DocPath, by: Actor) -> Result<Written>;

    /// Records what was done or refused outside [`Store::write`].
    async fn audit(&self, entry: AuditEntry) -> Result<()>;

    /// The newest audit lines first.
    async fn audit_trail(&self, before: Option<i64>, limit: usize) -> Result<Vec<AuditLine>>;

    /// The documents at these paths, in order, deleted ones included.
    async fn documents(&self, paths: &[DocPath]) -> Result<Vec<Option<Document>>>;

    /// The living documents with these keys, in no particular order.
    async fn documents_by_key(&self, keys: &[i64]) -> Result<Vec<Document>>;

    /// The living documents with these keys, in order; fewer than asked for once their texts have `max_bytes` together,
    /// but at least one.
    async fn first_documents(
        &self,
        keys: &[i64],
        max_bytes: usize,
    ) -> Result<Vec<Option<Document>>>;

    /// Living documents by path, in byte order; one index range, no sort.
    async fn list(&self, page: &ListPage) -> Result<Vec<Meta>>;

    /// The newest revisions first, those before `before` if given.
    async fn history(
        &self,
        path: &DocPath,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Revision>>;

    /// A document as it was.
    async fn document_at(&self, path: &DocPath, revision: i64) -> Result<Option<Document>>;

    /// How many writes there have been; [`Store::writes_after`] goes on from here.
    async fn last_write(&self) -> Result<i64>;

    /// The writes after number `after`, whichever process made them, oldest first.
    async fn writes_after(&self, after: i64, limit: usize) -> Result<Vec<Changed>>;

    /// Tags in use that begin with `prefix`, in byte order.
    async fn tags(&self, prefix: &str, limit: usize) -> Result<Vec<String>>;

    /// Living documents that match the query's words, best first; scores are larger for better matches.
    async fn lexical(
        &self,
        query: &Query,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<LexicalHit>>;

    /// Keys of living documents that pass the filter.
    async fn matching(&self, filter: &Filter) -> Result<Arc<Keys>>;

    /// The set of vectors for this model, made if it does not exist. The first set ever made is active.
    async fn vector_set(&self, fingerprint: &Fingerprint) -> Result<VectorSet>;

    /// The set that searches use; `None` in a new store.
    async fn active_set(&self) -> Result<Option<VectorSet>>;

    /// Whether `set` can take over: nothing waits for it, and of twenty documents at most one was given up.
    async fn is_complete(&self, set: i64) -> Result<bool>;

    /// Makes `set` the active one and drops all others. Documents' status follows, a few at a time; what an interrupted
    /// change leaves is put right by [`Store::enqueue_missing`].
    async fn activate_set(&self, set: i64) -> Result<()>;

    /// Puts every document that lacks current vectors in `set` on the outbox; says how many were added. Dead letters
    /// are on it already.
    async fn enqueue_missing(&self, set: i64) -> Result<usize>;

    /// Gives dead letters of `set` another chance; says how many.
    async fn retry_dead(&self, set: i64, which: DeadLetters) -> Result<usize>;

    /// Brings documents in line with the skip rules in force, which may have changed since they were written.
    async fn apply_skip_rules(&self) -> Result<Skips>;

    /// Leases up to `limit` documents whose vectors are out of date in `set`, oldest first, and fewer when their texts are
    /// long.
    ///
    /// The attempt is counted before it is made. A document whose last lease ended without a word may have ended its
    /// worker, so it is leased alone, and after the third time it is a dead letter.
    async fn claim(
        &self,
        set: i64,
        worker: &str,
        limit: usize,
        lease: Duration,
    ) -> Result<Vec<Job>>;

    /// Lengthens the leases of jobs that are still being worked on.
    async fn renew(&self, leases: Vec<Lease>, lease: Duration) -> Result<()>;

    /// Gives jobs back that were not begun or not finished for no fault of theirs; the attempt does not count.
    async fn release(&self, leases: Vec<Lease>) -> Result<()>;

    /// Stores the vectors of a job, unless the text has changed since (then the newer job stands): a revision fence.
    ///
    /// The first vectors of a set decide how long all others are; vectors of another length are an invalid argument.
    async fn finish(&self, job: &Job, chunks: Vec<ChunkVector>) -> Result<bool>;

    /// Gives a job back: to be tried again after `retry_in`, or, without it, as a dead letter with its reason.
    async fn fail(&self, job: &Job, reason: &str, retry_in: Option<Duration>) -> Result<()>;

    /// Vectors of `set` that were stored, replaced or removed after `after`, oldest first.
    async fn vectors_after(&self, set: i64, after: i64, limit: usize) -> Result<Vec<VectorChange>>;

    /// What waits for the indexer.
    async fn backlog(&self) -> Result<Backlog>;

    /// Compares documents and vectors of the active set.
    async fn audit_sync(&self) -> Result<SyncReport>;

    /// Removes vectors that no living document owns; says how many, and with `dry_run` only that.
    async fn cleanup_orphans(&self, dry_run: bool) -> Result<usize>;

    /// API keys, revoked and expired ones included.
    async fn keys(&self) -> Result<Vec<ApiKey>>;

    async fn add_key(&self, key: ApiKey) -> Result<()>;

    /// Revokes the keys of that name or id; says how many were live.
    async fn revoke_key(&self, name_or_id: &str, now: Millis) -> Result<usize>;

    /// Whether the store answers, accepts writes, and is whole.
    async fn health(&self) -> StoreHealth;

    /// Reads everything and checks it; the problems found, none when whole. An error says that it could not be checked,
    /// which is no damage.
    async fn check_integrity(&self) -> Result<Vec<String>>;
}

/// Something that was done or refused, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub actor: Actor,
    pub document: Option<String>,
    /// `ok`, or the code of the refusal.
    pub outcome: String,
}

/// An audit entry as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLine {
    pub id: i64,
    pub at: Millis,
    pub entry: AuditEntry,
}

/// A part of a list.
#[derive(Debug, Clone, Default)]
pub struct ListPage {
    pub prefix: Prefix,
    /// Only paths after this one; how cursors continue.
    pub after: Option<String>,
    pub offset: usize,
    pub limit: usize,
}

/// Which documents a search is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// All of them must be present.
    pub tags: Vec<String>,
    pub prefix: Prefix,
    pub updated_since: Option<Millis>,
}

/// A document that matched words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LexicalHit {
    pub key: i64,
    pub score: f32,
}

/// All vectors of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorSet {
    pub id: i64,
    pub fingerprint: Fingerprint,
    pub active: bool,
    /// The length of its vectors; `None` before the first.
    pub dimensions: Option<usize>,
}

/// Which dead letters are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetters {
    All,
    /// Those that the model refused or could not take, and not those whose worker never came back.
    Refused,
}

/// A document to embed.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub set: i64,
    pub document: Document,
    /// How often it was claimed, this time included.
    pub attempts: u32,
    /// Proves that the lease is still ours.
    pub lease: String,
}

/// A job that somebody is working on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub set: i64,
    pub key: i64,
    pub token: String,
}

/// What proves that a job is still to be done, without the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobHold {
    pub(crate) set: i64,
    pub(crate) key: i64,
    pub(crate) text_revision: i64,
    pub(crate) token: String,
}

/// One piece of a document with its vector.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkVector {
    /// Byte range in the text.
    pub start: usize,
    pub end: usize,
    pub vector: Quantized,
}

/// What happened to the vectors of one document.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorChange {
    /// Where to continue.
    pub seq: i64,
    pub key: i64,
    pub text_revision: i64,
    /// All of the document's chunks; empty when its vectors were removed.
    pub chunks: Vec<ChunkVector>,
}

/// What waits for the indexer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    pub waiting: usize,
    pub dead: usize,
    /// How long the oldest waiting write has waited.
    pub oldest: Duration,
}

/// What changed skip rules meant to documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skips {
    /// Documents that lost their vectors.
    pub skipped: usize,
    /// Documents that wait for vectors now.
    pub queued: usize,
}

/// Documents and vectors compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SyncReport {
    /// The first hundred, and how many in all.
    pub documents_without_vectors: Vec<String>,
    pub n_documents_without_vectors: usize,
    pub vectors_without_documents: usize,
}

/// An API key without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    pub id: String,
    pub name: String,
    pub secret_sha256: [u8; 32],
    pub created_at: Millis,
    pub expires_at: Option<Millis>,
    pub revoked_at: Option<Millis>,
}

/// The state of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreHealth {
    pub kind: &'static str,
    pub documents: usize,
    /// Why documents cannot be read, if they cannot.
    pub unreadable: Option<String>,
    /// Why documents cannot be written, if they cannot.
    pub unwritable: Option<String>,
    /// What will go wrong if nothing is done.
    pub warning: Option<String>,
    /// The last failure to write, over or not.
    pub last_error: Option<String>,
    /// How long a read took.
    pub latency: Duration,
}

impl Job {
    /// What keeps the job ours.
    pub fn leased(&self) -> Lease {
        Lease { set: self.set, key: self.document.meta.key, token: self.lease.clone() }
    }

    /// The job, to be given back without its text having been copied.
    pub(crate) fn clone_without_text(&self) -> Job {
        let document = Document { meta: self.document.meta.clone(), body: String::new() };
        Job { document, set: self.set, attempts: self.attempts, lease: self.lease.clone() }
    }

    pub(crate) fn hold(&self) -> JobHold {
        let Lease { set, key, token } = self.leased();
        JobHold { set, key, text_revision: self.document.meta.text_revision, token }
    }
}

impl Filter {
    /// Refuses values that no document can have.
    pub fn check(&self) -> Result<()> {
        check_tags(&self.tags)
    }

    /// Whether it lets everything pass.
    pub fn is_empty(&self) -> bool {
        *self == Filter::default()
    }
}
