//! The variables a child sees: a few that hardly any program can do without, and those it was given.
//!
//! Everything else stays here, because our own environment holds other upstreams' secrets.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Variables every child inherits, besides all that begin with `LC_`.
const USUAL: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TMPDIR", "TZ"];

/// The environment of a child.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// Chooses from `ours`. An entry of `given` is `NAME` to inherit or `NAME=value` to set.
    pub(super) fn choose(
        ours: impl IntoIterator<Item = (OsString, OsString)>,
        given: &[String],
    ) -> Environment {
        let set: Vec<(&str, &str)> =
            given.iter().filter_map(|entry| entry.split_once('=')).collect();
        let inherited = |name: &OsStr| {
            let Some(name) = name.to_str() else { return false };
            let usual = USUAL.contains(&name) || name.starts_with("LC_");
            (usual || given.iter().any(|entry| entry == name))
                && !set.iter().any(|(set, _)| *set == name)
        };
        let mut variables: Vec<(OsString, OsString)> =
            ours.into_iter().filter(|(name, _)| inherited(name)).collect();
        variables.extend(set.iter().map(|&(name, value)| (name.into(), value.into())));
        Environment(variables)
    }

    /// The file that `program` stands for. Names are looked for in the child's own PATH, and only in
    /// absolute directories, so that nothing that lies about runs by accident.
    pub(super) fn find_program(&self, program: &str, directory: Option<&Path>) -> Option<PathBuf> {
        if program.contains('/') {
            return Some(directory.map_or_else(|| program.into(), |base| base.join(program)));
        }
        let (_, path) = self.0.iter().rfind(|(name, _)| name == "PATH")?;
        let directories = std::env::split_paths(path).filter(|directory| directory.is_absolute());
        directories.map(|directory| directory.join(program)).find(|file| is_executable(file))
    }
}

impl IntoIterator for Environment {
    type Item = (OsString, OsString);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_see_the_usual_and_what_they_were_given() {
        let ours = ["PATH=/bin", "LC_ALL=C", "SECRET=s", "TOKEN=t", "LD_PRELOAD=x", "HOME=/h"];
        let ours = ours.map(|entry| entry.split_once('=').unwrap());
        let ours = ours.map(|(name, value)| (name.into(), value.into()));
        let given = ["TOKEN", "LEVEL=a=b", "HOME=/elsewhere", "ABSENT"].map(str::to_owned);
        let chosen: Vec<String> = Environment::choose(ours, &given)
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        assert_eq!(chosen, ["PATH=/bin", "LC_ALL=C", "TOKEN=t", "LEVEL=a=b", "HOME=/elsewhere"]);
    }

    #[test]
    #[cfg(unix)]
    fn programs_are_found_in_the_childs_own_path() {
        let here = tempfile::tempdir().unwrap();
        let file = here.path().join("tool");
        std::fs::write(&file, "").unwrap();
        let find = |path: &str, program: &str| {
            Environment::choose([], &[format!("PATH={path}")])
                .find_program(program, Some(Path::new("/base")))
        };
        let path = format!("relative::/nowhere:{}", here.path().display());
        assert_eq!(find(&path, "tool"), None, "not executable yet");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&file, mode).unwrap();
        assert_eq!(find(&path, "tool"), Some(file));
        assert_eq!(find("/nowhere", "tool"), None);
        assert_eq!(find("", "/x/tool"), Some("/x/tool".into()));
        assert_eq!(find("", "./tool"), Some("/base/./tool".into()));
    }
}
