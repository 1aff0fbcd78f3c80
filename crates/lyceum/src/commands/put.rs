//! `lyceum put`: one document, from a file or from standard input.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use lyceum_kb::{Change, DocPath, Fields, Write};

use crate::cli::PutOpts;
use crate::config::Environment;
use crate::library;

pub(crate) fn run(opts: PutOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    let path = DocPath::parse(&opts.path)?;
    let limit = opts.place.clone().config(environment)?.policy.max_body;
    let body = text(opts.file.as_deref(), limit)?;
    library::with_store(opts.place, environment, async |store| {
        let fields = Fields { body: Some(body), ..Fields::default() };
        let written = store
            .write(Write {
                path,
                change: Change::Upsert(fields),
                expected_revision: None,
                idempotency: None,
                by: library::operator("put"),
            })
            .await?;
        eprintln!("{} {}, revision {}", written.status.as_str(), written.path, written.revision);
        Ok(ExitCode::SUCCESS)
    })
}

/// The text, of which no more than can be stored is read.
fn text(file: Option<&Path>, limit: usize) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let most = limit as u64 + 1;
    match file.filter(|file| *file != Path::new("-")) {
        Some(file) => std::fs::File::open(file)
            .and_then(|open| open.take(most).read_to_end(&mut bytes))
            .with_context(|| format!("cannot read {}", file.display()))?,
        None => std::io::stdin()
            .lock()
            .take(most)
            .read_to_end(&mut bytes)
            .context("cannot read standard input")?,
    };
    String::from_utf8(bytes).context("the text is not UTF-8; `lyceum import` converts files")
}
