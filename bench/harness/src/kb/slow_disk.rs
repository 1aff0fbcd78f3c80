//! A disk that takes longer than this one: a library loaded before all others sleeps in every fsync.
//!
//! Tracing the process would do without a compiler, but stops its threads at every system call, and the figures become
//! those of the tracer.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::tool;

const SOURCE: &str = include_str!("slow_disk.c");

/// The command in front of a program whose every fsync takes `longer`; what it needs is kept in `scratch`.
pub(super) fn under(longer: Duration, scratch: &Path) -> anyhow::Result<[String; 2]> {
    tool::require("cc")?;
    let (source, library) = (scratch.join("slow_disk.c"), scratch.join("slow_disk.so"));
    std::fs::write(&source, SOURCE)?;
    let built = Command::new("cc")
        .args(["-O2", "-D_GNU_SOURCE", "-shared", "-fPIC"])
        .arg(format!("-DDELAY_NS={}", longer.as_nanos()))
        .arg("-o")
        .args([&library, &source])
        .output()
        .context("running cc")?;
    ensure!(built.status.success(), "cc failed: {}", String::from_utf8_lossy(&built.stderr));
    let library = std::path::absolute(library)?;
    Ok(["env".to_owned(), format!("LD_PRELOAD={}", library.display())])
}
