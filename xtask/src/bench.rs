//! `cargo xtask bench`: builds our program, our example server and the benchmark's own workspace, then
//! measures.
//!
//! Only builds and starts; what is measured, and every flag, is in `bench/harness`.

use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// The packages of the benchmark's workspace, each built by itself: built together they would share
/// features, and bare hyper would be compiled with what rmcp asks for.
const PACKAGES: [&str; 3] = ["limits", "rmcp-server", HARNESS];
const HARNESS: &str = "lyceum-bench";

pub(crate) fn run(args: &[String]) -> Result<()> {
    let workspace = Workspace::locate();
    // The directories are spelled out so that the harness finds what was built.
    let build = ["build", "--release", "--locked", "--target-dir"];
    let (example, program) = (["lyceum-server", "--example", "everything"], ["lyceum"]);
    let products: &[&[&str]] = if only_kb(args) { &[&program] } else { &[&example, &program] };
    for product in products {
        process::run(workspace.cargo(build).args(["target", "--package"]).args(*product))?;
    }
    // The knowledge base is compared with nothing.
    for package in PACKAGES.into_iter().filter(|package| *package == HARNESS || !only_kb(args)) {
        let peer = ["bench/target", "--manifest-path", "bench/Cargo.toml", "--package", package];
        process::run(workspace.cargo(build).args(peer))?;
    }
    let harness = workspace.root().join("bench/target/release/lyceum-bench");
    process::run(Command::new(harness).args(args).current_dir(workspace.root()))
}

/// Whether nothing but the knowledge base is measured.
fn only_kb(args: &[String]) -> bool {
    let mut parts =
        args.windows(2).filter(|pair| pair[0] == "--part").map(|pair| &pair[1]).peekable();
    parts.peek().is_some() && parts.all(|part| part == "kb")
}
