//! Whether a program we measure with is on this machine.

use std::process::{Command, Stdio};

use anyhow::ensure;

/// Fails with a sentence that says what to install.
pub(crate) fn require(tool: &str) -> anyhow::Result<()> {
    let found = Command::new(tool)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    ensure!(found, "{tool} is not installed");
    Ok(())
}
