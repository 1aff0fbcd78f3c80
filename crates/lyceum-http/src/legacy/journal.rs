//! The file that remembers ended sessions across restarts: `key expiry` per line, appended as they
//! end and rewritten before it grows without bound.
//!
//! Endpoints of one process may share a file, and so may processes: each follows what the others add
//! ([`JournalFollower`]), and a lock on the file keeps them from adding to one that is being rewritten.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// An ended session: its key, and when its id would have expired anyway.
pub(super) type Ended = (u128, u64);

/// Expired lines that are not worth rewriting the file for when it is opened.
const STALE: usize = 1024;

/// How often the lock is tried that another process has, a millisecond apart. One that has it for longer
/// is stuck, and is not waited for.
const LOCK_ATTEMPTS: usize = 20;

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
    /// When the file cannot be read or written. One that does not exist is made, for its owner only.
    pub(super) fn open(path: &Path, now: u64) -> io::Result<(Arc<Self>, Vec<Ended>)> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, journal| journal.strong_count() > 0);
        let mut file = open_private(path)?;
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

    /// Where the file is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Remembers one more. Of more than twice `limit`, all but the `limit` that expire last are
    /// forgotten.
    pub(super) fn add(&self, (key, expiry): Ended, limit: usize, now: u64) {
        let mut state = self.lock();
        state.lines += 1;
        let written =
            self.lock_file(&mut state).and_then(|()| writeln!(state.file, "{key:032x} {expiry}"));
        if let Err(error) = written {
            let path = self.path.display();
            tracing::error!("cannot remember that a session ended in {path}: {error}");
        }
        if state.lines > 2 * limit {
            self.rewrite(&mut state, limit, now);
        }
        // A file that was replaced has lost its lock with its last handle.
        let _ = state.file.unlock();
    }

    /// Locks the file against other processes, after opening the one that is there now if another
    /// process has replaced it.
    fn lock_file(&self, state: &mut State) -> io::Result<()> {
        for _ in 0..LOCK_ATTEMPTS {
            let is_locked = state.file.try_lock().is_ok();
            if FileId::of(&state.file.metadata()?) != FileId::at(&self.path) {
                state.file = open_private(&self.path)?;
            } else if is_locked {
                return Ok(());
            } else {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        Ok(())
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
    let _ = fs::remove_file(&fresh);
    let mut file = open_private(Path::new(&fresh))?;
    file.write_all(lines.as_bytes())?;
    fs::rename(&fresh, path)?;
    Ok(file)
}

/// Opens a file to append to, creates it if it does not exist, and sets its mode to 0600.
fn open_private(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(file)
}

/// Tells one file from another that took its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    #[cfg(unix)]
    fn of(file: &fs::Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        Some(Self(file.dev(), file.ino()))
    }

    #[cfg(not(unix))]
    fn of(_: &fs::Metadata) -> Option<Self> {
        None
    }

    fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().and_then(|file| Self::of(&file))
    }
}

/// Reads what is added to a journal, by this process or another.
#[derive(Debug)]
pub(super) struct JournalFollower {
    path: PathBuf,
    id: Option<FileId>,
    /// Bytes read so far.
    read: u64,
}

impl JournalFollower {
    /// Follows the journal at `path` from its beginning.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, id: None, read: 0 }
    }

    /// Whether there is something new to read. Cheap.
    pub(super) fn has_news(&self) -> bool {
        fs::metadata(&self.path)
            .is_ok_and(|file| FileId::of(&file) != self.id || file.len() != self.read)
    }

    /// What was added since it was last called, as far as it has not expired at `now`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn news(&mut self, now: u64) -> io::Result<Vec<Ended>> {
        let mut file = fs::File::open(&self.path)?;
        let (id, length) = (FileId::of(&file.metadata()?), file.metadata()?.len());
        if id != self.id || length < self.read {
            (self.id, self.read) = (id, 0);
        }
        file.seek(SeekFrom::Start(self.read))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        // The last line may be under way.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.read += whole as u64;
        Ok(unexpired(&String::from_utf8_lossy(&text[..whole]), now))
    }
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

    #[cfg(unix)]
    #[test]
    fn journals_are_for_their_owner_only_old_ones_too() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ended");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        drop(Journal::open(&path, 0).unwrap());
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let (journal, _) = Journal::open(&path, 0).unwrap();
        assert_eq!(mode(), 0o600);
        (0..25).for_each(|key| journal.add((key, 100), 10, 0));
        assert_eq!(mode(), 0o600, "a rewritten one as well");
    }

    #[test]
    fn a_follower_hears_what_is_added_and_survives_a_rewriting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ended");
        let (journal, _) = Journal::open(&path, 0).unwrap();
        let mut follower = JournalFollower::new(path.clone());
        journal.add((1, 100), 10, 0);
        assert!(follower.has_news());
        assert_eq!(follower.news(0).unwrap(), [(1, 100)]);
        assert!(!follower.has_news() && follower.news(0).unwrap().is_empty());
        // Another process, whose line is under way at first.
        let mut elsewhere = fs::OpenOptions::new().append(true).open(&path).unwrap();
        write!(elsewhere, "{:032x} 10", 2).unwrap();
        assert!(follower.news(0).unwrap().is_empty());
        writeln!(elsewhere, "0").unwrap();
        assert_eq!(follower.news(0).unwrap(), [(2, 100)]);
        // It rewrites the file, and what this process adds goes to the new one.
        drop(write_anew(&path, &[(3, 100)]).unwrap());
        journal.add((4, 100), 10, 0);
        assert_eq!(follower.news(0).unwrap(), [(3, 100), (4, 100)]);
    }
}
