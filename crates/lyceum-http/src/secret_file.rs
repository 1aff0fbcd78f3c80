//! Opens files that hold secrets: regular files that only their owner, our user or root, can read.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

/// Opens a file of secrets, and says no to one that others may have written or can read.
///
/// # Errors
/// When it cannot be opened, is no regular file, belongs to another user than ours or root, or its mode
/// grants access to group or others.
pub fn open_secret_file(path: &Path) -> io::Result<File> {
    // Before it is opened, because opening a pipe may take for ever.
    check(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

fn check(file: &Metadata) -> io::Result<()> {
    let why = match file.is_file() {
        true => complaint(file),
        false => Some("this secret is not a regular file; write it into one".to_owned()),
    };
    match why {
        Some(why) => Err(io::Error::new(io::ErrorKind::PermissionDenied, why)),
        None => Ok(()),
    }
}

#[cfg(unix)]
fn complaint(file: &Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    judge(file.uid(), rustix::process::geteuid().as_raw(), file.mode())
}

#[cfg(not(unix))]
fn complaint(_: &Metadata) -> Option<String> {
    None
}

/// What is wrong with a file of `owner` for a process of `us`; `None` if nothing is.
#[cfg(unix)]
fn judge(owner: u32, us: u32, mode: u32) -> Option<String> {
    if owner != us && owner != 0 {
        return Some(format!(
            "this secret belongs to user {owner}, who can change it; run chown {us} on it"
        ));
    }
    (mode & 0o077 != 0).then(|| "others can read this secret; run chmod 600 on it".to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn secrets_are_ours_or_roots_and_for_nobody_else() {
        for (owner, us, mode, told) in [
            (1000, 1000, 0o600, None),
            (1000, 1000, 0o400, None),
            (0, 1000, 0o600, None),
            (0, 0, 0o600, None),
            (1001, 1000, 0o600, Some("chown 1000")),
            (1000, 0, 0o600, Some("chown 0")),
            (1000, 1000, 0o640, Some("chmod 600")),
            (1000, 1000, 0o602, Some("chmod 600")),
        ] {
            let found = judge(owner, us, mode);
            match told {
                None => assert_eq!(found, None, "{owner} {us} {mode:o}"),
                Some(told) => assert!(found.as_ref().unwrap().contains(told), "{found:?}"),
            }
        }
    }

    #[test]
    fn only_regular_files_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        assert_eq!(open_secret_file(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let told = open_secret_file(directory.path()).unwrap_err().to_string();
        assert!(told.contains("regular file"), "{told}");
        fs::write(&path, "s").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(open_secret_file(&path).is_ok());
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(open_secret_file(&link).is_ok(), "what it leads to counts");
    }
}
