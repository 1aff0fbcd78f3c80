//! What was worked out from all documents once, kept in memory together with how far the documents had come then.
//!
//! Every write of any process adds a row to the history, so what changed since is one range of that table. Whoever
//! uses something kept looks at the documents that changed since by themselves, and takes the rest as it was.
//!
//! Callers choose the keys, so a key counts against the budget like its value, and so does the entry itself.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use rusqlite::Connection;

use super::fault::Fault;
use crate::Result;
use crate::cancel::CancelFlag;

/// How far the documents have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    /// Writes so far, up to the first one whose words are not all in the index.
    pub(super) writes: i64,
    /// The last key that was given.
    pub(super) last_key: i64,
}

/// Values by key; those not used for the longest time are forgotten when there are too many.
#[derive(Debug)]
pub(super) struct Memo<K, V> {
    known: Mutex<Known<K, V>>,
    max_bytes: usize,
    /// Held while a value is worked out; keys share them by their hash.
    turns: [Mutex<()>; TURNS],
    hashes: RandomState,
}

const TURNS: usize = 64;
/// What an entry costs beyond its value and the text of its key. Generous, so that there are never so many entries
/// that looking for the oldest takes long.
const ENTRY_BYTES: usize = 512;
/// How often a search that waits for another one's work looks whether it should stop.
const WAIT: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct Known<K, V> {
    values: HashMap<K, Kept<V>>,
    bytes: usize,
    /// Counts uses.
    clock: u64,
}

#[derive(Debug)]
struct Kept<V> {
    value: Arc<V>,
    version: Version,
    bytes: usize,
    used: u64,
}

const VERSION: &str = "SELECT coalesce((SELECT min(write) - 1 FROM lexical_pending), \
                       (SELECT max(rowid) FROM revision), 0), \
                       coalesce((SELECT max(key) FROM document), 0)";

pub(super) const CHANGED: &str = "SELECT document FROM revision WHERE rowid > ?1";

impl Version {
    pub(super) fn of(connection: &Connection) -> std::result::Result<Version, Fault> {
        Ok(connection
            .prepare_cached(VERSION)?
            .query_row([], |row| Ok(Version { writes: row.get(0)?, last_key: row.get(1)? }))?)
    }

    /// Whether what was known then can still serve: few documents changed, and their number is about the same.
    pub(super) fn is_near(self, now: Version) -> bool {
        let changes = now.writes - self.writes;
        let growth = now.last_key - self.last_key;
        // A file that was put in order may count anew; then nothing is known.
        let newer = changes >= 0 && growth >= 0;
        newer && changes <= 500.max(now.last_key / 20) && growth <= self.last_key / 10
    }

    /// The documents that changed after this, each once.
    pub(super) fn changed_since(
        self,
        connection: &Connection,
    ) -> std::result::Result<Vec<i64>, Fault> {
        let mut statement = connection.prepare_cached(CHANGED)?;
        let keys = statement.query_map([self.writes], |row| row.get(0))?;
        let keys = keys.collect::<rusqlite::Result<BTreeSet<i64>>>()?;
        Ok(keys.into_iter().collect())
    }
}

impl<K: Hash + Eq + Clone, V> Memo<K, V> {
    pub(super) fn new(max_bytes: usize) -> Memo<K, V> {
        let known = Known { values: HashMap::new(), bytes: 0, clock: 0 };
        let turns = [const { Mutex::new(()) }; TURNS];
        Memo { known: Mutex::new(known), max_bytes, turns, hashes: RandomState::new() }
    }

    /// What is kept, and from when, if it still serves.
    pub(super) fn get(&self, key: &K, now: Version) -> Option<(Arc<V>, Version)> {
        let mut known = self.lock();
        known.clock += 1;
        let clock = known.clock;
        let kept = known.values.get_mut(key).filter(|kept| kept.version.is_near(now))?;
        kept.used = clock;
        Some((Arc::clone(&kept.value), kept.version))
    }

    /// The right to work out the value of a key, which at most one has at a time (single-flight).
    ///
    /// # Errors
    /// When the search is cancelled while it waits.
    pub(super) fn turn(&self, key: &K, cancel: &CancelFlag) -> Result<MutexGuard<'_, ()>> {
        let turn = &self.turns[self.hashes.hash_one(key) as usize % TURNS];
        loop {
            match turn.try_lock() {
                Ok(turn) => return Ok(turn),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => cancel.check()?,
            }
            std::thread::sleep(WAIT);
        }
    }

    /// Keeps the value unless it alone is too large. `bytes` are those of the value and of the key's text.
    pub(super) fn put(&self, key: K, value: Arc<V>, version: Version, bytes: usize) {
        let bytes = bytes + ENTRY_BYTES;
        let mut known = self.lock();
        known.forget(&key);
        if bytes > self.max_bytes {
            return;
        }
        while known.bytes + bytes > self.max_bytes {
            let Some(oldest) = known.oldest() else { break };
            known.forget(&oldest);
        }
        let used = known.clock;
        known.bytes += bytes;
        known.values.insert(key, Kept { value, version, bytes, used });
    }

    /// How much all entries take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().values.len()
    }

    fn lock(&self) -> MutexGuard<'_, Known<K, V>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq + Clone, V> Known<K, V> {
    fn oldest(&self) -> Option<K> {
        self.values.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| key.clone())
    }

    fn forget(&mut self, key: &K) {
        if let Some(kept) = self.values.remove(key) {
            self.bytes -= kept.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(writes: i64, last_key: i64) -> Version {
        Version { writes, last_key }
    }

    #[test]
    fn what_is_kept_serves_until_much_has_changed() {
        for (then, now, serves) in [
            (at(10, 10), at(10, 10), true),
            (at(1000, 900), at(1500, 900), true),
            (at(1000, 900), at(1501, 900), false),
            (at(90_000, 80_000), at(94_000, 80_000), true),
            (at(90_000, 80_000), at(94_001, 80_000), false),
            (at(100, 100), at(110, 110), true),
            (at(100, 100), at(111, 111), false),
            (at(100, 100), at(99, 100), false),
        ] {
            assert_eq!(then.is_near(now), serves, "{then:?} {now:?}");
        }
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_is_forgotten() {
        // In units of an entry's own cost: one unit for the entry, the rest for what it holds.
        let memo = Memo::new(10 * ENTRY_BYTES);
        let now = at(1, 1);
        let put = |key, units: usize| memo.put(key, Arc::new(key), now, (units - 1) * ENTRY_BYTES);
        let known = |key| memo.get(&key, now).is_some();
        put('a', 4);
        put('b', 4);
        assert!(known('b') && known('a'));
        put('c', 4);
        assert!(known('a') && known('c') && !known('b'));
        put('d', 11);
        assert!(known('a') && known('c') && !known('d'));
        put('a', 10);
        assert!(known('a') && !known('c'));
    }
}
