//! Fuzzing on stable Rust: builds the targets of `fuzz/` with coverage counters and runs libFuzzer.
//!
//! What must hold is in `fuzz/src`; here is only how to build and run it. Nothing has to be installed
//! beside a C++ compiler, which libFuzzer is built with. New inputs are kept under `target/fuzz` and
//! used again by the next run; an input that fails is kept there too, and named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::process::{self, Echo, Finished};
use crate::tally::Tally;
use crate::workspace::Workspace;

const TARGETS: [&str; 5] = ["envelope", "accept", "routing", "sse", "chunks"];

/// Compiles coverage counters and the operands of comparisons into everything, as cargo-fuzz does
/// when no sanitizer is asked for: that part needs no nightly compiler.
const COVERAGE: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Ccodegen-units=1",
];

/// A short run, as part of the test run.
pub(crate) fn briefly(_: &Workspace) -> Result<Tally> {
    run(10)?;
    Ok(Tally { passed: TARGETS.len(), ..Tally::default() })
}

/// Runs every target side by side for so many seconds; an input that fails is an error.
pub(crate) fn run(seconds_per_target: u64) -> Result<()> {
    let workspace = Workspace::locate();
    let binaries = build(&workspace)?;
    let failed: Vec<String> = thread::scope(|scope| {
        let runs = TARGETS.map(|target| {
            let (workspace, binaries) = (&workspace, &binaries);
            scope.spawn(move || (target, fuzz(workspace, binaries, target, seconds_per_target)))
        });
        let ended = runs.map(|run| run.join().expect("fuzz returns its errors"));
        ended.into_iter().filter_map(|(target, ended)| report(target, ended)).collect()
    });
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// Builds the targets; gives the directory they are in.
fn build(workspace: &Workspace) -> Result<PathBuf> {
    // With an explicit triple, build scripts and macros are built without the counters.
    let host = host_triple()?;
    let target_dir = workspace.root().join("target/fuzz");
    let mut cargo =
        workspace.cargo(["build", "--release", "--locked", "--bins", "--manifest-path"]);
    cargo.arg(workspace.root().join("fuzz/Cargo.toml"));
    cargo.args(["--target", &host, "--target-dir"]).arg(&target_dir);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", COVERAGE.join("\x1f"));
    process::run(&mut cargo).context("building the fuzz targets needs a C++ compiler (g++)")?;
    Ok(target_dir.join(host).join("release"))
}

fn fuzz(workspace: &Workspace, binaries: &Path, target: &str, seconds: u64) -> Result<Finished> {
    let root = workspace.root();
    let corpus = root.join("target/fuzz/corpus").join(target);
    let failures = root.join("target/fuzz/failures").join(target);
    for directory in [&corpus, &failures] {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
    }
    let mut command = Command::new(binaries.join(target));
    command
        .arg(format!("-dict={}", root.join("fuzz/words").join(target).display()) + ".dict")
        .arg(format!("-artifact_prefix={}/", failures.display()))
        .arg(format!("-max_total_time={seconds}"))
        // Without the value profile rare comparisons are never met (measured: 22 million runs).
        .args(["-use_value_profile=1", "-max_len=1024", "-timeout=2", "-rss_limit_mb=1024"])
        .args(["-print_final_stats=1"])
        .env("RUST_BACKTRACE", "0")
        .arg(&corpus)
        .arg(root.join("fuzz/seeds").join(target));
    process::capture(&mut command, Echo::Hide, Duration::from_secs(seconds + 60))
}

/// Prints how a target fared; gives what to say if it failed.
fn report(target: &str, ended: Result<Finished>) -> Option<String> {
    match ended.and_then(|finished| judge(&finished)) {
        Ok(runs) => {
            println!("fuzz {target}: {runs} inputs, none failed");
            None
        }
        Err(error) => Some(format!("fuzz {target}: {error:#}")),
    }
}

/// How many inputs were tried; an error if one failed, or if the counters are not live.
fn judge(finished: &Finished) -> Result<u64> {
    let text = &finished.text;
    if !finished.status.success() {
        bail!("{}\n{}", finished.status, complaint(text));
    }
    ensure!(text.contains(" NEW ") || text.contains("INITED cov: "), "no coverage was seen");
    let runs = text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let runs = runs.ok_or_else(|| anyhow!("libFuzzer printed no statistics"))?;
    runs.trim().parse().context("reading libFuzzer's statistics")
}

/// What libFuzzer wrote from the failure on: the panic, and the file that holds the input.
fn complaint(text: &str) -> String {
    let start = ["panicked at", "ERROR: "].iter().filter_map(|mark| text.find(mark)).min();
    let lines = text[start.unwrap_or(0)..].lines().take(30);
    let lines = lines.map(|line| line.chars().take(400).collect::<String>());
    lines.collect::<Vec<String>>().join("\n")
}

fn host_triple() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8(output.stdout).context("reading rustc -vV")?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn check(code: i32, text: &str) -> Result<u64> {
        judge(&Finished { status: ExitStatus::from_raw(code << 8), text: text.to_owned() })
    }

    #[test]
    fn a_run_is_judged_by_its_exit_code_and_statistics() {
        let text = "#2 INITED cov: 12 ft: 3\nstat::number_of_executed_units: 1234\n";
        assert_eq!(check(0, text).unwrap(), 1234);
        let failed = "#9 NEW cov: 13\nthread panicked at src/a.rs:1\nleft: 1\n";
        let error = check(77, failed).unwrap_err().to_string();
        assert_eq!(error, "exit status: 77\npanicked at src/a.rs:1\nleft: 1");
        assert!(check(0, "#2 INITED cov: 12 ft: 3\n").is_err());
        assert!(check(0, "stat::number_of_executed_units: 1234\n").is_err(), "no coverage");
    }
}
