//! The one thread that writes, and group commit: what waits together is committed together.
//!
//! Each job runs in a savepoint, so that one that fails leaves the others alone; nobody hears anything before the one
//! COMMIT they share is on disk.

mod batch;
mod checkpoint;
mod company;

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub(super) use batch::Batch;
use checkpoint::Mover;
use company::Company;

use super::backup::{self, Report};
use super::fault::{Fault, Reach, explain, reach};
use super::lexical;
use crate::{Error, Policy, Result};

/// How many jobs may wait, and how many bytes of documents.
const QUEUE: usize = 1024;
const QUEUE_BYTES: usize = 64 * 1024 * 1024;

/// How much is committed at once.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 16 * 1024 * 1024;

/// After so many documents with other words, a commit also merges pieces of their index, writing so many pages for each
/// of them: so there are never many pieces, however busy the writer is.
const CHANGES_PER_MERGE: usize = 16;
const PAGES_PER_CHANGE: usize = 2;

/// After so long without a write, pieces are merged so many pages at a time.
const QUIET: Duration = Duration::from_millis(100);
const PAGES_WHEN_QUIET: usize = 64;

/// Hands work to the writing thread.
pub(super) struct Writer {
    messages: Option<mpsc::SyncSender<Message>>,
    condition: Arc<Condition>,
    thread: Option<JoinHandle<()>>,
}

/// What the writing thread tells about itself.
#[derive(Debug, Default)]
pub(super) struct Condition {
    read_only: Mutex<Option<String>>,
    last_error: Mutex<Option<String>>,
    queued_bytes: AtomicUsize,
    writers: AtomicUsize,
    commits: AtomicU64,
    jobs: AtomicU64,
}

/// A piece of work and whoever waits for it.
pub(super) trait Job: Send {
    fn bytes(&self) -> usize;

    /// Whether somebody writes a document, and not the store tidies up.
    fn is_write(&self) -> bool;

    fn run(&mut self, batch: &mut Batch<'_>) -> std::result::Result<(), Broken>;

    /// Tells the outcome once it is certain.
    fn reply(self: Box<Self>, committed: Result<()>);
}

/// What the writing thread is asked for.
enum Message {
    Job(Box<dyn Job>),
    /// Copy the database into this file, beside other work.
    Copy {
        to: PathBuf,
        report: Report,
        reply: oneshot::Sender<Result<()>>,
    },
}

/// How far a failure reaches, and what to tell about it.
type Broken = (Reach, Error);

struct Task<T, F> {
    bytes: usize,
    is_write: bool,
    work: Option<F>,
    answer: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl Writer {
    /// Writes with one connection and moves the log with the other.
    pub(super) fn start(
        connection: Connection,
        for_log: Connection,
        policy: Policy,
    ) -> Result<Writer> {
        let cannot = |error| Error::unavailable(format!("cannot start the writer: {error}"));
        let (messages, received) = mpsc::sync_channel(QUEUE);
        let condition = Arc::new(Condition::default());
        let mover = Mover::start(for_log, Arc::clone(&condition)).map_err(cannot)?;
        let shared = Arc::clone(&condition);
        let thread = thread::Builder::new()
            .name("kb-writer".to_owned())
            .spawn(move || write_all(&connection, mover, received, &policy, &shared))
            .map_err(cannot)?;
        Ok(Writer { messages: Some(messages), condition, thread: Some(thread) })
    }

    /// Runs `work`, which writes a document, in the next transaction; answers when that is on disk.
    ///
    /// `bytes` is what the work holds in memory, roughly. Dropping the future does not undo the work.
    pub(super) async fn write<T, F>(&self, bytes: usize, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Batch<'_>) -> std::result::Result<T, Fault> + Send + 'static,
    {
        self.submit(bytes, true, work).await
    }

    /// The same for all other work.
    pub(super) async fn run<T, F>(&self, bytes: usize, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Batch<'_>) -> std::result::Result<T, Fault> + Send + 'static,
    {
        self.submit(bytes, false, work).await
    }

    async fn submit<T, F>(&self, bytes: usize, is_write: bool, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Batch<'_>) -> std::result::Result<T, Fault> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.queue(Box::new(Task { bytes, is_write, work: Some(work), answer: None, reply }))?;
        answer.await.unwrap_or_else(|_| Err(closing()))
    }

    fn queue(&self, job: Box<dyn Job>) -> Result<()> {
        self.condition.check_writable()?;
        let (bytes, writes) = (job.bytes(), usize::from(job.is_write()));
        let queued = self.condition.enter(bytes, writes);
        // A job larger than the whole queue still gets its turn when nothing else waits.
        let sent = if queued > 0 && queued + bytes > QUEUE_BYTES {
            Err(full())
        } else {
            self.send(Message::Job(job))
        };
        if sent.is_err() {
            self.condition.leave(bytes, writes);
        }
        sent
    }

    /// Copies the database into a file, while writers go on.
    pub(super) async fn copy(&self, to: PathBuf, report: Report) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Copy { to, report, reply })?;
        answer.await.unwrap_or_else(|_| Err(closing()))
    }

    fn send(&self, message: Message) -> Result<()> {
        let messages = self.messages.as_ref().expect("the queue lives as long as the writer");
        messages.try_send(message).map_err(|_| full())
    }

    pub(super) fn condition(&self) -> &Condition {
        &self.condition
    }
}

fn full() -> Error {
    Error::unavailable("too many writes are waiting; try again in a moment")
}

fn closing() -> Error {
    Error::unavailable("the store is closing")
}

impl Drop for Writer {
    /// Finishes what is queued and closes the file.
    fn drop(&mut self) {
        drop(self.messages.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writing thread ended with a panic");
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("condition", &self.condition).finish_non_exhaustive()
    }
}

impl Condition {
    /// Why writes are refused until a restart, if they are.
    pub(super) fn read_only(&self) -> Option<String> {
        self.read_only.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn last_error(&self) -> Option<String> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Commits so far, and the jobs in them.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.commits.load(Ordering::Relaxed), self.jobs.load(Ordering::Relaxed))
    }

