//! Project automation: `cargo xtask test`, `cargo xtask fuzz`, `cargo xtask bench`.
//!
//! Only dispatches. What a test run consists of is in `steps`, how each part works in the file
//! named after it.
#![expect(clippy::print_stdout, reason = "a command-line tool talks on stdout")]

mod bench;
mod checks;
mod clients;
mod conformance;
mod everything;
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

use anyhow::{Result, bail};

use crate::workspace::Workspace;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [--list] [--only STEP]... [--skip STEP]...
                    set up what is missing, then run every check
  bench [--help]    measure our server against bare hyper, axum and rmcp
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
        Some((command, rest)) if command == "bench" => bench::run(rest).map(|()| ExitCode::SUCCESS),
        None => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        Some((command, _)) => bail!("there is no command {command:?}\n\n{USAGE}"),
    }
}
