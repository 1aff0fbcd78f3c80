//! The `lyceum` binary: reads the command line, runs one command, reports what went wrong.

mod app;
mod background;
mod behind;
mod cli;
mod commands;
mod config;
mod conversion;
mod doctor;
mod embeddings;
mod files;
mod keys;
mod knowledge;
mod knox;
mod library;
mod logging;
mod monitoring;
mod observed;
mod open_files;
mod progress;
mod rest;
mod stdout;
mod stop;
mod terminal;
mod welcome;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use crate::config::ConfigError;

/// The configuration is wrong (`EX_CONFIG` of sysexits).
const EXIT_CONFIG: u8 = 78;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match commands::run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            terminal::say(format_args!("lyceum: {error:#}"));
            ExitCode::from(exit_code(&error))
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<ConfigError>() { EXIT_CONFIG } else { 1 }
}
