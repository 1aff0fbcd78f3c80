//! The one thread that writes, and group commit: what waits together is committed together.
//!
//! Each job runs in a savepoint, so that one that fails leaves the others alone; nobody hears anything before the one
//! COMMIT they share is on disk.

mod batch;
mod checkpoint;
mod company;
mod condition;

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::oneshot;
use tokio::time::Instant;

pub(super) use batch::Batch;
use checkpoint::Mover;
use company::Company;
pub(super) use condition::Condition;

use super::backup::{self, Report};
use super::connection::InUse;
use super::fault::{Fault, Reach};
use super::{lexical, pieces};
use crate::fair::WorkSlot;
use crate::{Error, Policy, Result};

/// How many jobs may wait, and how many bytes of documents.
const QUEUE: usize = 1024;
const QUEUE_BYTES: usize = 64 * 1024 * 1024;

/// How much is committed at once: indexing the words of so many bytes takes 50 ms at most.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 256 * 1024;

/// After so many documents with other words, a commit also merges pieces of their index, writing so many pages for each
/// of them: so there are never many pieces, however busy the writer is.
const CHANGES_PER_MERGE: usize = 16;
const PAGES_PER_CHANGE: usize = 2;
/// Indexing a piece of a long text counts as so many of them.
const CHANGES_PER_PIECE: usize = CHANGES_PER_MERGE;

/// After so long without a write, pieces are merged so many pages at a time.
const QUIET: Duration = Duration::from_millis(100);
const PAGES_WHEN_QUIET: usize = 64;

/// How long closing waits for the thread: first for what it does, then for SQLite to give up what it does.
const CLOSING: Duration = Duration::from_secs(5);
const GIVING_UP: Duration = Duration::from_secs(1);

/// Hands work to the writing thread.
pub(super) struct Writer {
    messages: Option<mpsc::SyncSender<Message>>,
    condition: Arc<Condition>,
    thread: Option<JoinHandle<()>>,
    /// Disconnected when the thread has ended.
    ended: Mutex<mpsc::Receiver<()>>,
    interrupt: InterruptHandle,
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
    /// Given back when the task is answered.
    turn: Option<WorkSlot>,
    work: Option<F>,
    answer: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

/// A committed text whose words are not all in the index yet.
pub(super) struct LongText {
    document: i64,
    /// The write that is answered when they are; `None` if another process wrote the text.
    job: Option<Box<dyn Job>>,
}

impl Writer {
    /// Writes with one connection and moves the log with the other; the file stays in use until both are closed.
    pub(super) fn start(
        connection: Connection,
        for_log: Connection,
        policy: Policy,
        in_use: InUse,
    ) -> Result<Writer> {
        let cannot = |error| Error::unavailable(format!("cannot start the writer: {error}"));
        let (messages, received) = mpsc::sync_channel(QUEUE);
        let condition = Arc::new(Condition::default());
        let mover = Mover::start(for_log, Arc::clone(&condition)).map_err(cannot)?;
        let shared = Arc::clone(&condition);
        let interrupt = connection.get_interrupt_handle();
        let (end, ended) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("kb-writer".to_owned())
            .spawn(move || {
                let _held_until_closed = (end, in_use);
                write_all(&connection, mover, received, &policy, &shared);
                drop(connection);
            })
            .map_err(cannot)?;
        let (messages, thread) = (Some(messages), Some(thread));
        Ok(Writer { messages, condition, thread, ended: Mutex::new(ended), interrupt })
    }

