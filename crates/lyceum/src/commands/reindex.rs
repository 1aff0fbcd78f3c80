//! `lyceum reindex`: gives vectors to the documents that lack them, and waits until they have them. With `--words` the
//! index of words is made again before.

use std::cell::OnceCell;
use std::process::ExitCode;

use anyhow::Context;
use lyceum_kb::store::sqlite;
use lyceum_kb::{Indexer, Kb};
use tokio::time::{Duration, sleep};

use crate::cli::ReindexOpts;
use crate::config::Environment;
use crate::library;
use crate::progress::Progress;

/// How often is looked how far it is.
const GLANCE: Duration = Duration::from_millis(100);

pub(crate) fn run(opts: ReindexOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    if opts.words {
        index_words(&opts, environment)?;
    }
    library::with(opts.place, environment, async |kb| {
        kb.reindex_missing().await?;
        index(&kb).await
    })
}

/// Makes the index of words again.
fn index_words(opts: &ReindexOpts, environment: &Environment) -> anyhow::Result<()> {
    let database = opts.place.clone().config(environment)?.database();
    let shown = OnceCell::new();
    let n_documents = sqlite::rebuild_words(&database, |done, of| {
        shown.get_or_init(|| Progress::new("indexed", of)).set(done);
    })
    .context("the words cannot be indexed")?;
    drop(shown);
    eprintln!("indexed the words of {n_documents} documents");
    Ok(())
}

/// Embeds what is waiting. A server that runs beside us helps; nothing is embedded twice.
pub(super) async fn index(kb: &Kb) -> anyhow::Result<ExitCode> {
    let waiting = kb.store().backlog().await?.waiting;
    let indexer = Indexer::start(kb.clone())?;
    let progress = Progress::new("embedded", waiting);
    let mut backlog = kb.store().backlog().await?;
    while backlog.waiting > 0 {
        progress.set(waiting.saturating_sub(backlog.waiting));
        sleep(GLANCE).await;
        backlog = kb.store().backlog().await?;
    }
    drop((progress, indexer));
    eprintln!("embedded {waiting} documents");
    if backlog.dead > 0 {
        eprintln!("{} documents have no vectors; their vector_error says why", backlog.dead);
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
