//! `cargo xtask bench`: builds our program, our example server and the benchmark's own workspace,
//! installs the gateways ours is compared with, then measures.
//!
//! Only builds, installs and starts; what is measured, and every flag, is in `bench/harness`.

mod peers;

use std::process::Command;

use anyhow::Result;

use crate::process;
use crate::workspace::Workspace;

/// The packages of the benchmark's workspace, each built by itself: built together they would share
/// features, and bare hyper would be compiled with what rmcp asks for.
const PACKAGES: [&str; 4] = ["limits", "rmcp-server", "upstream", HARNESS];
const HARNESS: &str = "lyceum-bench";

pub(crate) fn run(args: &[String]) -> Result<()> {
    let workspace = Workspace::locate();
    // The directories are spelled out so that the harness finds what was built.
    let build = ["build", "--profile", "dist", "--locked", "--target-dir"];
    let (example, program) = (["lyceum-server", "--example", "everything"], ["lyceum"]);
    let products: &[&[&str]] =
        if only(args, &["kb", "gateway"]) { &[&program] } else { &[&example, &program] };
    for product in products {
        process::run(workspace.cargo(build).args(["target", "--package"]).args(*product))?;
    }
    for package in PACKAGES.into_iter().filter(|package| needs(args, package)) {
        let peer = ["bench/target", "--manifest-path", "bench/Cargo.toml", "--package", package];
        process::run(workspace.cargo(build).args(peer))?;
    }
    let harness = workspace.root().join("bench/target/dist/lyceum-bench");
    let peers = peers::install(&workspace, &harness, args);
    process::run(Command::new(harness).args(args).args(peers).current_dir(workspace.root()))
}

/// Whether a run with these arguments starts anything of this package.
fn needs(args: &[String], package: &str) -> bool {
    match package {
        HARNESS => true,
        // The knowledge base is compared with nothing, and the gateway with no server but bare hyper.
        "rmcp-server" => !only(args, &["kb", "gateway"]),
        _ => !only(args, &["kb"]),
    }
}

/// Whether nothing but some of these parts is measured.
fn only(args: &[String], parts: &[&str]) -> bool {
    let mut asked =
        args.windows(2).filter(|pair| pair[0] == "--part").map(|pair| pair[1].as_str()).peekable();
    asked.peek().is_some() && asked.all(|part| parts.contains(&part))
}
