//! `cargo xtask bench`: builds our example server and the benchmark's own workspace, then measures.
//!
//! Only builds and starts; what is measured, and every flag, is in `bench/harness`.

use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// The packages of the benchmark's workspace, each built by itself: built together they would share
/// features, and bare hyper would be compiled with what rmcp asks for.
const PACKAGES: [&str; 3] = ["limits", "rmcp-server", "lyceum-bench"];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let workspace = Workspace::locate();
    // The directories are spelled out so that the harness finds what was built.
    let build = ["build", "--release", "--locked", "--target-dir"];
    let product = ["target", "--package", "lyceum-server", "--example", "everything"];
    process::run(workspace.cargo(build).args(product))?;
    for package in PACKAGES {
        let peer = ["bench/target", "--manifest-path", "bench/Cargo.toml", "--package", package];
        process::run(workspace.cargo(build).args(peer))?;
    }
    let harness = workspace.root().join("bench/target/release/lyceum-bench");
    process::run(Command::new(harness).args(args).current_dir(workspace.root()))
}
