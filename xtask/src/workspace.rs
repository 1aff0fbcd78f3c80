//! Where things are: the repository, its target directory, the tools installed into it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The checkout this tool was built from.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    cargo: OsString,
}

impl Workspace {
    pub(crate) fn locate() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask lies one level below the root of the repository")
            .to_owned();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Self { root, cargo }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A cargo call at the root of the repository.
    pub(crate) fn cargo<const N: usize>(&self, args: [&str; N]) -> Command {
        let mut command = Command::new(&self.cargo);
        command.args(args).current_dir(&self.root);
        command
    }
}
