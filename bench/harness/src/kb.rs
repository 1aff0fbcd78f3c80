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
mod start;
mod words;

use std::time::Duration;

use anyhow::Context;

use self::library::Library;
use self::operation::{OPERATIONS, WRITERS_RATIO};
use self::outcome::{Outcome, Row};
use crate::cli::{Cli, Part};
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
    let server = library.open()?;
    let before = procfs::load_average()?;
    let mut one_writer = None;
    for operation in OPERATIONS.iter().filter(|operation| cli.selects(operation.name)) {
        for (clients, budget) in operation.clients {
            eprintln!("kb: {documents} documents: {}, {clients} clients", operation.name);
            let outcome = drive::run(operation, *clients, &server, documents, cli.kb_time())?;
            let row = Row::new(operation.name, documents, *clients, &outcome, *budget);
            rows.push(row);
            if operation.writes {
                rows.extend(ratio(operation.name, documents, *clients, &outcome, &mut one_writer));
                library::wait_until_indexed(server.port(), SETTLED)?;
            }
        }
    }
    let after = procfs::load_average()?;
    remarks.push(format!("{documents} documents: load average {before} before, {after} after"));
    library.close(server)
}

/// What many writers reach together, compared with one in the same run.
fn ratio(
    name: &'static str,
    documents: usize,
    clients: usize,
    outcome: &Outcome,
    one_writer: &mut Option<f64>,
) -> Option<Row> {
    if clients == 1 {
        *one_writer = Some(outcome.rate());
        return None;
    }
    let ratio = outcome.rate() / one_writer.take()?;
    Some(Row::ratio(name, documents, clients, ratio, WRITERS_RATIO))
}
