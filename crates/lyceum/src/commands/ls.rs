//! `lyceum ls`: the paths of documents.

use std::process::ExitCode;

use lyceum_kb::store::{ListPage, Store};
use lyceum_kb::{Meta, Prefix};

use crate::cli::LsOpts;
use crate::config::Environment;
use crate::knowledge::time;
use crate::library;
use crate::stdout::print;

/// Documents read at a time.
const PAGE: usize = 500;

pub(crate) fn run(opts: LsOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    let LsOpts { place, prefix, long } = opts;
    library::with_store(place, environment, async |store| list(store, &prefix, long).await)
}

async fn list(store: &dyn Store, prefix: &str, long: bool) -> anyhow::Result<ExitCode> {
    let prefix = Prefix::parse(prefix)?;
    let mut page = ListPage { prefix, limit: PAGE, ..ListPage::default() };
    loop {
        let documents = store.list(&page).await?;
        for meta in &documents {
            match long {
                true => print(line(meta))?,
                false => print(&meta.path)?,
            }
        }
        match documents.last() {
            Some(last) if documents.len() == PAGE => page.after = Some(last.path.to_string()),
            _ => return Ok(ExitCode::SUCCESS),
        }
    }
}

fn line(meta: &Meta) -> String {
    let (at, vectors) = (time::written(meta.updated_at), meta.vector_status.as_str());
    format!("{:>6}  {at}  {vectors:<8}  {}", meta.revision, meta.path)
}
