//! House rules that no linter knows: file headers and lengths, words that must not reach main,
//! addresses and paths of one machine, numbers of decision records.
//!
//! Looks only at tracked files and only at their text; never changes one.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tally::Tally;
use crate::workspace::Workspace;

/// A file longer than this, tests apart, holds two nouns.
const LONGEST_FILE: usize = 600;

/// Documents people read in one sitting.
const LONGEST_DOCUMENT: &[(&str, usize)] = &[("README.md", 150), ("ARCHITECTURE.md", 250)];

/// Words for an issue, not for the source. Spelled in halves so that this file passes.
const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("db", "g!("),
    concat!("#[ig", "nore"),
];

/// What is true of one machine only, or names a package registry: packages go by name.
const LOCAL: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/tmp", "/wt"),
    concat!("../sha", "red"),
    concat!("deb.deb", "ian.org"),
    concat!("registry.np", "mjs"),
    concat!("pypi", ".org"),
    concat!("files.python", "hosted"),
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
];

/// One broken rule, `path:line: what`.
type Complaint = String;

pub(crate) fn run(workspace: &Workspace) -> Result<Tally> {
    let mut tally = Tally::default();
    let paths = tracked(workspace)?;
    ensure!(paths.len() > 10, "git ls-files names almost no file; is this a clone?");
    for path in &paths {
        // A tracked file may be deleted but not committed; a picture is not text.
        let Ok(text) = fs::read_to_string(workspace.root().join(path)) else { continue };
        tally.failed.extend(inspect(path, &text));
    }
    tally.failed.extend(repeated_decision_numbers(&paths));
    tally.passed = usize::from(tally.failed.is_empty());
    Ok(tally)
}

fn tracked(workspace: &Workspace) -> Result<Vec<String>> {
    let mut command = Command::new("git");
    // Files not yet added count too, so that a developer hears before the commit.
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = command.current_dir(workspace.root()).output().context("cannot start git")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).context("a tracked path is not UTF-8")?;
    Ok(text.split_terminator('\0').map(str::to_owned).collect())
}

/// Every rule that one file can break.
fn inspect(path: &str, text: &str) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    if path.ends_with(".rs") {
        if !text.starts_with("//!") {
            complaints.push(format!("{path}:1: does not open with `//!` saying what it is"));
        }
        let lines = lines_before_tests(path, text);
        if lines > LONGEST_FILE {
            complaints.push(format!("{path}: {lines} lines before its tests; split it by noun"));
        }
        complaints.extend(forbidden(path, text, UNFINISHED));
    }
    if path != "Cargo.lock" && !path.ends_with("/Cargo.lock") {
        complaints.extend(forbidden(path, text, LOCAL));
    }
    for (document, limit) in LONGEST_DOCUMENT {
        let lines = text.lines().count();
        if path == *document && lines > *limit {
            complaints.push(format!("{path}: {lines} lines; it may have {limit}"));
        }
    }
    complaints
}

fn forbidden(path: &str, text: &str, words: &[&str]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for word in words.iter().filter(|word| contains_word(line, word)) {
            complaints.push(format!("{path}:{}: has {word:?}", index + 1));
        }
    }
    complaints
}

/// Whether `word` occurs and is not the middle of a longer word.
fn contains_word(line: &str, word: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(is_letter);
        let after = line[at + word.len()..].chars().next().is_some_and(is_letter);
        let starts = word.starts_with(is_letter);
        let ends = word.ends_with(is_letter);
        !(before && starts || after && ends)
    })
}

/// Lines up to an inline test module; a file that is all tests counts none.
fn lines_before_tests(path: &str, text: &str) -> usize {
    let all_tests = path.ends_with("/tests.rs") || path.contains("/tests/");
    if all_tests {
        return 0;
    }
    let lines: Vec<&str> = text.lines().collect();
    let inline = lines
        .windows(2)
        .position(|pair| pair[0].trim() == "#[cfg(test)]" && pair[1].trim_end().ends_with('{'));
    inline.unwrap_or(lines.len())
}

/// `docs/adr/0007-slug.md`: each number once.
fn repeated_decision_numbers(paths: &[String]) -> Vec<Complaint> {
    let mut first: HashMap<&str, &str> = HashMap::new();
    let mut complaints = Vec::new();
    for path in paths.iter().filter(|path| path.starts_with("docs/adr/")) {
        let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match name.split_once('-') {
            Some((number, _)) if number.len() == 4 && number.parse::<u16>().is_ok() => {
                if let Some(other) = first.insert(number, path) {
                    complaints.push(format!("{path}: has the number of {other}"));
                }
            }
            _ if name == "README.md" => {}
            _ => complaints.push(format!("{path}: is not named NNNN-slug.md")),
        }
    }
    complaints
}

#[cfg(test)]
mod tests;
