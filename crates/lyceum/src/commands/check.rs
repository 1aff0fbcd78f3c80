//! `lyceum check`: reads everything that is stored and says what is damaged.

use std::process::ExitCode;

use crate::cli::CheckOpts;
use crate::config::Environment;
use crate::library;
use crate::stdout::print;

pub(crate) fn run(opts: CheckOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    library::with_store(opts.place, environment, async |store| {
        let problems = store.check_integrity().await?;
        for problem in &problems {
            print(problem)?;
        }
        if problems.is_empty() {
            eprintln!("everything is as it was written");
            return Ok(ExitCode::SUCCESS);
        }
        eprintln!(
            "damaged; restore a backup, make the index of words again with `lyceum reindex --words`, \
             or remove a damaged document with `lyceum rm --purge`"
        );
        Ok(ExitCode::FAILURE)
    })
}
