//! The commands, one file each.

use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::config::Environment;

mod backup;
mod check;
mod config;
mod convert;
mod doctor;
mod explain;
mod export;
mod get;
mod import;
mod import_config;
mod keys;
mod ls;
mod put;
mod reindex;
mod rm;
mod search;
mod serve;
mod stdio;
mod upstreams;

/// Runs the command the user asked for; serving needs no asking.
pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let environment = Environment::of_process();
    match cli.command {
        None => serve::run(cli.serve, &environment),
        Some(Command::Serve(opts)) => serve::run(*opts, &environment),
        Some(Command::Stdio(opts)) => stdio::run(opts, &environment),
        Some(Command::Explain(opts)) => explain::run(&opts),
        Some(Command::Doctor(opts)) => doctor::run(&opts),
        Some(Command::Keys(opts)) => keys::run(opts, &environment),
        Some(Command::Import(opts)) => import::run(opts, &environment),
        Some(Command::ImportConfig(opts)) => import_config::run(&opts),
        Some(Command::Export(opts)) => export::run(opts, &environment),
        Some(Command::Ls(opts)) => ls::run(opts, &environment),
        Some(Command::Put(opts)) => put::run(opts, &environment),
        Some(Command::Rm(opts)) => rm::run(opts, &environment),
        Some(Command::Check(opts)) => check::run(opts, &environment),
        Some(Command::Backup(opts)) => backup::backup(opts, &environment),
        Some(Command::Restore(opts)) => backup::restore(opts, &environment),
        Some(Command::Search(opts)) => search::run(opts, &environment),
        Some(Command::Get(opts)) => get::run(opts, &environment),
        Some(Command::Reindex(opts)) => reindex::run(opts, &environment),
        Some(Command::Upstreams(opts)) => upstreams::run(opts, &environment),
        Some(Command::Config(opts)) => config::run(opts, &environment),
        Some(Command::Convert(opts)) => convert::run(&opts),
    }
}
