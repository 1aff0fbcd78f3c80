//! Other people's gateways that ours is measured beside.
//!
//! They go below `bench/target/peers`, once per version. One that cannot be installed does not stop
//! the run: the harness is told why, and prints it where its figures would be.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::tools::{ensure_installed, nginx, once, quietly};
use crate::versions;
use crate::workspace::Workspace;

/// Installs what a run with these arguments is going to start; answers further arguments for it.
pub(super) fn install(workspace: &Workspace, harness: &Path, args: &[String]) -> Vec<String> {
    let mut flags = vec![];
    for name in needed(workspace, harness, args) {
        match install_one(workspace, &name) {
            Ok(path) => flags.extend(["--peer".to_owned(), format!("{name}={}", path.display())]),
            Err(error) => flags.extend(["--no-peer".to_owned(), format!("{name}={error:#}")]),
        }
    }
    flags
}

/// The names the harness gives; none if it does anything but measure.
fn needed(workspace: &Workspace, harness: &Path, args: &[String]) -> Vec<String> {
    let mut ask = Command::new(harness);
    ask.args(args).arg("peers").current_dir(workspace.root());
    ask.stdin(Stdio::null()).stderr(Stdio::null());
    // Arguments it does not understand are its own to complain about, when it is started.
    let Ok(said) = ask.output() else { return vec![] };
    if !said.status.success() {
        return vec![];
    }
    let said = String::from_utf8_lossy(&said.stdout);
    said.lines().filter(|name| KNOWN.contains(name)).map(str::to_owned).collect()
}

const KNOWN: [&str; 3] = ["mcp-proxy", "fastmcp", "nginx"];

fn install_one(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let dir = |version: &str| workspace.root().join(format!("bench/target/peers/{name}-{version}"));
    match name {
        "mcp-proxy" => mcp_proxy(workspace, &dir(versions::MCP_PROXY)),
        "fastmcp" => fastmcp(&dir(versions::FASTMCP)),
        "nginx" => find_nginx(workspace),
        _ => bail!("nobody knows how to install it"),
    }
}

/// Built with the product's own release profile, like everything that is measured.
fn mcp_proxy(workspace: &Workspace, dir: &Path) -> Result<PathBuf> {
    once(dir, || {
        let mut install = workspace.cargo(["install", "--locked", "--quiet", "mcp-proxy"]);
        install.args(["--version", versions::MCP_PROXY, "--root"]).arg(dir);
        install.env("CARGO_PROFILE_RELEASE_LTO", "fat");
        install.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
        quietly(&mut install)
    })?;
    Ok(dir.join("bin/mcp-proxy"))
}

/// The interpreter of a virtual environment that has FastMCP and what makes uvicorn fast.
fn fastmcp(dir: &Path) -> Result<PathBuf> {
    let python = dir.join("bin/python");
    once(dir, || {
        ensure_installed("python3", &["-m", "ensurepip", "--version"], "python3-venv")?;
        let mut venv = Command::new("python3");
        quietly(venv.args(["-m", "venv"]).arg(dir))?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.arg(format!("fastmcp=={}", versions::FASTMCP));
        pip.arg(format!("uvloop=={}", versions::UVLOOP));
        quietly(pip.arg(format!("httptools=={}", versions::HTTPTOOLS)))
    })?;
    Ok(python)
}

/// The machine's own, or the unpacked Debian package.
fn find_nginx(workspace: &Workspace) -> Result<PathBuf> {
    for place in ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"] {
        if Path::new(place).exists() {
            return Ok(place.into());
        }
    }
    Ok(nginx(workspace).context("unpacking the Debian package")?.join("usr/sbin/nginx"))
}
