//! Finding documents by words and by filter.
//!
//! Statements are constants and everything a caller says is bound, so no text of theirs is ever read as SQL.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::types::{ToSql, Value};
use rusqlite::{Connection, params};

use super::candidates::{self, Budget, Step, Term};
use super::fault::Fault;
use super::row::upper;
use crate::query::Query;
use crate::store::{Filter, LexicalHit};

/// Whether `document` passes the filter bound to ?1 to ?4. Most have no tags, and opening an empty list for every
/// document costs more than all the rest.
macro_rules! passes {
    () => {
        " document.deleted_at IS NULL AND document.path >= ?1 AND document.path < ?2 \
         AND document.updated_at >= ?3 \
         AND (?4 = '[]' OR NOT EXISTS (SELECT 1 FROM json_each(?4) AS wanted WHERE NOT EXISTS \
         (SELECT 1 FROM tag WHERE tag.tag = wanted.value AND tag.document = document.key))) "
    };
}

const RANK: &str = "SELECT rowid, -rank FROM lexical WHERE lexical MATCH ?1 AND rowid >= ?2 \
                    ORDER BY rank LIMIT ?3";

/// Among few documents. The plus sign keeps FTS5 from being asked for them one by one, and sorting by an expression
/// keeps it from ranking documents that do not pass.
const RANK_AMONG: &str = "SELECT rowid, -rank FROM lexical WHERE lexical MATCH ?1 AND rowid >= ?2 \
                          AND +rowid IN (SELECT value FROM json_each(?4)) ORDER BY 2 DESC LIMIT ?3";

/// Among many. The words come first: CROSS keeps the order.
const RANK_FILTERED: &str = concat!(
    "SELECT lexical.rowid, -lexical.rank FROM lexical CROSS JOIN document ON document.key = lexical.rowid \
     WHERE lexical MATCH ?5 AND lexical.rowid >= ?6 AND",
    passes!(),
    "ORDER BY 2 DESC LIMIT ?7"
);

/// Documents that match, counted up to a limit.
const COUNT: &str =
    "SELECT count(*) FROM (SELECT rowid FROM lexical WHERE lexical MATCH ?1 LIMIT ?2)";

/// The last of the newest documents that match.
const NEWEST: &str = "SELECT min(rowid) FROM (SELECT rowid FROM lexical WHERE lexical MATCH ?1 \
                      ORDER BY rowid DESC LIMIT ?2)";

/// Up to ?1 keys under a prefix; the index has all it takes.
const MATCHING_PREFIX: &str = "SELECT key FROM document \
                               WHERE deleted_at IS NULL AND path >= ?2 AND path < ?3 LIMIT ?1";

/// Up to ?1 keys with a tag and others; only living documents have tags.
const MATCHING_TAGS: &str = "SELECT first.document FROM tag AS first WHERE first.tag = ?2 \
                             AND NOT EXISTS (SELECT 1 FROM json_each(?3) AS wanted WHERE NOT EXISTS \
                             (SELECT 1 FROM tag WHERE tag.tag = wanted.value AND tag.document = first.document)) \
                             LIMIT ?1";

/// Up to ?5 keys that pass everything.
const MATCHING: &str = concat!("SELECT document.key FROM document WHERE", passes!(), "LIMIT ?5");

/// The same, beginning with the documents that have a tag.
const MATCHING_TAG: &str = concat!(
    "SELECT document.key FROM tag AS first CROSS JOIN document ON document.key = first.document \
     WHERE first.tag = ?6 AND",
    passes!(),
    "LIMIT ?5"
);

/// How many documents are few: beyond that, looking each one up is cheaper than listing them first.
const FEW: usize = 20_000;

/// The values bound to ?1 to ?4.
struct Bound {
    from: String,
    to: Value,
    since: i64,
    tags: String,
}

/// How many documents have the common words, so that these need not be counted for every query.
#[derive(Debug, Default)]
pub(super) struct Frequencies {
    known: Mutex<Known>,
    budget: Budget,
}

