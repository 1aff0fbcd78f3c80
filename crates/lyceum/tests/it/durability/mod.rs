//! What was acknowledged is there, whatever happens to the process, the disk or the connection.
//!
//! Named `release_…`: these tests hammer the binary, and the figures they print are those of the optimized one.

mod book; // what a writer wrote, and what it was told
mod damage; // bits that flip, files that are cut short
mod dice; // chance that can be repeated
mod faults; // disks that fill up or fail
mod kills; // processes that die
mod line; // a writer's connection
mod proof; // whether a file holds what the books say
mod readers; // readers that stay long
mod replies; // answers that never arrive

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The file in a data directory.
fn database(data: &Path) -> PathBuf {
    data.join("knowledge.db")
}

/// A directory in memory where there is one. A killed process loses nothing there either, and injected faults do not
/// ask what is below.
fn fast_directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
