//! Project automation: `cargo xtask test`, `abuse`, `fuzz`, `bench`.
//!
//! Only dispatches. What a test run consists of is in `steps`, how each part works in the file
//! named after it.
#![expect(clippy::print_stdout, reason = "a command-line tool talks on stdout")]

mod abuse;
mod bench;
mod checks;
mod clients;
mod conformance;
mod everything;
mod fuzz;
mod gateway;
mod nginx;
mod process;
mod proxy;
mod steps;
mod stopwatch;
mod tally;
mod tidy;
mod tools;
mod versions;
mod workspace;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [--list] [--only STEP]... [--skip STEP]...
                    set up what is missing, then run every check
  abuse [--quick] [--only CASE]... [--list] [--seconds N] [--program PATH] [--together]
                    attack a server and measure what that costs an innocent bystander: every case
                    alone, the hunt over all arguments, then all cases at once for a minute
  fuzz [SECONDS]    run every fuzz target side by side, for a minute unless told
  bench [--help]    measure our server against bare hyper, axum and rmcp, the gateway beside others,
                    and the knowledge base
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<ExitCode> {
    let workspace = Workspace::locate();
    match args.split_first() {
        Some((command, rest)) if command == "test" => steps::run(&workspace, rest),
        Some((command, rest)) if command == "fuzz" => {
            let seconds = rest.first().map_or(Ok(60), |seconds| seconds.parse());
            fuzz::run(seconds.context("usage: cargo xtask fuzz [SECONDS]")?)
                .map(|()| ExitCode::SUCCESS)
        }
        Some((command, rest)) if command == "abuse" => abuse::run(&workspace, rest),
        Some((command, rest)) if command == "bench" => bench::run(rest).map(|()| ExitCode::SUCCESS),
        Some((command, _)) if !["help", "--help", "-h"].contains(&command.as_str()) => {
            bail!("there is no command {command:?}\n\n{USAGE}")
        }
        _ => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
    }
}
