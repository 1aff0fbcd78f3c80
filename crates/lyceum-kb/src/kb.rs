//! The front door: every operation of the knowledge base, on whatever store and model are configured.

mod changes;
mod index;
mod search;

pub use changes::{Changed, Changes};
pub use search::{Explanation, Hit, Mode, Related, SEARCHED_BYTES, Search, SearchResult, Snippet};

use index::Index;

use std::sync::Arc;

use tokio::sync::{Notify, watch};

use crate::document::{Document, Meta, Revision};
use crate::embed::Embedder;
use crate::fair::{COMPUTE, WorkSlot};
use crate::store::{DeadLetters, ListPage, Skips, Store};
use crate::write::{Status, Write, Written};
use crate::{CallerId, DocPath, Error, Result};

/// A knowledge base. Cheap to clone; all clones are the same one.
#[derive(Clone)]
pub struct Kb {
    pub(crate) store: Arc<dyn Store>,
    /// The configured model first, then others that can still embed.
    pub(crate) embedders: Arc<[Arc<dyn Embedder>]>,
    /// Wakes the indexer.
    pub(crate) wake: Arc<Notify>,
    pub(crate) index: Arc<Index>,
    /// Wakes those who follow what is written.
    written: watch::Sender<()>,
    /// Whom reads are for.
    caller: CallerId,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    Document(Box<Document>),
    Deleted,
    Nothing,
}

/// A page of documents.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    pub items: Vec<Meta>,
    /// Whether more documents follow.
    pub more: bool,
}

impl Kb {
    /// A knowledge base on `store` with the configured model. Searches use one of `others` as long as the store's
    /// vectors are its and those of the configured model are not complete.
    pub async fn open(
        store: Arc<dyn Store>,
        configured: Arc<dyn Embedder>,
        others: Vec<Arc<dyn Embedder>>,
    ) -> Result<Kb> {
        // With the set in place, every write from now on is queued for it.
        let set = store.vector_set(configured.fingerprint()).await?;
        if let Some(length) = set.dimensions {
            configured.expect_length(length);
        }
        Ok(Kb {
            store,
            embedders: std::iter::once(configured).chain(others).collect(),
            wake: Arc::new(Notify::new()),
            index: Arc::default(),
            written: watch::Sender::new(()),
            caller: CallerId::INTERNAL,
        })
    }

    /// The same knowledge base, reading for `caller`. Callers share it fairly, their reads have a deadline, and a read
    /// stops when its future is dropped.
    pub fn on_behalf_of(&self, caller: CallerId) -> Kb {
        Kb { store: self.store.on_behalf_of(caller.clone()), caller, ..self.clone() }
    }

    /// Waits for this caller's turn to keep a processor busy, such as by parsing or comparing large texts. Take the
    /// slot before loading what the work is about, so that waiting costs no memory.
    pub async fn work_slot(&self) -> Result<WorkSlot> {
        COMPUTE.acquire(&self.caller).await
    }

    /// The store, for what needs no more than it.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Applies a write; durable and visible to reads and lexical search when it returns.
    pub async fn write(&self, write: Write) -> Result<Written> {
        let written = self.store.write(write).await?;
        if written.status != Status::Unchanged {
            self.wake.notify_one();
            self.written.send_replace(());
        }
        Ok(written)
    }

    /// Tells of writes from now on, those of other processes included.
    pub async fn changes(&self) -> Result<Changes> {
        let own = self.written.subscribe();
        let seq = self.store.last_write().await?;
        Ok(Changes::new(Arc::clone(&self.store), own, seq))
    }

    /// The living document at `path`.
    pub async fn get(&self, path: &DocPath) -> Result<Document> {
        match self.find(std::slice::from_ref(path)).await?.pop() {
            Some(Found::Document(document)) => Ok(*document),
            Some(Found::Deleted) => {
                Err(Error::not_found(format!("{path} was deleted; its history can be restored"))
                    .with("deleted", true))
            }
            Some(Found::Nothing) | None => Err(Error::not_found(format!(
                "no document at {path}; list_documents shows what exists"
            ))),
        }
    }

    /// What is at each of `paths`, in order.
    pub async fn find(&self, paths: &[DocPath]) -> Result<Vec<Found>> {
        let documents = self.store.documents(paths).await?;
        let found = documents.into_iter().map(|document| match document {
            Some(document) if document.meta.is_alive() => Found::Document(Box::new(document)),
            Some(_) => Found::Deleted,
            None => Found::Nothing,
        });
        Ok(found.collect())
    }

    /// Living documents by path.
    pub async fn list(&self, mut page: ListPage) -> Result<List> {
        let limit = page.limit;
        // One more than asked for tells whether there is more, without counting.
        page.limit += 1;
        let mut items = self.store.list(&page).await?;
        let more = items.len() > limit;
        items.truncate(limit);
        Ok(List { items, more })
    }

    /// The newest revisions first; NOT_FOUND when there never was such a document.
    pub async fn history(
        &self,
        path: &DocPath,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Revision>> {
        let revisions = self.store.history(path, before, limit).await?;
        if revisions.is_empty() && before.is_none() {
            return Err(Error::not_found(format!("there never was a document at {path}")));
        }
        Ok(revisions)
    }

    /// Reads the vectors, so that the first search need not go without them. An [`crate::Indexer`] does it by itself.
    pub async fn load_vectors(&self) -> Result<()> {
        self.index.refresh(&*self.store).await
    }

    /// Queues every document that lacks vectors of the configured model; says how many.
    pub async fn reindex_missing(&self) -> Result<usize> {
        let set = self.store.vector_set(self.embedders[0].fingerprint()).await?;
        let revived = self.store.retry_dead(set.id, DeadLetters::All).await?;
        let queued = self.store.enqueue_missing(set.id).await? + revived;
        self.wake.notify_one();
        Ok(queued)
    }

    /// Takes the vectors of documents that are to be skipped now, and queues those that are not any more.
    pub async fn apply_skip_rules(&self) -> Result<Skips> {
        let skips = self.store.apply_skip_rules().await?;
        self.wake.notify_one();
        Ok(skips)
    }

    /// A document as it was in `revision`.
    pub async fn revision(&self, path: &DocPath, revision: i64) -> Result<Document> {
        self.store.document_at(path, revision).await?.ok_or_else(|| {
            Error::not_found(format!(
                "{path} has no revision {revision}; its history lists those it has"
            ))
        })
    }
}

impl std::fmt::Debug for Kb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kb").finish_non_exhaustive()
    }
}
