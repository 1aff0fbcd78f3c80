//! The knowledge base under load: `lyceum serve` with many documents, asked over MCP as agents ask it.
//!
//! Prepares the documents (`library`), then measures every row of `operation` and prints one table. What the
//! transport itself costs is measured elsewhere.

mod corpus;
mod drive;
mod library;
mod operation;
mod outcome;
mod request;
mod rng;
mod slow_disk;
mod start;
mod words;

use std::time::Duration;

use anyhow::Context;

use self::library::Library;
use self::operation::{FSYNC, MOST_CLIENTS, OPERATIONS, Operation, WRITERS_RATIO};
use self::outcome::Row;
use crate::cli::{Cli, Part};
use crate::server::Server;
use crate::{procfs, report};

/// Between two operations, so that what the first left to do is done.
const SETTLED: Duration = Duration::from_secs(60);

/// Measures, prints, and says whether a budget was missed; `None` when nothing of this was asked for.
pub(crate) fn run(cli: &Cli) -> anyhow::Result<Option<bool>> {
    let named = OPERATIONS.iter().map(|operation| operation.name).chain([start::NAME]);
    if !cli.wants(Part::Kb) || !named.into_iter().any(|name| cli.selects(name)) {
        return Ok(None);
    }
    let mut rows = vec![];
    let mut remarks = vec![];
    for documents in cli.documents() {
        let measured = measure(cli, documents, &mut rows, &mut remarks);
        measured.with_context(|| format!("the knowledge base with {documents} documents"))?;
    }
    let table = std::iter::once(Row::columns()).chain(rows.iter().map(Row::cells));
    report::print_table(&table.collect::<Vec<_>>());
    for remark in remarks {
        println!("- {remark}");
    }
    Ok(Some(rows.iter().any(Row::is_over)))
}

fn measure(
    cli: &Cli,
    documents: usize,
    rows: &mut Vec<Row>,
    remarks: &mut Vec<String>,
) -> anyhow::Result<()> {
    let library = Library::prepare(cli, documents, remarks)?;
    if cli.selects(start::NAME) {
        rows.push(start::measure(&library)?);
    }
    let before = procfs::load_average()?;
    let plain = library.open()?;
    let chosen = || OPERATIONS.iter().filter(|operation| cli.selects(operation.name));
    for operation in chosen() {
        drive_all(cli, &plain, Disk::AsItIs, operation, documents, rows)?;
    }
    library.close(plain)?;
    if chosen().any(|operation| operation.writes) {
        match library.open_on_slow_disk(FSYNC) {
            Ok(slow) => {
                for operation in chosen().filter(|operation| operation.writes) {
                    drive_all(cli, &slow, Disk::Slow, operation, documents, rows)?;
                }
                library.close(slow)?;
            }
            Err(error) => remarks.push(format!("writers on a slow disk are not measured: {error}")),
        }
    }
    let after = procfs::load_average()?;
    remarks.push(format!("{documents} documents: load average {before} before, {after} after"));
    Ok(())
}

/// What the documents are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    AsItIs,
    /// Every fsync takes [`FSYNC`] longer.
    Slow,
}

/// Asks with every number of clients.
fn drive_all(
    cli: &Cli,
    server: &Server,
    disk: Disk,
    operation: &Operation,
    documents: usize,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let name = match disk {
        Disk::AsItIs => operation.name.to_owned(),
        Disk::Slow => format!("{}, fsync + {FSYNC:?}", operation.name),
    };
    let mut one_writer = None;
    for (clients, budget) in operation.clients {
        eprintln!("kb: {documents} documents: {name}, {clients} clients");
        // As many clients as a row can have, so that no two rows have the same.
        let first = rows.len() * MOST_CLIENTS;
        let ids = first..first + clients;
        let outcome = drive::run(operation, ids, server, documents, cli.kb_time())?;
        let budget = (documents <= operation.up_to).then_some(*budget);
        rows.push(Row::new(&name, documents, *clients, &outcome, budget));
        if operation.writes {
            if *clients == 1 {
                one_writer = Some(outcome.rate());
            } else if let Some(one) = one_writer {
                let least = (disk == Disk::Slow).then_some(WRITERS_RATIO);
                rows.push(Row::ratio(&name, documents, *clients, outcome.rate() / one, least));
            }
            library::wait_until_indexed(server.port(), SETTLED)?;
        }
    }
    Ok(())
}
