//! Files that hold secrets are for their owner only.

use std::fs::File;
use std::io;

/// Says no to a file of secrets that others can read.
///
/// # Errors
/// When its mode lets anybody but its owner in, or cannot be found out.
#[cfg(unix)]
pub fn refuse_if_shared(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if file.metadata()?.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    let why = "others can read this secret; run chmod 600 on it";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Says no to a file of secrets that others can read, where that can be told.
///
/// # Errors
/// Never, here.
#[cfg(not(unix))]
pub fn refuse_if_shared(_: &File) -> io::Result<()> {
    Ok(())
}
