//! The fixture server `everything`, the conformance client and `lyceum` itself: built once, in
//! release mode, for the steps that talk to them from outside. Starts the fixture server.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::{self, Guarded};
use crate::tally::Tally;
use crate::workspace::Workspace;

/// Names another program with the flags of `everything`, to try the harness on a foreign server.
const OTHER_SERVER: &str = "LYCEUM_EVERYTHING";
/// The same for the conformance client.
const OTHER_CLIENT: &str = "LYCEUM_CONFORMANCE_CLIENT";
/// The same for the product, e.g. one built without the wait for optimized code.
const OTHER_LYCEUM: &str = "LYCEUM_PROGRAM";

/// Named in every release build, because cargo unifies features over the named packages:
/// dependencies are then built once.
pub(crate) const PACKAGES: [&str; 8] =
    ["-p", "lyceum-server", "-p", "lyceum-http", "-p", "lyceum-gateway", "-p", "lyceum"];

const START_LIMIT: Duration = Duration::from_secs(20);

/// A running `everything`; stopped, and its data removed, when dropped.
#[derive(Debug)]
pub(crate) struct Everything {
    pub(crate) url: String,
    // Fields are dropped in order: the process is gone before its data goes.
    process: Guarded,
    _data: DataDir,
}

/// A folder of a server's own, removed when dropped.
#[derive(Debug)]
pub(crate) struct DataDir(PathBuf);

/// Builds what the outside steps need, so that their own durations say something.
pub(crate) fn build(workspace: &Workspace) -> Result<Tally> {
    process::run(&mut build_command(workspace))?;
    Ok(Tally::one())
}

/// The program `everything`.
pub(crate) fn server(workspace: &Workspace) -> Result<PathBuf> {
    program(workspace, "examples/everything", OTHER_SERVER)
}

/// The program the suite's client scenarios run.
pub(crate) fn client(workspace: &Workspace) -> Result<PathBuf> {
    program(workspace, "examples/conformance_client", OTHER_CLIENT)
}

/// The product.
pub(crate) fn lyceum(workspace: &Workspace) -> Result<PathBuf> {
    program(workspace, "lyceum", OTHER_LYCEUM)
}

/// Built anew unless fresh, so that `--only` never tests yesterday's program.
fn program(workspace: &Workspace, name: &str, other: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(other) {
        return Ok(path.into());
    }
    process::run(build_command(workspace).arg("--quiet"))?;
    Ok(workspace.target().join("release").join(name))
}

fn build_command(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo(["build", "--release", "--bin", "lyceum"]);
    command
        .args([
            "--example",
            "everything",
            "--example",
            "conformance_client",
            "--example",
            "upstream",
        ])
        .args(PACKAGES);
    command
}

impl Everything {
    /// Starts it on a free port with a data directory of its own.
    pub(crate) fn start(workspace: &Workspace) -> Result<Self> {
        Self::start_with(workspace, &server(workspace)?, &[])
    }

    /// The same with this build of it and more flags.
    pub(crate) fn start_with(
        workspace: &Workspace,
        program: &Path,
        flags: &[&str],
    ) -> Result<Self> {
        let data = DataDir::create(workspace)?;
        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0", "--data"]).arg(data.path()).args(flags);
        let process = Guarded::spawn(&mut command)?;
        let url = process.wait_for(START_LIMIT, url_in)?;
        Ok(Self { url, process, _data: data })
    }

    /// Fails when it has ended, with what it wrote.
    pub(crate) fn ensure_alive(&mut self) -> Result<()> {
        self.process.ensure_alive()
    }
}

impl DataDir {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn create(workspace: &Workspace) -> Result<Self> {
        static CREATED: AtomicUsize = AtomicUsize::new(0);
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let path = workspace.target().join(format!("tmp/data-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // Left-over data is below target/tmp and disturbs nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The address in an MCP endpoint's URL.
pub(crate) fn address_of(url: &str) -> Result<SocketAddr> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let authority = rest.split('/').next().unwrap_or(rest);
    authority.parse().with_context(|| format!("the URL {url} has no address"))
}

/// The MCP endpoint named in a line a server prints when it listens.
pub(crate) fn url_in(line: &str) -> Option<String> {
    let from = line.find("http://127.0.0.1:")?;
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || "/:.-_".contains(c));
    let url = line[from..].split(is_end).next()?.trim_end_matches('.');
    url.ends_with("/mcp").then(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_read_from_any_sentence() {
        let expected = Some("http://127.0.0.1:4711/mcp".to_owned());
        assert_eq!(url_in("listening on http://127.0.0.1:4711/mcp"), expected);
        assert_eq!(url_in("add \"http://127.0.0.1:4711/mcp\", then call."), expected);
        assert_eq!(url_in("see http://127.0.0.1:4711/mcp."), expected);
        assert_eq!(url_in("metrics at http://127.0.0.1:4711/metrics"), None);
        assert_eq!(url_in("starting"), None);
    }
}
