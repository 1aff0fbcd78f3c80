//! Where the programs are that are started. Plain data; `cargo xtask bench` builds and installs them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

#[derive(Debug)]
pub(crate) struct Programs {
    /// Our example server.
    pub(crate) everything: PathBuf,
    /// Our program.
    pub(crate) lyceum: PathBuf,
    /// What was installed, by name, or why it could not be.
    pub(crate) peers: HashMap<String, Result<PathBuf, String>>,
}

impl Programs {
    /// A program of the benchmark's own workspace, built next to this one.
    pub(crate) fn sibling(name: &str) -> anyhow::Result<PathBuf> {
        let this = std::env::current_exe().context("finding this program")?;
        Ok(this.with_file_name(name))
    }

    /// A program of other people's.
    pub(crate) fn peer(&self, name: &str) -> anyhow::Result<&Path> {
        match self.peers.get(name) {
            Some(Ok(path)) => Ok(path),
            Some(Err(why)) => bail!("{name} is not installed: {why}"),
            None => bail!("{name} is not installed; cargo xtask bench does that"),
        }
    }
}
