//! Which documents have a word and how much that counts, kept in memory for words that many have.
//!
//! BM25 of several words is the sum of what each counts, so a query needs no more than these lists: adding numbers
//! takes nanoseconds a document, having FTS5 rank takes a microsecond.

use std::sync::Arc;

use rusqlite::{Connection, params};

use super::fault::Fault;
use super::memo::{Memo, Version};

/// The documents with a word or phrase, by key.
#[derive(Debug, Default)]
pub(super) struct Postings {
    keys: Vec<u32>,
    scores: Vec<f32>,
    /// More than half of all documents have it, so it weighs nothing in BM25, and the list was not made.
    pub(super) says_nothing: bool,
}

pub(super) type Lists = Memo<String, Postings>;

/// How much memory lists may take.
pub(super) const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Shorter lists are made anew for every query, which is as quick as asking what changed.
const MIN_KEPT: usize = 256;
/// With fewer documents than this, words that say nothing are not worth looking for.
const MANY: i64 = 20_000;

const LIST: &str = "SELECT rowid, -rank FROM lexical WHERE lexical MATCH ?1";

/// Documents that match, counted up to a limit.
const COUNT: &str =
    "SELECT count(*) FROM (SELECT rowid FROM lexical WHERE lexical MATCH ?1 LIMIT ?2)";

impl Postings {
    /// Keys with what the word counts in each.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, f32)> {
        self.keys.iter().map(|key| *key as usize).zip(self.scores.iter().copied())
    }

    fn bytes(&self) -> usize {
        self.keys.len() * (size_of::<u32>() + size_of::<f32>()) + 64
    }
}

/// The list of a term as FTS5 writes it, and from when it is. Words that say nothing have an empty one.
pub(super) fn of(
    connection: &Connection,
    lists: &Lists,
    quoted: &str,
    now: Version,
) -> std::result::Result<(Arc<Postings>, Version), Fault> {
    if let Some(known) = lists.get(&quoted.to_owned(), now) {
        return Ok(known);
    }
    if now.last_key >= MANY && is_said_by_most(connection, quoted, now)? {
        let nothing = Postings { says_nothing: true, ..Postings::default() };
        return Ok((keep(lists, quoted, nothing, now), now));
    }
    in_full(connection, lists, quoted, now)
}

/// The list, whatever the word says.
pub(super) fn in_full(
    connection: &Connection,
    lists: &Lists,
    quoted: &str,
    now: Version,
) -> std::result::Result<(Arc<Postings>, Version), Fault> {
    let known = lists.get(&quoted.to_owned(), now);
    if let Some(known) = known.filter(|(list, _)| !list.says_nothing) {
        return Ok(known);
    }
    let mut postings = Postings::default();
    let mut statement = connection.prepare_cached(LIST)?;
    let mut rows = statement.query([quoted])?;
    while let Some(row) = rows.next()? {
        postings.keys.push(row.get(0)?);
        postings.scores.push(row.get(1)?);
    }
    if postings.keys.len() < MIN_KEPT {
        return Ok((Arc::new(postings), now));
    }
    Ok((keep(lists, quoted, postings, now), now))
}

fn keep(lists: &Lists, quoted: &str, postings: Postings, now: Version) -> Arc<Postings> {
    let (bytes, postings) = (postings.bytes(), Arc::new(postings));
    lists.put(quoted.to_owned(), Arc::clone(&postings), now, bytes);
    postings
}

fn is_said_by_most(
    connection: &Connection,
    quoted: &str,
    now: Version,
) -> std::result::Result<bool, Fault> {
    let half = now.last_key / 2;
    let counted: i64 =
        connection.prepare_cached(COUNT)?.query_row(params![quoted, half + 1], |row| row.get(0))?;
    Ok(counted > half)
}
