//! The file that remembers ended sessions across restarts: `key expiry` per line, appended as they
//! end and rewritten before it grows without bound.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// An ended session: its key, and when its id would have expired anyway.
pub(super) type Ended = (u128, u64);

/// The open file.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: fs::File,
    lines: usize,
}

impl Journal {
    /// Opens the journal at `path`, and returns what it remembers that has not expired at `now`.
    ///
    /// # Errors
    /// When the file cannot be read or written. One that does not exist is made.
    pub(super) fn open(path: &Path, now: u64) -> io::Result<(Self, Vec<Ended>)> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        let ended = text.lines().filter_map(parse_line).filter(|(_, expiry)| *expiry > now);
        let ended: Vec<_> = ended.collect();
        let file = write_anew(path, &ended)?;
        Ok((Self { path: path.to_owned(), file, lines: ended.len() }, ended))
    }

    /// Remembers one more.
    pub(super) fn add(&mut self, (key, expiry): Ended) {
        self.lines += 1;
        if let Err(error) = writeln!(self.file, "{key:032x} {expiry}") {
            let path = self.path.display();
            tracing::error!("cannot remember that a session ended in {path}: {error}");
        }
    }

    /// How many lines the file has.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    /// Forgets everything but `ended`.
    pub(super) fn rewrite(&mut self, ended: &[Ended]) {
        match write_anew(&self.path, ended) {
            Ok(file) => (self.file, self.lines) = (file, ended.len()),
            Err(error) => {
                // Try again after as many lines, not after each.
                self.lines = 0;
                tracing::error!("cannot rewrite {}: {error}", self.path.display());
            }
        }
    }
}

/// Written beside and renamed, so that a crash leaves the old file or the new one.
fn write_anew(path: &Path, ended: &[Ended]) -> io::Result<fs::File> {
    let lines: String =
        ended.iter().map(|(key, expiry)| format!("{key:032x} {expiry}\n")).collect();
    let fresh = path.with_extension("new");
    fs::write(&fresh, lines)?;
    fs::rename(&fresh, path)?;
    fs::OpenOptions::new().append(true).open(path)
}

fn parse_line(line: &str) -> Option<Ended> {
    let (key, expiry) = line.split_once(' ')?;
    Some((u128::from_str_radix(key, 16).ok()?, expiry.parse().ok()?))
}
