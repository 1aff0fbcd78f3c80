//! `lyceum backup` and `lyceum restore`: the whole knowledge base as one file.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::{Context, ensure};
use lyceum_kb::store::{ApiKey, sqlite};

use crate::cli::{BackupOpts, RestoreOpts};
use crate::config::Environment;
use crate::library;
use crate::progress::Progress;

pub(crate) fn backup(opts: BackupOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    let config = opts.place.config(environment)?;
    let database = config.database();
    ensure!(database.exists(), "there is no knowledge base at {}", database.display());
    let store = library::sqlite(&config)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shown = OnceLock::new();
    let report = move |progress: sqlite::Progress| {
        let shown = shown.get_or_init(|| Progress::new("copied", progress.pages));
        shown.set(progress.copied_pages);
    };
    runtime.block_on(store.backup(&opts.target, report))?;
    eprintln!("{} is complete", opts.target.display());
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn restore(opts: RestoreOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    let config = opts.place.config(environment)?;
    let database = config.database();
    ensure!(
        opts.replace || !database.exists(),
        "there is a knowledge base at {}; replace it with --replace",
        database.display()
    );
    let restored = sqlite::restore(&opts.source, &database)
        .with_context(|| format!("cannot restore {}", opts.source.display()))?;
    eprintln!("restored {} from {}", database.display(), opts.source.display());
    eprint!("{}", about_keys(&restored));
    Ok(ExitCode::SUCCESS)
}

/// What an operator should know of the keys after a restore, a line each.
fn about_keys(restored: &sqlite::Restored) -> String {
    let mut text = String::new();
    let mut tell = |keys: &[ApiKey], what: &str| {
        for ApiKey { id, name, .. } in keys {
            let _ = writeln!(text, "key {name} ({id}) {what}");
        }
    };
    tell(&restored.keys_kept_revoked, "stays revoked");
    tell(&restored.keys_back, "is valid now and was not before; lyceum keys revoke ends it");
    tell(&restored.keys_gone, "is not in the backup and no longer valid");
    if let Some(why) = &restored.keys_unknown {
        let _ = writeln!(
            text,
            "the keys of the old knowledge base could not be read, so revocations since the backup are lost: {why}"
        );
    }
    text
}