#[derive(Debug, Default)]
struct Known {
    documents_of: HashMap<String, usize>,
    /// How many documents there were when counting began.
    n_documents: usize,
}

/// How many common words are remembered.
const MAX_KNOWN: usize = 4096;

/// A search under way.
struct Search<'a> {
    connection: &'a Connection,
    among: Among,
    limit: usize,
    budget: Budget,
}

/// Which documents may be found.
enum Among {
    All,
    /// These keys, as a JSON array.
    Few(String),
    Many(Bound),
}

impl Frequencies {
    #[cfg(test)]
    pub(super) fn with_budget(budget: Budget) -> Frequencies {
        Frequencies { budget, ..Frequencies::default() }
    }

    /// How many documents match; exact for rare words, as of some time ago for common ones.
    fn of(
        &self,
        connection: &Connection,
        quoted: &str,
        n_documents: usize,
    ) -> std::result::Result<usize, Fault> {
        if let Some(known) = self.known(n_documents).documents_of.get(quoted) {
            return Ok(*known);
        }
        let counted = count(connection, quoted, self.budget.ranked + 1)?;
        if counted <= self.budget.ranked {
            return Ok(counted);
        }
        let counted = count(connection, quoted, usize::MAX)?;
        self.known(n_documents).documents_of.insert(quoted.to_owned(), counted);
        Ok(counted)
    }

    /// What is known, forgotten when there is too much of it or when there are a quarter more documents.
    fn known(&self, n_documents: usize) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.documents_of.len() >= MAX_KNOWN || n_documents > known.n_documents / 4 * 5 {
            *known = Known { documents_of: HashMap::new(), n_documents };
        }
        known
    }
}

pub(super) fn lexical(
    connection: &Connection,
    frequencies: &Frequencies,
    query: &Query,
    filter: &Filter,
    limit: usize,
) -> std::result::Result<Vec<LexicalHit>, Fault> {
    let among = among(connection, filter)?;
    if matches!(&among, Among::Few(keys) if keys == "[]") {
        return Ok(Vec::new());
    }
    let n_documents = about_how_many(connection)?;
    let terms = terms(connection, frequencies, query, n_documents)?;
    let everything = candidates::any(&terms);
    let plan = candidates::plan(terms, n_documents, frequencies.budget);
    let search = Search { connection, among, limit, budget: frequencies.budget };
    let mut hits: HashMap<i64, f32> = HashMap::new();
    for (n, step) in plan.steps.iter().enumerate() {
        if n < plan.needed || hits.len() < limit {
            for (key, score) in search.take(step)? {
                hits.entry(key).and_modify(|best| *best = best.max(score)).or_insert(score);
            }
        }
    }
    // A filter may have left little of the chosen documents; then all are looked at, however long that takes.
    if let Some(everything) = everything.filter(|_| plan.pruned && hits.len() < limit) {
        hits.extend(search.rank(&everything, i64::MIN)?);
    }
    let mut hits: Vec<LexicalHit> =
        hits.into_iter().map(|(key, score)| LexicalHit { key, score }).collect();
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.key.cmp(&b.key)));
    hits.truncate(limit);
    Ok(hits)
}

/// The query's terms as FTS5 writes them, each once.
fn terms(
    connection: &Connection,
    frequencies: &Frequencies,
    query: &Query,
    n_documents: usize,
) -> std::result::Result<Vec<Term>, Fault> {
    let mut terms: Vec<Term> = Vec::new();
    for term in query.terms() {
        let quoted = term.fts5();
        match terms.iter_mut().find(|known| known.quoted == quoted) {
            Some(known) => known.times += 1,
            None => {
                let documents = frequencies.of(connection, &quoted, n_documents)?;
                terms.push(Term { quoted, times: 1, documents });
            }
        }
    }
    Ok(terms)
}

/// Keys are given in order and hardly ever to documents that are gone.
fn about_how_many(connection: &Connection) -> std::result::Result<usize, Fault> {
    let sql = "SELECT coalesce(max(key), 0) FROM document";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

fn count(
    connection: &Connection,
    expression: &str,
    limit: usize,
) -> std::result::Result<usize, Fault> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    Ok(connection.prepare_cached(COUNT)?.query_row(params![expression, limit], |row| row.get(0))?)
}

