//! Finding documents by words and by filter.
//!
//! Statements are constants and everything a caller says is bound, so no text of theirs is ever read as SQL.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::facets::{Facets, json};
use super::fault::Fault;
use super::memo::{Memo, Version};
use super::pieces::document_of;
use super::postings::{self, Lists, Postings};
use crate::Keys;
use crate::cancel::CancelFlag;
use crate::query::Query;
use crate::store::{Filter, LexicalHit};

/// Among few documents. FTS5 sees an expression, so that it is not asked for them one by one.
const RANK_AMONG: &str = concat!(
    "SELECT rowid, -rank FROM lexical WHERE lexical MATCH ?1 AND ",
    document_of!("rowid"),
    " IN (SELECT value FROM json_each(?2))"
);

/// What searches remember about the documents.
#[derive(Debug)]
pub(super) struct Memory {
    lists: Lists,
    facets: Facets,
}

/// A word or phrase of a query, as FTS5 writes it.
struct Term {
    quoted: String,
    /// How often the query says it; it counts as often.
    times: usize,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { lists: Memo::new(postings::MAX_BYTES), facets: Facets::default() }
    }
}

#[cfg(test)]
impl Memory {
    /// How many filters are kept, and what they take.
    pub(super) fn kept_filters(&self) -> (usize, usize) {
        self.facets.kept()
    }
}

pub(super) fn matching(
    connection: &Connection,
    memory: &Memory,
    filter: &Filter,
) -> std::result::Result<Arc<Keys>, Fault> {
    memory.facets.passing(connection, filter, Version::of(connection)?)
}

pub(super) fn lexical(
    connection: &Connection,
    cancel: &CancelFlag,
    memory: &Memory,
    query: &Query,
    filter: &Filter,
    limit: usize,
) -> std::result::Result<Vec<LexicalHit>, Fault> {
    let now = Version::of(connection)?;
    let passing = match filter.is_empty() {
        true => None,
        false => Some(memory.facets.passing(connection, filter, now)?),
    };
    if passing.as_ref().is_some_and(|keys| keys.is_empty()) {
        return Ok(Vec::new());
    }
    let terms = terms(query);
    let (lists, since) = lists(connection, cancel, &memory.lists, &terms, now)?;
    let mut scores = sum(&terms, &lists, now);
    if since != now {
        score_again(connection, &terms, &since.changed_since(connection)?, &mut scores)?;
    }
    let passes = |key| passing.as_ref().is_none_or(|keys| keys.contains(key));
    let found = scores.iter().enumerate().filter(|(_, score)| **score > 0.0);
    let hits = found.map(|(key, score)| LexicalHit { key: key as i64, score: *score });
    Ok(best(hits.filter(|hit| passes(hit.key)).collect(), limit))
}

/// The query's terms, each once.
fn terms(query: &Query) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    for quoted in query.terms().iter().map(|term| term.fts5()) {
        match terms.iter_mut().find(|known| known.quoted == quoted) {
            Some(known) => known.times += 1,
            None => terms.push(Term { quoted, times: 1 }),
        }
    }
    terms
}

/// The list of each term, and from when the oldest of them is.
fn lists(
    connection: &Connection,
    cancel: &CancelFlag,
    lists: &Lists,
    terms: &[Term],
    now: Version,
) -> std::result::Result<(Vec<Arc<Postings>>, Version), Fault> {
    type Listed = (Arc<Postings>, Version);
    type Find =
        fn(&Connection, &CancelFlag, &Lists, &str, Version) -> std::result::Result<Listed, Fault>;
    let all = |find: Find| {
        terms
            .iter()
            .map(|term| find(connection, cancel, lists, &term.quoted, now))
            .collect::<std::result::Result<Vec<Listed>, Fault>>()
    };
    let mut found = all(postings::of)?;
    // Words that say nothing are all there is to go by.
    if found.iter().all(|(list, _)| list.says_nothing) {
        found = all(postings::in_full)?;
    }
    let since = found.iter().map(|(_, version)| *version).min_by_key(|version| version.writes);
    Ok((found.into_iter().map(|(list, _)| list).collect(), since.unwrap_or(now)))
}

/// What the terms count in each document, by key.
fn sum(terms: &[Term], lists: &[Arc<Postings>], now: Version) -> Vec<f32> {
    let mut scores = vec![0.0; usize::try_from(now.last_key).unwrap_or_default() + 1];
    for (term, list) in terms.iter().zip(lists) {
        for (key, score) in list.iter() {
            // A list may be newer than what this search sees.
            if let Some(sum) = scores.get_mut(key) {
                *sum += score * term.times as f32;
            }
        }
    }
    scores
}

/// Ranks the documents that changed since the lists were made.
///
/// Term by term: BM25 is a sum over terms, and FTS5 takes time and memory for each occurrence of any of them times
/// their number when it is asked for all of them at once.
fn score_again(
    connection: &Connection,
    terms: &[Term],
    changed: &[i64],
    scores: &mut [f32],
) -> std::result::Result<(), Fault> {
    let place = |key: i64| usize::try_from(key).ok().filter(|key| *key < scores.len());
    let mut again: HashMap<usize, f32> =
        changed.iter().filter_map(|key| Some((place(*key)?, 0.0))).collect();
    let changed = json(changed);
    let mut statement = connection.prepare_cached(RANK_AMONG)?;
    for term in terms {
        let list = Postings::read(statement.query(params![term.quoted, changed])?, usize::MAX)?;
        for (key, score) in list.iter() {
            again.entry(key).and_modify(|sum| *sum += score * term.times as f32);
        }
    }
    again.into_iter().for_each(|(key, score)| scores[key] = score);
    Ok(())
}

/// The best `limit`, best first, equals by key.
fn best(mut hits: Vec<LexicalHit>, limit: usize) -> Vec<LexicalHit> {
    let order = |a: &LexicalHit, b: &LexicalHit| -> Ordering {
        b.score.total_cmp(&a.score).then(a.key.cmp(&b.key))
    };
    if hits.len() > limit && limit > 0 {
        hits.select_nth_unstable_by(limit - 1, order);
    }
    hits.truncate(limit);
    hits.sort_by(order);
    hits
}
