//! Where things are: the repository, its target directory, the tools installed into it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The checkout this tool was built from.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
    cargo: OsString,
}

impl Workspace {
    pub(crate) fn locate() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask lies one level below the root of the repository")
            .to_owned();
        // A relative CARGO_TARGET_DIR is relative to the root, because every cargo call runs there.
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(dir) => root.join(dir),
            None => root.join("target"),
        };
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Self { root, target, cargo }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The build directory, never tracked; everything this tool writes goes below it.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Where foreign tools are installed.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// A cargo call at the root of the repository.
    pub(crate) fn cargo<const N: usize>(&self, args: [&str; N]) -> Command {
        let mut command = Command::new(&self.cargo);
        command.args(args).current_dir(&self.root);
        command
    }
}