    /// Counts a job that waits; says how many bytes waited before.
    fn enter(&self, bytes: usize, writes: usize) -> usize {
        self.writers.fetch_add(writes, Ordering::Relaxed);
        self.queued_bytes.fetch_add(bytes, Ordering::Relaxed)
    }

    /// How many writes of documents are queued or being committed.
    fn writers(&self) -> usize {
        self.writers.load(Ordering::Relaxed)
    }

    fn leave(&self, bytes: usize, writes: usize) {
        self.writers.fetch_sub(writes, Ordering::Relaxed);
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn check_writable(&self) -> Result<()> {
        match self.read_only() {
            None => Ok(()),
            Some(why) => Err(Error::unavailable(format!("the knowledge base is read-only: {why}"))),
        }
    }

    /// Remembers that tidying up failed. Nobody's write is lost by that, so only a failed fsync is more than a nuisance:
    /// the log may be overwritten once the file is believed to be on disk. That others use the file is none.
    fn note(&self, error: &rusqlite::Error) {
        let reach = reach(error);
        let busy = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy);
        if reach == Reach::Store || !busy {
            self.failed(reach, &explain(error));
        }
    }

    /// Remembers a failure; one that reaches the store ends writing.
    fn failed(&self, reach: Reach, error: &Error) {
        tracing::error!(error = error.message(), ?reach, "writing to the knowledge base failed");
        let text = Some(error.message().to_owned());
        if reach == Reach::Store {
            self.read_only
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert_with(|| format!("{}; restart the server", error.message()));
        }
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

impl<T, F> Job for Task<T, F>
where
    T: Send,
    F: FnOnce(&mut Batch<'_>) -> std::result::Result<T, Fault> + Send,
{
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn is_write(&self) -> bool {
        self.is_write
    }

    fn run(&mut self, batch: &mut Batch<'_>) -> std::result::Result<(), Broken> {
        let Some(work) = self.work.take() else { return Ok(()) };
        let (result, answer) = match work(batch) {
            Ok(value) => (Ok(()), Ok(value)),
            Err(fault) => {
                let reach = fault.reach();
                let error = fault.into_error();
                (Err((reach, error.clone())), Err(error))
            }
        };
        self.answer = Some(answer);
        result
    }

    fn reply(self: Box<Self>, committed: Result<()>) {
        // Without an answer the work panicked; nobody listening means that the caller went away.
        let Task { answer, reply, .. } = *self;
        let panicked = || Err(Error::internal("the write failed by a defect; see the log"));
        drop(reply.send(committed.and_then(|()| answer.unwrap_or_else(panicked))));
    }
}

/// The writing thread.
struct Thread<'a> {
    connection: &'a Connection,
    mover: &'a Mover,
    messages: mpsc::Receiver<Message>,
    policy: &'a Policy,
    condition: &'a Condition,
    /// Documents with other words since pieces of their index were merged.
    changes: usize,
    company: Company,
}

fn write_all(
    connection: &Connection,
    mover: Mover,
    messages: mpsc::Receiver<Message>,
    policy: &Policy,
    condition: &Condition,
) {
    let mut thread = Thread {
        connection,
        mover: &mover,
        messages,
        policy,
        condition,
        changes: 0,
        company: Company::none(),
    };
    while let Some(message) = thread.next() {
        thread.answer(message);
    }
    mover.finish(connection, condition);
}

impl Thread<'_> {
    /// Waits for the next message and tidies up meanwhile; `None` when there will be none.
    fn next(&self) -> Option<Message> {
        let mut wait = QUIET;
        loop {
            match self.messages.recv_timeout(wait) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if self.tidy() => wait = Duration::ZERO,
                Err(RecvTimeoutError::Timeout) => return self.messages.recv().ok(),
            }
        }
    }

