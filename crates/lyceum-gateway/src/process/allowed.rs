//! Which commands an operator lets run.

use std::path::Path;
use std::sync::OnceLock;

use super::SpawnError;

/// The commands that may run. Empty means all of them.
#[derive(Debug, Default)]
pub struct AllowedCommands {
    entries: Vec<String>,
    warned: OnceLock<()>,
}

impl AllowedCommands {
    /// Entries are names (`python3`), which allow a program of that name anywhere, or absolute paths,
    /// which allow that very file.
    pub fn new(entries: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let entries = entries.into_iter().map(|entry| entry.as_ref().trim().to_owned());
        Self {
            entries: entries.filter(|entry| !entry.is_empty()).collect(),
            warned: OnceLock::new(),
        }
    }

    /// Whether `program`, which was found at `file`, may run.
    pub(super) fn check(&self, program: &str, file: Option<&Path>) -> Result<(), SpawnError> {
        if self.entries.is_empty() {
            self.warned.get_or_init(|| {
                tracing::warn!(
                    "any command may run as an upstream; list the good ones in \
                     [stdio] allowed_commands"
                );
            });
            return Ok(());
        }
        let name = base_name(program);
        let fits = |entry: &String| match entry.starts_with('/') {
            true => file.is_some_and(|file| file == Path::new(entry)),
            false => entry == name,
        };
        if self.entries.iter().any(fits) {
            return Ok(());
        }
        let allowed = self.entries.join(", ");
        tracing::warn!(command = program, allowed, "security: a command that is not allowed");
        Err(SpawnError::Refused { command: program.to_owned(), allowed })
    }
}

/// The name of a program without its directory and its last extension, as Knox takes it:
/// `/usr/bin/python3.9` is `python3`.
fn base_name(program: &str) -> &str {
    let name = program.rsplit('/').next().unwrap_or(program);
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k51_commands_are_allowed_by_name_or_by_path() {
        let rows: &[(&str, &str, &str, bool)] = &[
            ("python3, node", "python3", "/usr/bin/python3", true),
            ("python3", "/usr/bin/python3.9", "/usr/bin/python3.9", true),
            ("python", "/usr/bin/python3.9", "/usr/bin/python3.9", false),
            ("python3", "/opt/evil/python3", "/opt/evil/python3", true),
            ("python3", "python33", "/usr/bin/python33", false),
            ("python3", "Python3", "/usr/bin/Python3", false),
            ("node", "node.exe", "/usr/bin/node.exe", true),
            ("sh", ".sh", "/usr/bin/.sh", false),
            ("/usr/bin/python3", "python3", "/usr/bin/python3", true),
            ("/usr/bin/python3", "/usr/bin/python3", "/usr/bin/python3", true),
            ("/usr/bin/python3", "python3", "/opt/evil/python3", false),
            ("/usr/bin/python3", "/opt/evil/python3", "/opt/evil/python3", false),
            ("/usr/bin/python3", "python3", "", false),
            ("", "anything", "/x/anything", true),
            (" , ", "anything", "", true),
        ];
        for &(entries, program, file, expected) in rows {
            let allowed = AllowedCommands::new(entries.split(','));
            let file = Some(Path::new(file)).filter(|file| *file != Path::new(""));
            assert_eq!(allowed.check(program, file).is_ok(), expected, "{entries}: {program}");
        }
    }

    #[test]
    fn a_refusal_names_the_command_and_the_list() {
        let allowed = AllowedCommands::new(["python", "/usr/bin/node"]);
        let error = allowed.check("bash", None).unwrap_err().to_string();
        let expected = "command \"bash\" is not allowed; allowed are: python, /usr/bin/node";
        assert_eq!(error, expected);
    }
}
