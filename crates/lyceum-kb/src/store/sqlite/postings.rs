//! Which documents have a word and how much that counts, kept in memory for words that many have.
//!
//! BM25 of several words is the sum of what each counts, so a query needs no more than these lists: adding numbers
//! takes nanoseconds a document, having FTS5 rank takes a microsecond.

use std::sync::Arc;

use rusqlite::{Connection, Rows};

use super::fault::Fault;
use super::memo::{Memo, Version};
use super::pieces;
use crate::Error;
use crate::cancel::CancelFlag;

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

impl Postings {
    /// Keys with what the word counts in each.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, f32)> {
        self.keys.iter().map(|key| *key as usize).zip(self.scores.iter().copied())
    }

    fn bytes(&self) -> usize {
        self.keys.len() * (size_of::<u32>() + size_of::<f32>())
    }

    /// Reads rows of the index with what the word counts in each, unless more than `most` documents have it. What it
    /// counts in a document is what it counts in the best of its pieces.
    pub(super) fn read(mut rows: Rows<'_>, most: usize) -> std::result::Result<Postings, Fault> {
        let mut postings = Postings::default();
        while let Some(row) = rows.next()? {
            let (key, score) = (pieces::document_of_row(row.get(0)?), row.get(1)?);
            let key = u32::try_from(key).map_err(|_| Error::internal("too many documents"))?;
            postings.keys.push(key);
            postings.scores.push(score);
            if postings.keys.len() > most {
                return Ok(Postings { says_nothing: true, ..Postings::default() });
            }
        }
        // First pieces come in the order of their documents, then all others.
        Ok(if postings.keys.is_sorted() { postings } else { postings.best_of_pieces() })
    }

    /// Each document once, with the best of its scores.
    fn best_of_pieces(self) -> Postings {
        let mut all: Vec<(u32, f32)> = self.keys.into_iter().zip(self.scores).collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        all.dedup_by_key(|(key, _)| *key);
        let (keys, scores) = all.into_iter().unzip();
        Postings { keys, scores, says_nothing: false }
    }
}

/// The list of a term as FTS5 writes it, and from when it is. Words that say nothing have an empty one.
pub(super) fn of(
    connection: &Connection,
    cancel: &CancelFlag,
    lists: &Lists,
    quoted: &str,
    now: Version,
) -> std::result::Result<(Arc<Postings>, Version), Fault> {
    let most = if now.last_key < MANY { usize::MAX } else { now.last_key as usize / 2 };
    find(connection, cancel, lists, quoted, most, now)
}

/// The list, whatever the word says.
pub(super) fn in_full(
    connection: &Connection,
    cancel: &CancelFlag,
    lists: &Lists,
    quoted: &str,
    now: Version,
) -> std::result::Result<(Arc<Postings>, Version), Fault> {
    find(connection, cancel, lists, quoted, usize::MAX, now)
}

/// The list that is kept or one that is made now, unless more than `most` documents are in it.
fn find(
    connection: &Connection,
    cancel: &CancelFlag,
    lists: &Lists,
    quoted: &str,
    most: usize,
    now: Version,
) -> std::result::Result<(Arc<Postings>, Version), Fault> {
    let key = quoted.to_owned();
    let known = || {
        let known = lists.get(&key, now);
        known.filter(|(list, _)| !list.says_nothing || most < usize::MAX)
    };
    if let Some(known) = known() {
        return Ok(known);
    }
    // Whoever asks for the same meanwhile waits for it instead of making it as well.
    let _turn = lists.turn(&key, cancel)?;
    if let Some(known) = known() {
        return Ok(known);
    }
    let mut statement = connection.prepare_cached(LIST)?;
    let postings = Postings::read(statement.query([quoted])?, most)?;
    let (bytes, postings) = (key.len() + postings.bytes(), Arc::new(postings));
    if postings.says_nothing || postings.keys.len() >= MIN_KEPT {
        lists.put(key, Arc::clone(&postings), now, bytes);
    }
    Ok((postings, now))
}