impl Search<'_> {
    /// The best documents of one step, with their scores.
    fn take(&self, step: &Step) -> std::result::Result<Vec<(i64, f32)>, Fault> {
        let ranked = self.budget.ranked;
        match step {
            Step::Rank { expression } => self.rank(expression, i64::MIN),
            Step::RankDoubled { expression } => {
                let hits = self.rank(expression, i64::MIN)?;
                Ok(hits.into_iter().map(|(key, score)| (key, score / 2.0)).collect())
            }
            Step::RankIfFew { expression, counted } => {
                if count(self.connection, counted, ranked + 1)? > ranked {
                    return Ok(Vec::new());
                }
                self.rank(expression, i64::MIN)
            }
            Step::RankNewest { expression } => {
                let last: Option<i64> = self
                    .connection
                    .prepare_cached(NEWEST)?
                    .query_row(params![expression, ranked], |row| row.get(0))?;
                self.rank(expression, last.unwrap_or(i64::MAX))
            }
        }
    }

    /// The best documents from a key on.
    fn rank(&self, expression: &str, from: i64) -> std::result::Result<Vec<(i64, f32)>, Fault> {
        let limit = &self.limit;
        let run = |sql, arguments: &[&dyn ToSql]| {
            let mut statement = self.connection.prepare_cached(sql)?;
            let rows = statement.query_map(arguments, |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<_>>()
        };
        let hits = match &self.among {
            Among::All => run(RANK, &[&expression, &from, limit]),
            Among::Few(keys) => run(RANK_AMONG, &[&expression, &from, limit, keys]),
            Among::Many(Bound { from: lowest, to, since, tags }) => {
                run(RANK_FILTERED, &[lowest, to, since, tags, &expression, &from, limit])
            }
        };
        Ok(hits?)
    }
}

fn among(connection: &Connection, filter: &Filter) -> std::result::Result<Among, Fault> {
    if filter.is_empty() {
        return Ok(Among::All);
    }
    let keys = keys(connection, filter, FEW + 1)?;
    if keys.len() > FEW {
        return Ok(Among::Many(bound(filter)));
    }
    Ok(Among::Few(serde_json::to_string(&keys).expect("numbers can be written as JSON")))
}

pub(super) fn matching(
    connection: &Connection,
    filter: &Filter,
) -> std::result::Result<HashSet<i64>, Fault> {
    Ok(keys(connection, filter, usize::MAX)?.into_iter().collect())
}

/// Up to `limit` keys of living documents that pass the filter, by the shortest way.
fn keys(
    connection: &Connection,
    filter: &Filter,
    limit: usize,
) -> std::result::Result<Vec<i64>, Fault> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let any_time = filter.updated_since.is_none();
    let anywhere = filter.prefix.as_str().is_empty();
    let Bound { from, to, since, tags } = bound(filter);
    let run = |sql, arguments: &[&dyn ToSql]| {
        let mut statement = connection.prepare_cached(sql)?;
        statement.query_map(arguments, |row| row.get(0))?.collect::<rusqlite::Result<_>>()
    };
    let found = match filter.tags.first() {
        None if any_time => run(MATCHING_PREFIX, &[&limit, &from, &to]),
        None => run(MATCHING, &[&from, &to, &since, &tags, &limit]),
        Some(tag) if any_time && anywhere => run(MATCHING_TAGS, &[&limit, tag, &tags]),
        Some(tag) => run(MATCHING_TAG, &[&from, &to, &since, &tags, &limit, tag]),
    };
    Ok(found?)
}

fn bound(filter: &Filter) -> Bound {
    Bound {
        from: filter.prefix.as_str().to_owned(),
        to: upper(filter.prefix.end()),
        since: filter.updated_since.unwrap_or(i64::MIN),
        tags: serde_json::to_string(&filter.tags).expect("texts can be written as JSON"),
    }
}
