//! The file that remembers ended sessions across restarts: `key expiry` per line, appended as they
//! end and rewritten before it grows without bound.
//!
//! Endpoints of one process may share a file. Another process, such as the one that is being
//! replaced, may append to it too, but loses what it adds once this one rewrites the file.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// An ended session: its key, and when its id would have expired anyway.
pub(super) type Ended = (u128, u64);

/// Expired lines that are not worth rewriting the file for when it is opened.
const STALE: usize = 1024;

/// The journals this process has open. A second handle on the same file would go on writing to the
/// old one after the first rewrote it.
static OPEN: Mutex<BTreeMap<PathBuf, Weak<Journal>>> = Mutex::new(BTreeMap::new());

/// The open file.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: fs::File,
    lines: usize,
}

impl Journal {
    /// Opens the journal at `path`, and returns what it remembers that has not expired at `now`.
    ///
    /// # Errors
    /// When the file cannot be read or written. One that does not exist is made.
    pub(super) fn open(path: &Path, now: u64) -> io::Result<(Arc<Self>, Vec<Ended>)> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, journal| journal.strong_count() > 0);
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path)?;
        let path = fs::canonicalize(path)?;
        if let Some(journal) = open.get(&path).and_then(Weak::upgrade) {
            let state = journal.lock();
            let ended = unexpired(&fs::read_to_string(&path)?, now);
            drop(state);
            return Ok((journal, ended));
        }
        let text = fs::read_to_string(&path)?;
        if !text.is_empty() && !text.ends_with('\n') {
            // A crash cut the last line short; the next must not become part of it.
            file.write_all(b"\n")?;
        }
        let ended = unexpired(&text, now);
        let mut lines = text.lines().count();
        if lines > 2 * ended.len() + STALE {
            (file, lines) = (write_anew(&path, &ended)?, ended.len());
        }
        let state = Mutex::new(State { file, lines });
        let journal = Arc::new(Self { path: path.clone(), state });
        open.insert(path, Arc::downgrade(&journal));
        Ok((journal, ended))
    }

    /// Remembers one more. Of more than twice `limit`, all but the `limit` that expire last are
    /// forgotten.
    pub(super) fn add(&self, (key, expiry): Ended, limit: usize, now: u64) {
        let mut state = self.lock();
        state.lines += 1;
        if let Err(error) = writeln!(state.file, "{key:032x} {expiry}") {
            let path = self.path.display();
            tracing::error!("cannot remember that a session ended in {path}: {error}");
        }
        if state.lines > 2 * limit {
            self.rewrite(&mut state, limit, now);
        }
    }

    fn rewrite(&self, state: &mut State, limit: usize, now: u64) {
        let rewritten = fs::read_to_string(&self.path).and_then(|text| {
            let mut ended = unexpired(&text, now);
            ended.sort_unstable_by_key(|(_, expiry)| *expiry);
            let newest = &ended[ended.len().saturating_sub(limit)..];
            Ok((write_anew(&self.path, newest)?, newest.len()))
        });
        match rewritten {
            Ok((file, lines)) => *state = State { file, lines },
            Err(error) => {
                // Try again after as many lines, not after each.
                state.lines = 0;
                tracing::error!("cannot rewrite {}: {error}", self.path.display());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Written beside and renamed, so that a crash leaves the old file or the new one.
fn write_anew(path: &Path, ended: &[Ended]) -> io::Result<fs::File> {
    let lines: String =
        ended.iter().map(|(key, expiry)| format!("{key:032x} {expiry}\n")).collect();
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    fs::write(&fresh, lines)?;
    fs::rename(&fresh, path)?;
    fs::OpenOptions::new().append(true).open(path)
}

fn unexpired(text: &str, now: u64) -> Vec<Ended> {
    text.lines().filter_map(parse_line).filter(|(_, expiry)| *expiry > now).collect()
}

fn parse_line(line: &str) -> Option<Ended> {
    let (key, expiry) = line.split_once(' ')?;
    Some((u128::from_str_radix(key, 16).ok()?, expiry.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_shared_by_two_loses_nothing_when_one_rewrites_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ended");
        let (one, _) = Journal::open(&path, 0).unwrap();
        one.add((0, 50), 10, 0);
        let indirect = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &indirect).unwrap();
        let (other, ended) = Journal::open(&indirect, 0).unwrap();
        assert_eq!(ended, [(0, 50)]);
        for key in 1..=25 {
            one.add((key, 100), 10, 0);
        }
        other.add((1000, 200), 10, 0);
        drop((one, other));
        let (_, ended) = Journal::open(&path, 0).unwrap();
        assert!(ended.len() < 21, "it was rewritten: {ended:?}");
        assert!(ended.contains(&(1000, 200)) && ended.contains(&(25, 100)), "{ended:?}");
        assert!(!ended.contains(&(0, 50)), "those that expire first are forgotten first");
    }

    #[test]
    fn opening_neither_replaces_a_file_in_use_nor_keeps_what_expired() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ended");
        fs::write(&path, format!("{:032x} 100\n{:032x} 5\n{:032x} 1", 1, 2, 3)).unwrap();
        // Another process that is about to end.
        let mut elsewhere = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let (journal, ended) = Journal::open(&path, 50).unwrap();
        assert_eq!(ended, [(1, 100)]);
        writeln!(elsewhere, "{:032x} 100", 4).unwrap();
        journal.add((5, 100), 10, 50);
        drop(journal);
        assert_eq!(Journal::open(&path, 50).unwrap().1, [(1, 100), (4, 100), (5, 100)]);
        let expired: String = (0..2 * STALE).map(|key| format!("{key:032x} 5\n")).collect();
        fs::write(&path, expired).unwrap();
        let (journal, ended) = Journal::open(&path, 50).unwrap();
        assert!(ended.is_empty() && fs::read_to_string(&path).unwrap().is_empty());
        journal.add((6, 100), 10, 50);
        assert_eq!(unexpired(&fs::read_to_string(&path).unwrap(), 50), [(6, 100)]);
    }
}