    /// Runs `work`, which writes a document, in the next transaction; answers when that is on disk.
    ///
    /// `bytes` is what the work holds in memory, roughly. Dropping the future does not undo the work, and the turn ends
    /// when it would have been answered.
    pub(super) async fn write<T, F>(
        &self,
        bytes: usize,
        turn: Option<WorkSlot>,
        work: F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Batch<'_>) -> std::result::Result<T, Fault> + Send + 'static,
    {
        self.submit(bytes, true, turn, work).await
    }

    /// The same for all other work.
    pub(super) async fn run<T, F>(&self, bytes: usize, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Batch<'_>) -> std::result::Result<T, Fault> + Send + 'static,
    {
        self.submit(bytes, false, None, work).await
    }

    async fn submit<T, F>(
        &self,
        bytes: usize,
        is_write: bool,
        turn: Option<WorkSlot>,
        work: F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Batch<'_>) -> std::result::Result<T, Fault> + Send + 'static,
    {
        let (task, answer) = Task::new(bytes, is_write, turn, work);
        self.queue(Box::new(task))?;
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
            self.condition.leave(1, bytes, writes);
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
    /// Finishes what is queued and closes the file. A thread that does not end in time is left behind: what it has not
    /// committed was acknowledged to no caller.
    fn drop(&mut self) {
        drop(self.messages.take());
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let late = |patience| ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout);
        if late(CLOSING) {
            self.interrupt.interrupt();
            if late(GIVING_UP) {
                tracing::error!(
                    "the writing thread does not end; what it has not committed is lost"
                );
                return;
            }
        }
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

impl<T, F> Task<T, F> {
    fn new(
        bytes: usize,
        is_write: bool,
        turn: Option<WorkSlot>,
        work: F,
    ) -> (Task<T, F>, oneshot::Receiver<Result<T>>) {
        let (reply, answer) = oneshot::channel();
        (Task { bytes, is_write, turn, work: Some(work), answer: None, reply }, answer)
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
        let Task { turn, answer, reply, .. } = *self;
        let panicked = || Err(Error::internal("internal error while writing; see the server log"));
        drop(reply.send(committed.and_then(|()| answer.unwrap_or_else(panicked))));
        drop(turn);
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
    /// Texts whose next piece is to be indexed, in turn.
    long_texts: VecDeque<LongText>,
    /// Whether indexing a piece failed; it is tried again after the next commit that succeeds.
    pieces_failed: bool,
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
        long_texts: VecDeque::new(),
        pieces_failed: false,
    };
    while let Some(message) = thread.next() {
        condition.beat();
        thread.answer(message);
        thread.index_piece();
    }
    thread.long_texts.into_iter().for_each(LongText::answer);
    mover.finish(connection, condition);
}

impl LongText {
    /// Tells who wrote it that the write is done.
    fn answer(self) {
        if let Some(job) = self.job {
            job.reply(Ok(()));
        }
    }
}

impl Thread<'_> {
    /// Waits for the next message and tidies up meanwhile; `None` when there will be none.
    fn next(&mut self) -> Option<Message> {
        let mut wait = if self.long_texts.is_empty() { QUIET } else { Duration::ZERO };
        loop {
            match self.messages.recv_timeout(wait) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if self.index_piece() || self.tidy() => {
                    wait = Duration::ZERO;
                }
                Err(RecvTimeoutError::Timeout) => return self.messages.recv().ok(),
            }
        }
    }

    /// Indexes the next piece of a long text, if there is one; says whether it did.
    fn index_piece(&mut self) -> bool {
        let Some(text) = self.long_texts.pop_front() else { return false };
        let document = text.document;
        let index = move |batch: &mut Batch<'_>| pieces::index_next(batch.connection, document);
        let (task, mut indexed) = Task::new(0, false, None, index);
        self.condition.enter(0, 0);
        self.commit_all(vec![Box::new(task)]);
        self.changes += CHANGES_PER_PIECE;
        match indexed.try_recv().unwrap_or_else(|_| Err(closing())) {
            Ok(true) => self.long_texts.push_back(text),
            Ok(false) => text.answer(),
            Err(error) => {
                // The text itself is committed, and its document stays on the list of those with pieces to come.
                tracing::debug!(%error, document, "cannot index all words of a long text yet");
                self.pieces_failed = true;
                text.answer();
                return false;
            }
        }
        true
    }

    /// Looks for long texts that another process has left behind; says whether there are any.
    fn adopt_long_texts(&mut self) -> bool {
        if self.pieces_failed {
            return false;
        }
        let left = pieces::pending(self.connection).unwrap_or_default();
        self.long_texts.extend(left.into_iter().map(|document| LongText { document, job: None }));
        !self.long_texts.is_empty()
    }

    /// Merges some of the index of words; says whether there may be more to do.
    fn tidy(&mut self) -> bool {
        if self.condition.check_writable().is_err() {
            return false;
        }
        if self.adopt_long_texts() {
            return true;
        }
        let merged = lexical::merge(self.connection, PAGES_WHEN_QUIET).unwrap_or_else(|error| {
            self.condition.note(&error);
            false
        });
        self.mover.after_commit(self.connection, self.condition);
        self.condition.beat();
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
        self.pieces_failed = false;
        self.commit_all(jobs);
        other
    }

    fn commit_all(&mut self, jobs: Vec<Box<dyn Job>>) {
        let pages = self.pages_to_merge();
        let done = batch::commit(self.connection, jobs, self.policy, self.condition, pages);
        self.changes += done.changes;
        self.company = done.company;
        self.long_texts.extend(done.long_texts);
        self.mover.after_commit(self.connection, self.condition);
        self.condition.beat();
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
            self.condition.beat();
            if let Ok(message) = self.messages.try_recv() {
                match message {
                    Message::Job(job) => waiting.extend(self.commit(job)),
                    copy @ Message::Copy { .. } => waiting.push_back(copy),
                }
            }
            self.index_piece();
        });
        drop(reply.send(copied.map_err(backup::failed)));
        while let Some(message) = waiting.pop_front() {
            self.answer(message);
        }
    }
}
