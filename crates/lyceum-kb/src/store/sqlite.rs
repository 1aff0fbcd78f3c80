//! The embedded store: one SQLite file with documents, history, words, vectors, outbox and audit trail.
//!
//! One thread writes (`writer.rs`) and a few connections read (`readers.rs`); other processes may use the same file at
//! the same time. What each statement means is said in the module that holds it, the tables in `schema/`.

mod audit;
mod backup;
mod connection;
mod documents;
mod facets;
mod fault;
mod idempotency;
mod integrity;
mod keys;
mod length;
mod lexical;
mod list;
mod mark;
mod memo;
mod outbox;
mod pieces;
mod postings;
mod prepare;
mod purge;
mod readers;
mod rebuild;
mod restore;
mod row;
mod schema;
mod search;
mod skip;
mod space;
mod sync;
mod vectors;
mod write;
mod writer;

#[cfg(test)]
mod tests;

pub use backup::{Progress, check_file};
pub use rebuild::rebuild_words;
pub use restore::{Restored, restore};

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use rusqlite::OpenFlags;
use tokio::time::Instant;

use self::backup::Partial;
use self::connection::InUse;
use self::fault::Fault;
use self::mark::{Mark, Remembered};
use self::readers::Readers;
use self::search::Memory;
use self::space::SpaceWatch;
use self::writer::{Batch, Writer};
use super::{
    ApiKey, AuditEntry, AuditLine, Backlog, ChunkVector, DeadLetters, Filter, Job, Lease,
    LexicalHit, ListPage, Skips, Store, StoreHealth, SyncReport, VectorChange, VectorSet,
};
use crate::document::{Document, Meta, Millis, Revision};
use crate::embed::Fingerprint;
use crate::fair::FairGate;
use crate::kb::Changed;
use crate::query::Query;
use crate::write::{Actor, Policy, Write, Written};
use crate::{CallerId, DocPath, Error, Keys, Result};

/// How long a probe is waited for; a writer that takes longer is blocked.
const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// Large writes that are under way at a time. With two, one caller's never keep another's waiting.
const LARGE_WRITES: usize = 2;

/// A knowledge base in one file. Cheap to clone; all clones are the same one, each reading for one caller.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    path: Arc<Path>,
    // The order matters: the writer closes last and leaves one file, without a log beside it.
    readers: Readers,
    writer: Arc<Writer>,
    /// Admits few large writes at a time, so that small ones never wait behind many.
    large_writes: FairGate,
    memory: Arc<Memory>,
    mark: Arc<Mark>,
    space: Arc<SpaceWatch>,
}

/// How much the writing thread has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterCounts {
    pub commits: u64,
    /// Jobs in those commits; more jobs than commits means that writers shared them.
    pub jobs: u64,
}

