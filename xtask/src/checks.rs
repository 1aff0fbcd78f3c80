//! The steps that are one or two cargo calls.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::everything;
use crate::process::{self, Echo, Finished};
use crate::tally::Tally;
use crate::tools;
use crate::workspace::Workspace;

/// Far above what the tests need; a hang must end the run with a message, not the CI job.
const TEST_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Tests named `release_…` measure or hammer, which takes optimized code; the others run in the
/// development profile, with overflow checks and debug assertions.
const RELEASE_TESTS: &str = "test(/(^|::)release_/)";

/// All failures in one run, and no line for a test that passed.
const TELLING: [&str; 3] = ["--no-fail-fast", "--status-level", "slow"];

/// Every set of features somebody may build a library with.
const FEATURES: &[(&str, &[&str])] = &[("lyceum-http", &["", "server", "client"])];

/// Workspaces of their own, so that what they depend on stays out of the product's lock file.
const SIDE_WORKSPACES: &[&str] = &["bench", "fuzz"];

pub(crate) fn fmt(workspace: &Workspace) -> Result<Tally> {
    process::run(&mut workspace.cargo(["fmt", "--all", "--check"]))?;
    for side in SIDE_WORKSPACES {
        let manifest = workspace.root().join(side).join("Cargo.toml");
        if manifest.exists() {
            let mut command = workspace.cargo(["fmt", "--all", "--check", "--manifest-path"]);
            process::run(command.arg(manifest))?;
        }
    }
    Ok(Tally::one())
}

pub(crate) fn clippy(workspace: &Workspace) -> Result<Tally> {
    let args = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    process::run(&mut workspace.cargo(args))?;
    Ok(Tally::one())
}

/// The lock files of the side workspaces follow ours. Of the registry only the index is read, so that it takes seconds
/// on a new machine, too.
pub(crate) fn locks(workspace: &Workspace) -> Result<Tally> {
    let mut tally = Tally::default();
    for side in SIDE_WORKSPACES {
        let manifest = format!("{side}/Cargo.toml");
        let follow = ["update", "--workspace", "--manifest-path", &manifest];
        match process::run(workspace.cargo(follow).arg("--locked")) {
            Ok(()) => tally.passed += 1,
            Err(error) => tally.fail(format!(
                "{error:#}; if {side}/Cargo.lock is out of date, run cargo {}",
                follow.join(" ")
            )),
        }
    }
    Ok(tally)
}

/// What is built later must not be found broken then: the benchmark compiles.
pub(crate) fn sides(workspace: &Workspace) -> Result<Tally> {
    let mut command = workspace.cargo(["clippy", "--locked", "--package", "lyceum-bench"]);
    command.arg("--manifest-path").arg(workspace.root().join("bench/Cargo.toml"));
    command.arg("--target-dir").arg(workspace.root().join("target/bench"));
    process::run(command.args(["--all-targets", "--", "-D", "warnings"]))?;
    Ok(Tally::one())
}

pub(crate) fn features(workspace: &Workspace) -> Result<Tally> {
    let mut tally = Tally::default();
    for (package, sets) in FEATURES {
        for set in *sets {
            let mut command = workspace.cargo(["clippy", "--no-default-features", "--features"]);
            command.args([set, "--package", package, "--", "-D", "warnings"]);
            match process::run(&mut command) {
                Ok(()) => tally.passed += 1,
                Err(error) => tally.fail(format!("{error:#}")),
            }
        }
    }
    Ok(tally)
}

pub(crate) fn doc(workspace: &Workspace) -> Result<Tally> {
    let mut command = workspace.cargo(["doc", "--workspace", "--no-deps"]);
    process::run(command.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Tally::one())
}

pub(crate) fn unit(workspace: &Workspace) -> Result<Tally> {
    let mut nextest = tools::nextest(workspace)?;
    nextest.args(["run", "--workspace", "-E", &format!("not {RELEASE_TESTS}")]).args(TELLING);
    let mut tally = judge(process::capture(&mut nextest, Echo::Show, TEST_LIMIT)?)?;
    let mut doctest = workspace.cargo(["test", "--doc", "--workspace", "--no-fail-fast"]);
    tally.absorb("doc", judge(process::capture(&mut doctest, Echo::Show, TEST_LIMIT)?)?);
    Ok(tally)
}

