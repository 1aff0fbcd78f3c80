//! `lyceum import`: files become documents; what is in the knowledge base already is left alone.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use lyceum_kb::{Change, DocPath, Error, Kb, Status, Write};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, spawn_blocking};

use super::reindex;
use crate::cli::ImportOpts;
use crate::config::Environment;
use crate::conversion::{self, Page};
use crate::files::{Listing, Record, read_lines};
use crate::library;
use crate::progress::Progress;
use crate::stdout::print;
use crate::terminal::{self, one_line};

/// Writes under way at a time, so that they share commits.
const IN_FLIGHT: usize = 64;
/// Documents read ahead of the writes.
const AHEAD: usize = 64;
/// Files read and converted at a time; some kinds take a process with memory of its own.
const CONVERTING: usize = 4;

/// What came of the files.
#[derive(Debug, Default)]
struct Tally {
    created: usize,
    updated: usize,
    unchanged: usize,
    failed: usize,
}

/// A document to write, or why there is none.
type Item = Result<Record, String>;

pub(crate) fn run(opts: ImportOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    if opts.dry_run {
        return preview(&opts);
    }
    library::with(opts.place.clone(), environment, async |kb| {
        let tally = import(&kb, Arc::new(opts)).await?;
        eprintln!(
            "{} created, {} updated, {} unchanged, {} failed",
            tally.created, tally.updated, tally.unchanged, tally.failed
        );
        let indexed = reindex::index(&kb).await?;
        Ok(if tally.failed > 0 { ExitCode::FAILURE } else { indexed })
    })
}

/// Prints what would be imported, and as what.
fn preview(opts: &ImportOpts) -> anyhow::Result<ExitCode> {
    let listing = Listing::of(&opts.source)?;
    for file in &listing.files {
        print(one_line(placed(&opts.under, file.path.as_str())?.as_str()))?;
    }
    for skipped in &listing.skipped {
        terminal::say(format_args!("skipped {}: {}", skipped.file, skipped.why));
    }
    Ok(ExitCode::SUCCESS)
}

async fn import(kb: &Kb, opts: Arc<ImportOpts>) -> anyhow::Result<Tally> {
    let (sender, mut items) = mpsc::channel::<Item>(AHEAD);
    let (length, total) = oneshot::channel();
    let reader = tokio::spawn(read(opts.source.clone(), length, sender));
    let progress = Progress::new("imported", total.await.unwrap_or_default());
    let mut tally = Tally::default();
    let mut writes = JoinSet::new();
    let mut done = 0;
    while let Some(item) = items.recv().await {
        match item.and_then(|record| write(record, &opts).map_err(|error| error.to_string())) {
            Ok(write) => {
                let kb = kb.clone();
                writes.spawn(async move { (write.path.clone(), kb.write(write).await) });
            }
            Err(why) => tally.fail(&progress, &why),
        }
        if writes.len() >= IN_FLIGHT
            && let Some(written) = writes.join_next().await
        {
            tally.count(&progress, written?);
        }
        done += 1;
        progress.set(done);
    }
    while let Some(written) = writes.join_next().await {
        tally.count(&progress, written?);
    }
    reader.await??;
    Ok(tally)
}

/// Reads everything at `source`, first saying how much there is.
// A closed channel means that the import was given up, which whoever did so reports.
async fn read(
    source: PathBuf,
    length: oneshot::Sender<usize>,
    sender: mpsc::Sender<Item>,
) -> anyhow::Result<()> {
    if source.extension().is_some_and(|extension| extension == "jsonl") {
        return spawn_blocking(move || read_jsonl(&source, length, &sender)).await?;
    }
    let listing = Arc::new(spawn_blocking(move || Listing::of(&source)).await??);
    let _ = length.send(listing.files.len() + listing.skipped.len());
    for skipped in &listing.skipped {
        let _ = sender.send(Err(format!("{}: {}", skipped.file, skipped.why))).await;
    }
    let mut converting = JoinSet::new();
    for n in 0..listing.files.len() {
        if converting.len() >= CONVERTING {
            converting.join_next().await.transpose()?;
        }
        let (listing, sender) = (Arc::clone(&listing), sender.clone());
        converting.spawn(async move {
            let record = document(listing, n).await.map_err(|error| format!("{error:#}"));
            let _ = sender.send(record).await;
        });
    }
    while converting.join_next().await.transpose()?.is_some() {}
    Ok(())
}

fn read_jsonl(
    source: &Path,
    length: oneshot::Sender<usize>,
    sender: &mpsc::Sender<Item>,
) -> anyhow::Result<()> {
    let open = || File::open(source).with_context(|| format!("cannot read {}", source.display()));
    let mut n_lines = 0;
    read_lines(BufReader::new(open()?), |_| {
        n_lines += 1;
        Ok(())
    })?;
    let _ = length.send(n_lines);
    read_lines(BufReader::new(open()?), |record| {
        let _ = sender.blocking_send(Ok(record));
        Ok(())
    })
}

/// A listed file as a document.
async fn document(listing: Arc<Listing>, n: usize) -> anyhow::Result<Record> {
    let reading = Arc::clone(&listing);
    let bytes = spawn_blocking(move || reading.read(&reading.files[n])).await??;
    let file = &listing.files[n];
    let name = Some(file.path.name().to_owned());
    let converted = conversion::convert(Page { bytes: bytes.into(), name, ..Page::default() });
    let converted =
        converted.await.with_context(|| format!("cannot read {}", file.relative.display()))?;
    Ok(file.record(converted))
}

fn write(record: Record, opts: &ImportOpts) -> lyceum_kb::Result<Write> {
    let Record { path, mut fields } = record;
    if !opts.tag.is_empty() {
        let tags = fields.tags.get_or_insert_default();
        tags.extend(opts.tag.iter().filter(|tag| !tags.contains(tag)).cloned().collect::<Vec<_>>());
    }
    Ok(Write {
        path: placed(&opts.under, path.as_str())?,
        change: Change::Upsert(fields),
        expected_revision: None,
        idempotency: None,
        by: library::operator("import"),
    })
}

/// Where a file's document goes.
fn placed(under: &str, path: &str) -> lyceum_kb::Result<DocPath> {
    match under.trim_matches('/') {
        "" => DocPath::parse(path),
        under => DocPath::parse(&format!("{under}/{path}")),
    }
}

impl Tally {
    fn count(
        &mut self,
        progress: &Progress,
        (path, written): (DocPath, lyceum_kb::Result<lyceum_kb::Written>),
    ) {
        match written.map(|written| written.status) {
            Ok(Status::Created) => self.created += 1,
            Ok(Status::Unchanged) => self.unchanged += 1,
            Ok(_) => self.updated += 1,
            Err(error) => self.fail(progress, &message(&path, &error)),
        }
    }

    fn fail(&mut self, progress: &Progress, why: &str) {
        self.failed += 1;
        progress.say(&format!("not imported: {why}"));
    }
}

fn message(path: &DocPath, error: &Error) -> String {
    format!("{path}: {}", error.message())
}
