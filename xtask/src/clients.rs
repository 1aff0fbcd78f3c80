//! Real MCP clients against `everything`: the official Python and TypeScript SDKs.
//!
//! The checks are the scripts in `tests/clients`; each prints a line per check. Here they get a
//! server, a proxy that cuts a connection once, and the SDK they need. The step `gateway` runs the
//! same scripts with the product in between.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::everything::{self, Everything, address_of};
use crate::process::{self, Echo, Finished};
use crate::proxy::CuttingProxy;
use crate::tally::Tally;
use crate::tools;
use crate::versions;
use crate::workspace::Workspace;

const SCRIPT_LIMIT: Duration = Duration::from_secs(5 * 60);

/// The first event of the call that the scripts make through the proxy.
const CUT_AFTER: &[u8] = b"notifications/progress";

/// A script and the program that runs it.
pub(crate) struct Script {
    pub(crate) name: String,
    interpreter: PathBuf,
    file: PathBuf,
}

pub(crate) fn run(workspace: &Workspace) -> Result<Tally> {
    let scripts = scripts(workspace)?;
    let program = everything::server(workspace)?;
    let mut server = Everything::start(workspace)?;
    let mut tally = Tally::default();
    for script in &scripts {
        tally.absorb(&script.name, script.against(&server.url, Some(&program))?);
        server.ensure_alive()?;
    }
    Ok(tally)
}

/// One script per SDK, for any server that offers what `everything` does.
pub(crate) fn scripts(workspace: &Workspace) -> Result<[Script; 3]> {
    Ok([
        python(workspace, versions::PYTHON_SDK_1, "python1.py")?,
        python(workspace, versions::PYTHON_SDK_2, "python2.py")?,
        typescript(workspace)?,
    ])
}

pub(crate) fn python(workspace: &Workspace, version: &str, file: &str) -> Result<Script> {
    let interpreter = tools::python_sdk(workspace, version)?;
    let file = workspace.root().join("tests/clients").join(file);
    Ok(Script { name: format!("Python SDK {version}"), interpreter, file })
}

fn typescript(workspace: &Workspace) -> Result<Script> {
    let interpreter = tools::node(workspace)?;
    // Node looks for modules beside the script, so it runs from the folder that has them.
    let source = workspace.root().join("tests/clients/typescript.mjs");
    let file = tools::typescript_sdk(workspace)?.join("typescript.mjs");
    fs::copy(&source, &file).with_context(|| format!("copying {}", source.display()))?;
    let name = format!("TypeScript SDK {}", versions::TYPESCRIPT_SDK);
    Ok(Script { name, interpreter, file })
}

impl Script {
    /// Runs it against a server, directly and through the cutting proxy. With the server's program
    /// it is also started over stdio and stopped under its clients.
    pub(crate) fn against(&self, url: &str, program: Option<&Path>) -> Result<Tally> {
        let upstream = address_of(url)?;
        let proxy = CuttingProxy::start(upstream, CUT_AFTER)?;
        let cut_url = url.replace(&upstream.to_string(), &proxy.address().to_string());
        let mut command = self.command();
        command.args(["--url", url, "--cut-url", &cut_url]);
        if let Some(program) = program {
            command.arg("--stdio").arg(program);
        }
        let mut tally = self.run(&mut command)?;
        if !proxy.has_cut() {
            tally.fail("the proxy had nothing to cut, so resuming was not tested");
        }
        Ok(tally)
    }

    /// A call of it that still lacks its arguments.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.interpreter);
        // Bytecode beside the scripts would litter the working tree.
        command.env("PYTHONDONTWRITEBYTECODE", "1").arg(&self.file);
        command
    }

    pub(crate) fn run(&self, command: &mut Command) -> Result<Tally> {
        let finished = process::capture(command, Echo::Hide, SCRIPT_LIMIT)?;
        let tally = judge(&finished);
        println!("{}:\n{}", self.name, shown(&finished, &tally));
        Ok(tally)
    }
}

/// Counts the lines of a script; a script that ends without its last line has failed.
fn judge(finished: &Finished) -> Tally {
    let lines = || finished.text.lines();
    let passed = lines().filter(|line| line.starts_with("ok   ")).count();
    let failures = lines().filter_map(|line| line.strip_prefix("FAIL "));
    let failed = failures.map(str::to_owned).collect();
    let mut tally = Tally { passed, failed, ..Tally::default() };
    let last = format!("{} passed, {} failed", tally.passed, tally.failed.len());
    if !lines().any(|line| line == last) || tally.passed == 0 {
        tally.fail(format!("the script ended early ({})", finished.status));
    } else if finished.status.success() != tally.failed.is_empty() {
        tally.fail(format!("the script's verdict and its exit code disagree: {}", finished.status));
    }
    tally
}

/// The check lines; all of what the script wrote when something failed.
fn shown(finished: &Finished, tally: &Tally) -> String {
    if !tally.failed.is_empty() {
        return finished.text.clone();
    }
    let lines = finished.text.lines().filter(|line| line.starts_with("ok   "));
    lines.map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, exit_code: i32, passed: usize, failed: usize) {
        let status = Command::new("sh").args(["-c", &format!("exit {exit_code}")]).status();
        let finished = Finished { status: status.unwrap(), text: text.to_owned() };
        let tally = judge(&finished);
        assert_eq!((tally.passed, tally.failed.len()), (passed, failed), "{tally:?}");
    }

    #[test]
    fn every_line_counts_and_the_last_line_must_agree() {
        check("ok   a\nok   b\n2 passed, 0 failed\n", 0, 2, 0);
        check("ok   a\nFAIL b: why\n1 passed, 1 failed\n", 1, 1, 1);
        check("ok   a\n", 0, 1, 1);
        check("Traceback\n", 1, 0, 1);
        check("0 passed, 0 failed\n", 0, 0, 1);
        check("ok   a\n1 passed, 0 failed\n", 1, 1, 1);
    }
}
