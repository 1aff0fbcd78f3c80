//! Which core does what, and the restart of this process on its own one.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::procfs;

pub(crate) const SERVER_CORE: usize = 0;
pub(crate) const LOAD_CORE: usize = 1;

/// 10,000 streams and some room; servers and the holder inherit it.
const OPEN_FILES: u64 = 12_000;

/// Starts this process over, pinned and with enough open files, unless it already is.
///
/// # Errors
///
/// When the machine has one core, or `taskset` or `prlimit` is missing.
pub(crate) fn to_load_core() -> anyhow::Result<()> {
    let (soft, hard) = procfs::own_file_limits()?;
    let enough = soft >= OPEN_FILES;
    if procfs::own_cores()? == LOAD_CORE.to_string() && enough {
        return Ok(());
    }
    ensure!(enough || hard >= OPEN_FILES, "{OPEN_FILES} open files are needed, {hard} allowed");
    procfs::core_seconds(LOAD_CORE)
        .context("two cores are needed: one for the server, one for the load")?;
    let mut restart = Command::new("prlimit");
    restart.arg(format!("--nofile={}:{hard}", soft.max(OPEN_FILES)));
    restart.args(on_core(LOAD_CORE));
    restart.arg(std::env::current_exe().context("finding this program")?);
    let error = restart.args(std::env::args_os().skip(1)).exec();
    bail!("prlimit and taskset (util-linux) are needed to pin processes: {error}");
}

/// The command in front of a program that pins it.
pub(crate) fn on_core(core: usize) -> [String; 3] {
    ["taskset".to_owned(), "-c".to_owned(), core.to_string()]
}

/// The command in front of a program that may use all cores, although this process may not.
pub(crate) fn on_both_cores() -> [String; 3] {
    ["taskset".to_owned(), "-c".to_owned(), format!("{SERVER_CORE},{LOAD_CORE}")]
}
