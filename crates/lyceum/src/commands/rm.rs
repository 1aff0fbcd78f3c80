//! `lyceum rm`: deletes documents, or takes all their texts away for good.

use std::process::ExitCode;

use lyceum_kb::store::Store;
use lyceum_kb::{Change, Code, DocPath, Error, Write};

use crate::cli::RmOpts;
use crate::config::Environment;
use crate::library;

pub(crate) fn run(opts: RmOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    let paths = opts.paths.iter().map(|path| DocPath::parse(path));
    let paths = paths.collect::<lyceum_kb::Result<Vec<DocPath>>>()?;
    library::with_store(opts.place, environment, async |store| {
        let mut code = ExitCode::SUCCESS;
        for path in &paths {
            let removed = match opts.purge {
                true => store.purge(path, library::operator("purge")).await.map(|_| "purged"),
                false => delete(store, path).await.map(|()| "deleted"),
            };
            match removed {
                Ok(done) => eprintln!("{done} {path}"),
                Err(error) => {
                    code = ExitCode::FAILURE;
                    eprintln!("{path}: {error}{}", hint(&error, opts.purge));
                }
            }
        }
        Ok(code)
    })
}

async fn delete(store: &dyn Store, path: &DocPath) -> lyceum_kb::Result<()> {
    let write = Write {
        path: path.clone(),
        change: Change::Delete,
        expected_revision: None,
        idempotency: None,
        by: library::operator("rm"),
    };
    store.write(write).await.map(drop)
}

/// What else may help.
fn hint(error: &Error, purging: bool) -> &'static str {
    match (error.code(), purging) {
        (Code::Internal, false) => "; --purge removes a document that is damaged",
        (Code::Internal, true) => {
            "; if the index of words is damaged, run `lyceum reindex --words`"
        }
        _ => "",
    }
}
