//! Measures MCP servers over HTTP against bare hyper and compares ours with its budgets.
//!
//! The server runs on one core, this process and its load on another. Standard output carries the
//! tables, standard error the progress. The servers are built by `cargo xtask bench`, not here.

mod answer;
mod case;
mod cli;
mod client;
mod cpu;
mod echo;
mod gateway;
mod hold;
mod instructions;
mod kb;
mod load;
mod memory;
mod pin;
mod procfs;
mod profile;
mod programs;
mod report;
mod server;
mod syscalls;
mod tool;
mod verdict;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    if let Some(Command::Hold(hold)) = &cli.command {
        hold::run(hold)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(Command::Peers) = &cli.command {
        gateway::print_peers(&cli);
        return Ok(ExitCode::SUCCESS);
    }
    pin::to_load_core()?;
    if let Some(Command::Profile(profile)) = &cli.command {
        profile::run(profile, &cli.programs())?;
        return Ok(ExitCode::SUCCESS);
    }
    let parts = [report::run(&cli)?, gateway::run(&cli)?, kb::run(&cli)?];
    anyhow::ensure!(parts.iter().any(Option::is_some), "no case has such a name");
    let missed = parts.contains(&Some(true));
    Ok(if missed && !cli.report_only { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
