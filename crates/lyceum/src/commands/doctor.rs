//! `lyceum doctor URL`: examines a server and prints what to fix.

use std::io::Read;
use std::process::ExitCode;

use anyhow::Context;
use tokio::time::Duration;

use crate::cli::DoctorOpts;
use crate::doctor;
use crate::stdout::print;

pub(crate) fn run(opts: &DoctorOpts) -> anyhow::Result<ExitCode> {
    let token = token(opts.token.as_deref())?;
    let patience = Duration::from_secs(opts.patience);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(doctor::examine(&opts.url, token.as_deref(), patience))?;
    if opts.json {
        print(serde_json::to_string_pretty(&report)?)?;
    } else {
        print(&report)?;
    }
    Ok(if report.is_healthy() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A token on the command line is seen by everyone on the machine; `-` keeps it out of sight.
fn token(token: Option<&str>) -> anyhow::Result<Option<String>> {
    if token != Some("-") {
        return Ok(token.map(str::to_owned));
    }
    let mut text = String::new();
    std::io::stdin().take(64 << 10).read_to_string(&mut text).context("reading the token")?;
    Ok(Some(text.trim().to_owned()))
}