impl SqliteStore {
    /// Opens the file, makes it if it does not exist, and brings its schema up to date.
    pub fn open(path: &Path, policy: Policy) -> Result<SqliteStore> {
        connection::create_directory_of(path)?;
        let in_use = InUse::shared(path)?;
        let remembered = Remembered::read(path)?;
        let connection = connection::open_writer(path)?;
        let for_log = connection::open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let mark = remembered.compare(path, &connection)?;
        Ok(SqliteStore {
            path: path.into(),
            readers: Readers::open(path)?,
            writer: Arc::new(Writer::start(connection, for_log, policy, in_use)?),
            large_writes: FairGate::new(LARGE_WRITES),
            memory: Arc::default(),
            mark: Arc::new(mark),
            space: Arc::new(SpaceWatch::of(path)),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Copies the knowledge base as it is at the end of the copying into a new file, while writers go on.
    ///
    /// The file appears under its name when it is complete and on disk.
    pub async fn backup(
        &self,
        to: &Path,
        progress: impl FnMut(Progress) + Send + 'static,
    ) -> Result<()> {
        let same = to.canonicalize().is_ok_and(|to| Some(to) == self.path.canonicalize().ok());
        if same {
            return Err(Error::invalid(
                "a knowledge base cannot be its own backup; choose another file",
            ));
        }
        let partial = Partial::create(to)?;
        self.writer.copy(partial.path().to_owned(), Box::new(progress)).await?;
        let kept = tokio::task::spawn_blocking(move || partial.keep()).await;
        kept.unwrap_or_else(|_| Err(Error::unavailable("the store is closing")))
    }

    pub fn writer_counts(&self) -> WriterCounts {
        let (commits, jobs) = self.writer.condition().counts();
        WriterCounts { commits, jobs }
    }

    /// After a failed write, finds out whether the next one would work; a success is all there is to tell.
    async fn probe(&self) {
        if self.writer.condition().is_probe_due() && self.space.has_room() {
            let written = self.writer.run(0, |batch| write_and_remove(batch));
            let _ = tokio::time::timeout(PROBE_PATIENCE, written).await;
        }
    }

    /// Deletes the vectors of dropped sets, a few at a time.
    async fn sweep(&self) -> Result<()> {
        while self.writer.run(0, |batch| sync::sweep(batch)).await? {}
        Ok(())
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn on_behalf_of(&self, caller: CallerId) -> Arc<dyn Store> {
        Arc::new(SqliteStore { readers: self.readers.on_behalf_of(caller), ..self.clone() })
    }

    async fn write(&self, write: Write) -> Result<Written> {
        self.write_prepared(write).await
    }

    async fn purge(&self, path: &DocPath, by: Actor) -> Result<Written> {
        let path = path.clone();
        let purged = self.writer.run(0, move |batch| {
            let written = purge::purge(batch, &path, &by)?;
            Ok((written, batch.connection.last_insert_rowid()))
        });
        let (written, line) = purged.await?;
        self.mark.raise(line);
        Ok(written)
    }

    async fn audit(&self, entry: AuditEntry) -> Result<()> {
        let audited = self.writer.run(0, move |batch| {
            audit::insert(batch.connection, batch.now, &entry)?;
            Ok(batch.connection.last_insert_rowid())
        });
        self.mark.raise(audited.await?);
        Ok(())
    }

    async fn audit_trail(&self, before: Option<i64>, limit: usize) -> Result<Vec<AuditLine>> {
        self.readers.run(move |connection| audit::trail(connection, before, limit)).await
    }

    async fn documents(&self, paths: &[DocPath]) -> Result<Vec<Option<Document>>> {
        let paths = paths.to_vec();
        self.readers.run(move |connection| documents::by_path(connection, &paths)).await
    }

    async fn documents_by_key(&self, keys: &[i64]) -> Result<Vec<Document>> {
        let keys = keys.to_vec();
        self.readers.run(move |connection| documents::by_key(connection, &keys)).await
    }

    async fn first_documents(
        &self,
        keys: &[i64],
        max_bytes: usize,
    ) -> Result<Vec<Option<Document>>> {
        let keys = keys.to_vec();
        self.readers.run(move |connection| documents::first(connection, &keys, max_bytes)).await
    }

    async fn list(&self, page: &ListPage) -> Result<Vec<Meta>> {
        let page = page.clone();
        self.readers.run(move |connection| list::list(connection, &page)).await
    }

    async fn history(
        &self,
        path: &DocPath,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Revision>> {
        let path = path.clone();
        self.readers
            .run(move |connection| documents::history(connection, &path, before, limit))
            .await
    }

    async fn document_at(&self, path: &DocPath, revision: i64) -> Result<Option<Document>> {
        let path = path.clone();
        self.readers
            .run(move |connection| {
                let found = documents::revision(connection, &path, revision)?;
                found.map(|found| found.document(connection)).transpose()
            })
            .await
    }

    async fn last_write(&self) -> Result<i64> {
        self.readers.run_priority(documents::last_write).await
    }

    async fn writes_after(&self, after: i64, limit: usize) -> Result<Vec<Changed>> {
        self.readers
            .run_priority(move |connection| documents::writes(connection, after, limit))
            .await
    }

    async fn tags(&self, prefix: &str, limit: usize) -> Result<Vec<String>> {
        let prefix = prefix.to_owned();
        self.readers.run(move |connection| list::tags(connection, &prefix, limit)).await
    }

    async fn lexical(
        &self,
        query: &Query,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<LexicalHit>> {
        let (query, filter) = (query.clone(), filter.clone());
        let memory = Arc::clone(&self.memory);
        self.readers
            .run_search(move |connection, cancel| {
                search::lexical(connection, cancel, &memory, &query, &filter, limit)
            })
            .await
    }

    async fn matching(&self, filter: &Filter) -> Result<Arc<Keys>> {
        let (filter, memory) = (filter.clone(), Arc::clone(&self.memory));
        self.readers
            .run_search(move |connection, _| search::matching(connection, &memory, &filter))
            .await
    }

    async fn vector_set(&self, fingerprint: &Fingerprint) -> Result<VectorSet> {
        if self.readers.run_maintenance(sync::to_sweep).await? {
            self.sweep().await?;
        }
        let fingerprint = fingerprint.clone();
        self.writer.run(0, move |batch| vectors::set(batch.connection, &fingerprint)).await
    }

    async fn active_set(&self) -> Result<Option<VectorSet>> {
        self.readers.run_priority(vectors::active).await
    }

    async fn is_complete(&self, set: i64) -> Result<bool> {
        self.readers.run_maintenance(move |connection| sync::is_complete(connection, set)).await
    }

    async fn activate_set(&self, set: i64) -> Result<()> {
        self.writer.run(0, move |batch| sync::activate(batch, set)).await?;
        while self.writer.run(0, move |batch| sync::clear_outbox(batch, set)).await? {}
        let mut next = Some(0);
        while let Some(after) = next {
            next = self.writer.run(0, move |batch| sync::align(batch, set, after)).await?;
        }
        self.sweep().await
    }

    async fn enqueue_missing(&self, set: i64) -> Result<usize> {
        let mut added = 0;
        let mut next = Some(0);
        while let Some(after) = next {
            let step =
                self.writer.run(0, move |batch| sync::enqueue_missing(batch, set, after)).await?;
            added += step.changed;
            next = step.next;
        }
        Ok(added)
    }

    async fn retry_dead(&self, set: i64, which: DeadLetters) -> Result<usize> {
        let mut revived = 0;
        let mut next = Some(0);
        while let Some(after) = next {
            let revive = move |batch: &mut Batch<'_>| sync::retry_dead(batch, set, which, after);
            let step = self.writer.run(0, revive).await?;
            revived += step.changed;
            next = step.next;
        }
        Ok(revived)
    }

    async fn apply_skip_rules(&self) -> Result<Skips> {
        let mut skips = Skips::default();
        let mut next = Some(0);
        while let Some(after) = next {
            let (step, go_on) = self.writer.run(0, move |batch| skip::apply(batch, after)).await?;
            skips.skipped += step.skipped;
            skips.queued += step.queued;
            next = go_on;
        }
        Ok(skips)
    }

    async fn claim(
        &self,
        set: i64,
        worker: &str,
        limit: usize,
        lease: Duration,
    ) -> Result<Vec<Job>> {
        // Workers ask often and mostly for nothing; that must not keep the writer busy.
        let due =
            self.readers.run(move |connection| outbox::due(connection, set, now(), 1)).await?;
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let worker = worker.to_owned();
        let leases = self
            .writer
            .run(0, move |batch| outbox::claim(batch, set, &worker, limit, lease))
            .await?;
        let keys: Vec<i64> = leases.iter().map(|lease| lease.key).collect();
        let documents = self.documents_by_key(&keys).await?;
        // One that was deleted since is no longer on the outbox either. Both are in the same order.
        let mut leases = leases.into_iter();
        let jobs = documents.into_iter().filter_map(|document| {
            let lease = leases.find(|lease| lease.key == document.meta.key)?;
            Some(Job { set, document, attempts: lease.attempts, lease: lease.token })
        });
        Ok(jobs.collect())
    }

    async fn renew(&self, leases: Vec<Lease>, lease: Duration) -> Result<()> {
        self.writer.run(0, move |batch| outbox::renew(batch, &leases, lease)).await
    }

    async fn release(&self, leases: Vec<Lease>) -> Result<()> {
        self.writer.run(0, move |batch| outbox::release(batch, &leases)).await
    }

    async fn finish(&self, job: &Job, chunks: Vec<ChunkVector>) -> Result<bool> {
        let (hold, made) = (job.hold(), vectors::Encoded::of(&chunks)?);
        self.writer.run(made.bytes.len(), move |batch| vectors::finish(batch, &hold, &made)).await
    }

    async fn fail(&self, job: &Job, reason: &str, retry_in: Option<Duration>) -> Result<()> {
        let (hold, reason) = (job.hold(), reason.to_owned());
        self.writer.run(0, move |batch| outbox::fail(batch, &hold, &reason, retry_in)).await
    }

    async fn vectors_after(&self, set: i64, after: i64, limit: usize) -> Result<Vec<VectorChange>> {
        self.readers
            .run_maintenance(move |connection| vectors::after(connection, set, after, limit))
            .await
    }

    async fn backlog(&self) -> Result<Backlog> {
        self.readers.run_priority(|connection| outbox::backlog(connection, now())).await
    }

    async fn audit_sync(&self) -> Result<SyncReport> {
        self.readers.run_maintenance(sync::report).await
    }

    async fn cleanup_orphans(&self, dry_run: bool) -> Result<usize> {
        if dry_run {
            return self.readers.run_maintenance(sync::count_orphans).await;
        }
        let mut removed = 0;
        loop {
            match self.writer.run(0, |batch| sync::remove_orphans(batch)).await? {
                0 => return Ok(removed),
                some => removed += some,
            }
        }
    }

    async fn keys(&self) -> Result<Vec<ApiKey>> {
        self.readers.run_keys(keys::all).await
    }

    async fn add_key(&self, key: ApiKey) -> Result<()> {
        self.writer.run(0, move |batch| keys::add(batch.connection, &key)).await
    }

    async fn revoke_key(&self, name_or_id: &str, now: Millis) -> Result<usize> {
        let name_or_id = name_or_id.to_owned();
        self.writer.run(0, move |batch| keys::revoke(batch.connection, &name_or_id, now)).await
    }

    async fn health(&self) -> StoreHealth {
        let start = Instant::now();
        let counted = self.readers.run_priority(integrity::count_documents).await;
        let latency = start.elapsed();
        self.probe().await;
        let condition = self.writer.condition();
        StoreHealth {
            kind: "sqlite",
            documents: *counted.as_ref().unwrap_or(&0),
            unreadable: counted.err().map(|error| error.message().to_owned()),
            unwritable: condition.unwritable(),
            warning: self.space.look(),
            last_error: condition.last_error(),
            latency,
        }
    }

    async fn check_integrity(&self) -> Result<Vec<String>> {
        let mut problems = integrity::check(&self.path).await?;
        problems.extend(self.mark.lost());
        Ok(problems)
    }
}

/// Stores some pages' worth in the table of answers and takes it out again, so that the disk is asked for space.
fn write_and_remove(batch: &Batch<'_>) -> std::result::Result<(), Fault> {
    const PUT: &str = "INSERT OR REPLACE INTO idempotency \
                       (principal, tool, key, digest, path, status, revision, at) \
                       VALUES ('', '', '', zeroblob(65536), '', '', 0, 0)";
    const TAKE: &str = "DELETE FROM idempotency WHERE principal = '' AND tool = '' AND key = ''";
    batch.connection.prepare_cached(PUT)?.execute([])?;
    batch.connection.prepare_cached(TAKE)?.execute([])?;
    Ok(())
}

/// The clock of everything that is stored.
fn now() -> Millis {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX))
}