/// The tests that need optimized code. The packages are those of the release build, so that
/// nothing is compiled twice.
pub(crate) fn release(workspace: &Workspace) -> Result<Tally> {
    // The binary's disk fails by it.
    tools::ensure_installed("strace", &["--version"], "strace")?;
    let mut nextest = tools::nextest(workspace)?;
    nextest.args(["run", "--release", "-E", RELEASE_TESTS]).args(TELLING);
    nextest.args(everything::PACKAGES).args(["--test", "it"]);
    judge(process::capture(&mut nextest, Echo::Show, TEST_LIMIT)?)
}

/// Reads the counts out of what a test runner wrote and holds them against its exit code.
fn judge(finished: Finished) -> Result<Tally> {
    let mut tally = Tally { passed: passed(&finished.text), ..Tally::default() };
    tally.failed = failures(&finished.text);
    ensure!(
        finished.status.success() || !tally.failed.is_empty(),
        "the tests did not run: {}",
        finished.status
    );
    ensure!(
        finished.status.success() == tally.failed.is_empty(),
        "the test runner reports failures and succeeds: {:?}",
        tally.failed
    );
    Ok(tally)
}

/// Tests passed, from nextest's one summary line or rustdoc's line per crate.
fn passed(text: &str) -> usize {
    let summaries = text.lines().filter(|line| {
        line.trim_start().starts_with("Summary [") || line.starts_with("test result: ")
    });
    summaries.filter_map(|line| number_before(line, " passed")).sum()
}

/// The names of failed tests, each once.
fn failures(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for line in text.lines() {
        let nextest = ["FAIL [", "SIGABRT [", "SIGSEGV [", "TIMEOUT ["]
            .iter()
            .find_map(|mark| line.trim_start().strip_prefix(mark))
            .and_then(|rest| rest.split_once(']'))
            .map(|(_, name)| without_counter(name.trim()));
        let rustdoc = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix("... FAILED"))
            .map(str::trim);
        if let Some(name) = nextest.or(rustdoc)
            && !names.iter().any(|known| known == name)
        {
            names.push(name.to_owned());
        }
    }
    names
}

/// Drops nextest's `(13/15)` in front of a name.
fn without_counter(name: &str) -> &str {
    match name.strip_prefix('(').and_then(|rest| rest.split_once(") ")) {
        Some((_, name)) => name.trim_start(),
        None => name,
    }
}

fn number_before(line: &str, unit: &str) -> Option<usize> {
    let (before, _) = line.split_once(unit)?;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXTEST: &str = "\
        PASS [   0.004s] lyceum-wire envelope::accepts_a_string_id
        FAIL [   0.006s] ( 3/15) lyceum-http::it guard::foreign_origin_is_forbidden
     Summary [   1.005s] 5 tests run: 3 passed (1 slow), 2 failed, 1 skipped
        FAIL [   0.006s] lyceum-http::it guard::foreign_origin_is_forbidden
     SIGABRT [   0.006s] lyceum-http::it guard::overflow";
    const RUSTDOC: &str = "\
test crates/a/src/lib.rs - one (line 3) ... ok
test crates/a/src/lib.rs - two (line 9) ... FAILED
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s";

    #[test]
    fn counts_come_from_the_runners_own_summary() {
        assert_eq!(passed(NEXTEST), 3);
        assert_eq!(passed(RUSTDOC), 5);
    }

    #[test]
    fn each_failed_test_is_named_once() {
        assert_eq!(
            failures(NEXTEST),
            [
                "lyceum-http::it guard::foreign_origin_is_forbidden",
                "lyceum-http::it guard::overflow"
            ]
        );
        assert_eq!(failures(RUSTDOC), ["crates/a/src/lib.rs - two (line 9)"]);
    }
}
