//! Searches that remember: the same answers as those that do not, whatever was written meanwhile.

use rusqlite::Connection;

use super::super::fault::Fault;
use super::super::search::{Memory, lexical, matching};
use super::super::{SqliteStore, Store};
use super::{create, fresh};
use crate::cancel::CancelFlag;
use crate::store::{Filter, LexicalHit};
use crate::write::{Actor, Change, Fields, Write};
use crate::{DocPath, Keys, Prefix, Query};

/// Words that hundreds of documents have, so that their lists are kept, and one that few have.
fn body(n: usize) -> String {
    let words = [(n % 20 != 7, "common "), (n % 2 == 1, "often often "), (n % 60 == 3, "rare ")];
    let padding = format!("padding {}", "filler ".repeat(n % 11));
    let words = words.iter().filter(|(there, _)| *there).map(|(_, word)| *word);
    words.fold(padding, |body, word| body + word)
}

async fn write(store: &SqliteStore, path: &str, change: Change) {
    let (path, by) = (DocPath::parse(path).unwrap(), Actor::default());
    let write = Write { path, change, expected_revision: None, idempotency: None, by };
    store.write(write).await.unwrap();
}

async fn fill(store: &SqliteStore) {
    for n in 0..800 {
        create(store, &format!("d{}/{n}", n % 3), &body(n)).await.unwrap();
    }
}

/// A change of every kind.
async fn change(store: &SqliteStore) {
    let tags = |tag: &str| Fields { tags: Some(vec![tag.to_owned()]), ..Fields::default() };
    let text = |body: &str| Fields { body: Some(body.to_owned()), ..Fields::default() };
    write(store, "d0/0", Change::Delete).await;
    write(store, "d1/1", Change::Update(text("often rare rare rare"))).await;
    write(store, "d2/2", Change::Update(text("nothing of it"))).await;
    write(store, "d0/3", Change::Update(tags("often"))).await;
    write(store, "d0/0", Change::Upsert(text("back again, common and rare"))).await;
    write(store, "d1/4", Change::Delete).await;
    create(store, "d1/new", "often common rare").await.unwrap();
}

async fn ask<T: Send + 'static>(
    store: &SqliteStore,
    question: impl FnOnce(&Connection) -> std::result::Result<T, Fault> + Send + 'static,
) -> T {
    store.readers.run(question).await.unwrap()
}

async fn afresh(store: &SqliteStore, query: &str, filter: &Filter) -> Vec<LexicalHit> {
    let (query, filter) = (Query::parse(query), filter.clone());
    ask(store, move |connection| {
        lexical(connection, &CancelFlag::default(), &Memory::default(), &query, &filter, 20)
    })
    .await
}

fn filters() -> Vec<Filter> {
    let prefix = |prefix: &str| Prefix::parse(prefix).unwrap();
    let everything = Filter::default();
    vec![
        everything.clone(),
        Filter { prefix: prefix("d1/"), ..everything.clone() },
        Filter { tags: vec!["often".to_owned()], ..everything.clone() },
        Filter { updated_since: Some(1), ..everything.clone() },
        Filter { updated_since: Some(1), prefix: prefix("d0/"), ..everything.clone() },
        Filter { updated_since: Some(i64::MAX), ..everything },
    ]
}

const QUERIES: [&str; 7] = [
    "common",
    "often",
    "often rare",
    "common often often",
    "rare",
    "\"often often\" rare",
    "nowhere",
];

#[tokio::test]
async fn what_is_remembered_answers_like_what_is_read() {
    let fresh = fresh();
    let store = &fresh.store;
    fill(store).await;
    for round in 0..3 {
        for filter in filters() {
            for query in QUERIES {
                let remembered = store.lexical(&Query::parse(query), &filter, 20).await.unwrap();
                let read = afresh(store, query, &filter).await;
                let keys = |hits: &[LexicalHit]| hits.iter().map(|hit| hit.key).collect::<Vec<_>>();
                assert_eq!(keys(&remembered), keys(&read), "{round} {query} {filter:?}");
            }
            let of = filter.clone();
            let read = ask(store, move |connection| {
                matching(connection, &Memory::default(), &of).map(|keys| Keys::clone(&keys))
            });
            assert_eq!(*store.matching(&filter).await.unwrap(), read.await, "{filter:?}");
        }
        // The first round makes the lists, the second uses them, the third must see what changed.
        if round == 1 {
            change(store).await;
        }
    }
}

#[tokio::test]
async fn scores_are_those_of_fts5() {
    let fresh = fresh();
    let store = &fresh.store;
    fill(store).await;
    change(store).await;
    let sql =
        "SELECT rowid, -rank FROM lexical WHERE lexical MATCH ?1 ORDER BY rank, rowid LIMIT 20";
    for query in QUERIES {
        let expression = Query::parse(query).fts5().unwrap();
        let expected: Vec<(i64, f32)> = ask(store, move |connection| {
            let mut statement = connection.prepare(sql)?;
            let rows = statement.query_map([expression], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await;
        let found = store.lexical(&Query::parse(query), &Filter::default(), 20).await.unwrap();
        assert_eq!(found.len(), expected.len());
        for (hit, (_, score)) in found.iter().zip(expected) {
            assert!((hit.score - score).abs() < 1e-4 * score, "{query}: {hit:?} {score}");
        }
    }
}
