//! Which documents pass a filter: a set of keys for each tag and prefix, and every document's time, kept in memory.

use std::sync::Arc;

use rusqlite::types::{ToSql, Value};
use rusqlite::{Connection, params};

use super::fault::Fault;
use super::memo::{Memo, Version};
use super::row::upper;
use crate::document::Millis;
use crate::store::Filter;
use crate::{Keys, Prefix};

/// What is known about documents.
#[derive(Debug)]
pub(super) struct Facets {
    keys: Memo<Facet, Keys>,
    times: Memo<(), Times>,
}

/// One thing a filter asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Facet {
    Tag(String),
    Prefix(Prefix),
}

/// When each living document was last written, by key.
#[derive(Debug, Clone, Default)]
struct Times(Vec<Option<Millis>>);

const KEYS_BYTES: usize = 16 * 1024 * 1024;
const TIMES_BYTES: usize = 256 * 1024 * 1024;

/// Only living documents have tags.
const TAGGED: &str = "SELECT document FROM tag WHERE tag = ?1";
const TAGGED_AMONG: &str = "SELECT document FROM tag WHERE tag = ?1 \
                            AND document IN (SELECT value FROM json_each(?2))";

/// The index has all it takes.
const UNDER: &str =
    "SELECT key FROM document WHERE deleted_at IS NULL AND path >= ?1 AND path < ?2";
const UNDER_AMONG: &str = "SELECT key FROM document WHERE key IN (SELECT value FROM json_each(?3)) \
                           AND deleted_at IS NULL AND path >= ?1 AND path < ?2";

const TIMES: &str = "SELECT key, updated_at FROM document WHERE deleted_at IS NULL";
const TIMES_AMONG: &str = "SELECT key, updated_at FROM document \
                           WHERE key IN (SELECT value FROM json_each(?1)) AND deleted_at IS NULL";

impl Default for Facets {
    fn default() -> Facets {
        Facets { keys: Memo::new(KEYS_BYTES), times: Memo::new(TIMES_BYTES) }
    }
}

impl Facets {
    /// Keys of living documents that pass the filter.
    pub(super) fn passing(
        &self,
        connection: &Connection,
        filter: &Filter,
        now: Version,
    ) -> std::result::Result<Arc<Keys>, Fault> {
        let Filter { tags, prefix, updated_since } = filter;
        let tags = tags.iter().map(|tag| Facet::Tag(tag.clone()));
        let anywhere = prefix.as_str().is_empty();
        let prefix = (!anywhere || filter.tags.is_empty() && updated_since.is_none())
            .then(|| Facet::Prefix(prefix.clone()));
        let mut passing: Option<Arc<Keys>> = None;
        for facet in tags.chain(prefix) {
            let keys = self.of(connection, facet, now)?;
            passing = Some(match passing {
                None => keys,
                Some(passing) => Arc::new(passing.and(&keys)),
            });
        }
        let Some(since) = *updated_since else { return Ok(passing.unwrap_or_default()) };
        let times = self.times(connection, now)?;
        Ok(Arc::new(match passing {
            None => times.since(since).collect(),
            Some(passing) => passing.iter().filter(|key| times.is_since(*key, since)).collect(),
        }))
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> (usize, usize) {
        (self.keys.len(), self.keys.bytes())
    }

    fn of(
        &self,
        connection: &Connection,
        facet: Facet,
        now: Version,
    ) -> std::result::Result<Arc<Keys>, Fault> {
        let keys = match self.keys.get(&facet, now) {
            Some((keys, version)) if version == now => return Ok(keys),
            Some((keys, version)) => {
                let changed = version.changed_since(connection)?;
                let mut keys = Keys::clone(&keys);
                changed.iter().for_each(|key| keys.remove(*key));
                let again = facet.among(connection, &json(&changed))?;
                again.into_iter().for_each(|key| keys.insert(key));
                keys
            }
            None => facet.all(connection)?.into_iter().collect(),
        };
        let (bytes, keys) = (facet.text().len() + keys.bytes(), Arc::new(keys));
        // Callers can make up any number of facets that no document has.
        if !keys.is_empty() {
            self.keys.put(facet, Arc::clone(&keys), now, bytes);
        }
        Ok(keys)
    }

    fn times(
        &self,
        connection: &Connection,
        now: Version,
    ) -> std::result::Result<Arc<Times>, Fault> {
        let (mut times, rows) = match self.times.get(&(), now) {
            Some((times, version)) if version == now => return Ok(times),
            Some((times, version)) => {
                let changed = version.changed_since(connection)?;
                let mut times = Times::clone(&times);
                changed.iter().for_each(|key| times.set(*key, None));
                (times, pairs(connection, TIMES_AMONG, &[&json(&changed)])?)
            }
            None => (Times::default(), pairs(connection, TIMES, &[])?),
        };
        rows.into_iter().for_each(|(key, time)| times.set(key, Some(time)));
        let (bytes, times) = (times.0.len() * size_of::<Option<Millis>>(), Arc::new(times));
        self.times.put((), Arc::clone(&times), now, bytes);
        Ok(times)
    }
}

impl Facet {
    fn text(&self) -> &str {
        match self {
            Facet::Tag(tag) => tag,
            Facet::Prefix(prefix) => prefix.as_str(),
        }
    }

    fn all(&self, connection: &Connection) -> std::result::Result<Vec<i64>, Fault> {
        match self {
            Facet::Tag(tag) => keys(connection, TAGGED, &[tag]),
            Facet::Prefix(prefix) => keys(connection, UNDER, params![prefix.as_str(), end(prefix)]),
        }
    }

    /// The same among the documents of a JSON array.
    fn among(
        &self,
        connection: &Connection,
        changed: &String,
    ) -> std::result::Result<Vec<i64>, Fault> {
        match self {
            Facet::Tag(tag) => keys(connection, TAGGED_AMONG, &[tag, changed]),
            Facet::Prefix(prefix) => {
                keys(connection, UNDER_AMONG, params![prefix.as_str(), end(prefix), changed])
            }
        }
    }
}

impl Times {
    fn set(&mut self, key: i64, time: Option<Millis>) {
        let Ok(key) = usize::try_from(key) else { return };
        if self.0.len() <= key {
            self.0.resize(key + 1, None);
        }
        self.0[key] = time;
    }

    fn is_since(&self, key: i64, since: Millis) -> bool {
        let time = usize::try_from(key).ok().and_then(|key| self.0.get(key).copied()?);
        time.is_some_and(|time| time >= since)
    }

    fn since(&self, since: Millis) -> impl Iterator<Item = i64> {
        let times = self.0.iter().enumerate();
        times
            .filter(move |(_, time)| time.is_some_and(|time| time >= since))
            .map(|(at, _)| at as i64)
    }
}

fn end(prefix: &Prefix) -> Value {
    upper(prefix.end())
}

fn keys(
    connection: &Connection,
    sql: &str,
    arguments: &[&dyn ToSql],
) -> std::result::Result<Vec<i64>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let keys = statement.query_map(arguments, |row| row.get(0))?;
    Ok(keys.collect::<rusqlite::Result<_>>()?)
}

fn pairs(
    connection: &Connection,
    sql: &str,
    arguments: &[&dyn ToSql],
) -> std::result::Result<Vec<(i64, Millis)>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let pairs = statement.query_map(arguments, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(pairs.collect::<rusqlite::Result<_>>()?)
}

/// Keys as SQLite reads lists.
pub(super) fn json(keys: &[i64]) -> String {
    serde_json::to_string(keys).expect("numbers can be written as JSON")
}