    /// Merges some of the index of words; says whether there may be more to do.
    fn tidy(&self) -> bool {
        if self.condition.check_writable().is_err() {
            return false;
        }
        let merged = lexical::merge(self.connection, PAGES_WHEN_QUIET).unwrap_or_else(|error| {
            self.condition.note(&error);
            false
        });
        self.mover.after_commit(self.connection, self.condition);
        merged
    }

    fn answer(&mut self, message: Message) {
        match message {
            Message::Job(job) => {
                if let Some(Message::Copy { to, report, reply }) = self.commit(job) {
                    self.copy(&to, report, reply);
                }
            }
            Message::Copy { to, report, reply } => self.copy(&to, report, reply),
        }
    }

    /// Commits the job with what else is queued; gives back a message that is not a job.
    fn commit(&mut self, first: Box<dyn Job>) -> Option<Message> {
        let (mut bytes, mut writes) = (first.bytes(), usize::from(first.is_write()));
        let mut jobs = vec![first];
        let mut other = None;
        while jobs.len() < BATCH && bytes < BATCH_BYTES {
            match self.another(writes) {
                Some(Message::Job(job)) => {
                    bytes += job.bytes();
                    writes += usize::from(job.is_write());
                    jobs.push(job);
                }
                Some(message) => {
                    other = Some(message);
                    break;
                }
                None => break,
            }
        }
        let pages = self.pages_to_merge();
        let done = batch::commit(self.connection, jobs, self.policy, self.condition, pages);
        self.changes += done.changes;
        self.company = done.company;
        self.mover.after_commit(self.connection, self.condition);
        other
    }

    /// What is queued, or soon will be.
    fn another(&self, writes: usize) -> Option<Message> {
        let queued = self.messages.try_recv().ok();
        queued.or_else(|| {
            let patience = self.company.patience(writes, Instant::now())?;
            self.messages.recv_timeout(patience).ok()
        })
    }

    /// How much the next commit merges, for the documents that changed before it.
    fn pages_to_merge(&mut self) -> usize {
        if self.changes < CHANGES_PER_MERGE {
            return 0;
        }
        PAGES_PER_CHANGE * std::mem::take(&mut self.changes)
    }

    /// Copies the database, a batch of jobs after every piece. A second copy waits for the first.
    fn copy(&mut self, to: &Path, mut report: Report, reply: oneshot::Sender<Result<()>>) {
        let mut waiting = VecDeque::new();
        let copied = backup::copy(self.connection, to, &mut report, &mut || {
            if let Ok(message) = self.messages.try_recv() {
                match message {
                    Message::Job(job) => waiting.extend(self.commit(job)),
                    copy @ Message::Copy { .. } => waiting.push_back(copy),
                }
            }
        });
        drop(reply.send(copied.map_err(backup::failed)));
        while let Some(message) = waiting.pop_front() {
            self.answer(message);
        }
    }
}
