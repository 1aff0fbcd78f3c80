//! `lyceum get`: a document as it is, or as it was.

use std::process::ExitCode;

use lyceum_kb::{DocPath, Kb};

use crate::cli::GetOpts;
use crate::config::Environment;
use crate::knowledge::time;
use crate::library;
use crate::stdout::print;
use crate::terminal;

pub(crate) fn run(opts: GetOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    library::with(opts.place.clone(), environment, async |kb| get(&kb, &opts).await)
}

async fn get(kb: &Kb, opts: &GetOpts) -> anyhow::Result<ExitCode> {
    let path = DocPath::parse(&opts.path)?;
    if opts.history {
        for revision in kb.history(&path, None, opts.limit.into()).await? {
            let at = time::written(revision.at);
            print(format_args!(
                "{:>6}  {at}  {:<9}  {:<16}  {} characters",
                revision.revision,
                revision.action,
                terminal::one_line(&revision.author),
                revision.length
            ))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let document = match opts.revision {
        Some(revision) => kb.revision(&path, revision).await?,
        None => kb.get(&path).await?,
    };
    print(document.body.strip_suffix('\n').unwrap_or(&document.body))?;
    Ok(ExitCode::SUCCESS)
}
