//! One transaction with many jobs in it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::Connection;
use tokio::time::{Duration, Instant};

use super::super::fault::{Fault, Reach, explain, reach};
use super::super::lexical::{self, Words};
use super::super::pieces;
use super::{Broken, Company, Condition, Job, LongText};
use crate::document::Millis;
use crate::{Error, Policy};

/// What a job works with.
pub(in super::super) struct Batch<'a> {
    pub(in super::super) connection: &'a Connection,
    pub(in super::super) policy: &'a Policy,
    /// When the batch began; the same for all its jobs.
    pub(in super::super) now: Millis,
    /// Changes to the lexical index, made together at the end: the index writes out what it has gathered at every
    /// savepoint, so that making them one by one costs a merge each.
    pub(in super::super) words: Vec<(i64, Option<Words>)>,
    /// When the job at hand began.
    began: Instant,
}

/// How long a job that can go on in another transaction works before it lets others write.
const SLICE: Duration = Duration::from_millis(50);

/// What a commit leaves behind.
pub(super) struct Done {
    /// Documents that have other words now.
    pub(super) changes: usize,
    /// Who will be there for the next commit.
    pub(super) company: Company,
    /// Jobs that are answered when all words of their text are in the index.
    pub(super) long_texts: Vec<LongText>,
}

/// What a transaction did.
#[derive(Default)]
struct Committed {
    /// Whether there was anything to write. An empty transaction is committed on a full disk as well.
    has_changes: bool,
    /// Documents that have other words now.
    changes: usize,
    /// How long the disk took.
    took: Duration,
    /// The jobs that wrote a text of several pieces, by their number, and its document.
    long_texts: Vec<(usize, i64)>,
}

impl Batch<'_> {
    /// Whether a job that can go on in another transaction should stop here.
    pub(in super::super) fn is_slice_used(&self) -> bool {
        self.began.elapsed() >= SLICE
    }
}

/// Runs the jobs, commits, and only then replies; those that wrote a long text are given back instead.
pub(super) fn commit(
    connection: &Connection,
    mut jobs: Vec<Box<dyn Job>>,
    policy: &Policy,
    condition: &Condition,
    merge_pages: usize,
) -> Done {
    let bytes = jobs.iter().map(|job| job.bytes()).sum();
    let writes = jobs.iter().filter(|job| job.is_write()).count();
    let committed = condition.check_writable().and_then(|()| {
        let (now, words) = (super::super::now(), Vec::new());
        let mut batch = Batch { connection, policy, now, words, began: Instant::now() };
        run(&mut batch, &mut jobs, merge_pages).map_err(|(reach, error)| {
            condition.failed(reach, &error);
            undo(connection);
            error
        })
    });
    // Before anybody is told, so that nobody is counted twice.
    let company = condition.writers();
    condition.leave(jobs.len(), bytes, writes);
    if let Ok(committed) = &committed {
        condition.committed(jobs.len());
        if committed.has_changes {
            condition.changed();
        }
    }
    let reply = committed.as_ref().map(|_| ()).map_err(Error::clone);
    let Committed { changes, took, long_texts, .. } = committed.unwrap_or_default();
    let mut long = long_texts.into_iter().peekable();
    let mut done = Done {
        changes,
        company: Company::after(company, took, Instant::now()),
        long_texts: Vec::new(),
    };
    for (number, job) in jobs.into_iter().enumerate() {
        match long.next_if(|(at, _)| *at == number) {
            Some((_, document)) => done.long_texts.push(LongText { document, job: Some(job) }),
            None => job.reply(reply.clone()),
        }
    }
    done
}

fn run(
    batch: &mut Batch<'_>,
    jobs: &mut [Box<dyn Job>],
    merge_pages: usize,
) -> std::result::Result<Committed, Broken> {
    execute(batch.connection, "BEGIN IMMEDIATE")?;
    let (mut has_changes, mut long_texts) = (false, Vec::new());
    for (number, job) in jobs.iter_mut().enumerate() {
        let n_words = batch.words.len();
        has_changes |= run_one(batch, job.as_mut())?;
        let written = batch.words[n_words..].last();
        if let Some((document, Some(words))) = written
            && pieces::n_pieces(&words.body) > 1
        {
            long_texts.push((number, *document));
        }
    }
    lexical::store(batch.connection, &batch.words).map_err(broken)?;
    if merge_pages > 0 {
        lexical::merge(batch.connection, merge_pages).map_err(|error| broken(error.into()))?;
    }
    let start = Instant::now();
    execute(batch.connection, "COMMIT")?;
    let took = start.elapsed();
    Ok(Committed { has_changes, changes: batch.words.len(), took, long_texts })
}

/// Runs a job in a savepoint; says whether it has changed anything.
fn run_one(batch: &mut Batch<'_>, job: &mut dyn Job) -> std::result::Result<bool, Broken> {
    execute(batch.connection, "SAVEPOINT job")?;
    let (n_words, n_changes) = (batch.words.len(), batch.connection.total_changes());
    batch.began = Instant::now();
    let ran = catch_unwind(AssertUnwindSafe(|| job.run(batch))).unwrap_or_else(|_| {
        let error = Error::internal("a write panicked; it is undone");
        tracing::error!("{error}");
        Err((Reach::Job, error))
    });
    let has_changes = match ran {
        Ok(()) => batch.connection.total_changes() > n_changes,
        Err((Reach::Job, _)) => {
            batch.words.truncate(n_words);
            execute(batch.connection, "ROLLBACK TO job")?;
            false
        }
        Err(broken) => return Err(broken),
    };
    execute(batch.connection, "RELEASE job")?;
    Ok(has_changes)
}

fn execute(connection: &Connection, sql: &str) -> std::result::Result<(), Broken> {
    let run = || connection.prepare_cached(sql)?.execute([]).map(drop);
    run().map_err(|error| (at_least_batch(reach(&error)), explain(&error)))
}

fn broken(fault: Fault) -> Broken {
    (at_least_batch(fault.reach()), fault.into_error())
}

fn at_least_batch(reach: Reach) -> Reach {
    if reach == Reach::Job { Reach::Batch } else { reach }
}

/// Ends a transaction that failed; SQLite may have ended it already.
fn undo(connection: &Connection) {
    if !connection.is_autocommit()
        && let Err(error) = connection.execute_batch("ROLLBACK")
    {
        tracing::error!(%error, "cannot roll back");
    }
}
