//! Search with a budget: the same answers as without, where that is promised.

use super::super::candidates::Budget;
use super::super::search::{Frequencies, lexical};
use super::super::{SqliteStore, Store};
use super::{create, fresh};
use crate::store::{Filter, LexicalHit};
use crate::{Prefix, Query};

/// 300 documents: `common` in all but ten, `often` in every third, `rare` in five, `single` in one.
async fn fill(store: &SqliteStore) {
    for n in 0..300 {
        let words = [
            (n % 30 != 7, "common "),
            (n % 3 == 0, "often often "),
            (n % 60 == 3, "rare "),
            (n == 50, "single "),
        ];
        let mut body = format!("padding {}", "filler ".repeat(n % 11));
        words.iter().filter(|(there, _)| *there).for_each(|(_, word)| body.push_str(word));
        let path = if n == 4 { "x/often".to_owned() } else { format!("d/{n}") };
        create(store, &path, &body).await.unwrap();
    }
}

async fn search(
    store: &SqliteStore,
    budget: Budget,
    query: &str,
    prefix: &str,
    limit: usize,
) -> Vec<LexicalHit> {
    let filter = Filter { prefix: Prefix::parse(prefix).unwrap(), ..Filter::default() };
    let query = Query::parse(query);
    let frequencies = Frequencies::with_budget(budget);
    let search = move |connection: &rusqlite::Connection| {
        lexical(connection, &frequencies, &query, &filter, limit)
    };
    store.readers.run(search).await.unwrap()
}

const UNLIMITED: Budget = Budget { ranked: usize::MAX >> 1, read: usize::MAX >> 1 };
const TIGHT: Budget = Budget { ranked: 20, read: 150 };

#[tokio::test]
async fn rare_words_are_ranked_as_if_all_documents_were() {
    let fresh = fresh();
    fill(&fresh.store).await;
    let cases = [
        ("rare often", "", 5),
        ("rare often common", "", 5),
        ("rare rare often", "", 5),
        ("single rare often common", "", 6),
        ("often rare", "d/1", 2),
        ("\"often often\" single", "", 1),
        ("nowhere", "", 5),
    ];
    for (query, prefix, limit) in cases {
        let exact = search(&fresh.store, UNLIMITED, query, prefix, limit).await;
        let pruned = search(&fresh.store, TIGHT, query, prefix, limit).await;
        let keys = |hits: &[LexicalHit]| hits.iter().map(|hit| hit.key).collect::<Vec<_>>();
        assert_eq!(keys(&pruned), keys(&exact), "{query}");
        for (pruned, exact) in pruned.iter().zip(&exact) {
            assert!((pruned.score - exact.score).abs() < 0.001, "{query}: {pruned:?} {exact:?}");
        }
    }
}

#[tokio::test]
async fn common_words_fill_the_page() {
    let fresh = fresh();
    fill(&fresh.store).await;
    for (query, prefix, limit, expected) in [
        ("common", "", 50, 50),
        ("often common", "", 50, 50),
        ("single common", "", 50, 50),
        ("often", "d/29", 50, 3),
        ("often", "nowhere/", 50, 0),
        ("common", "", 1000, 290),
    ] {
        let found = search(&fresh.store, TIGHT, query, prefix, limit).await;
        assert_eq!(found.len(), expected, "{query} {prefix}");
        assert!(found.windows(2).all(|pair| pair[0].score >= pair[1].score));
    }
}

#[tokio::test]
async fn a_title_with_a_common_word_is_found_first() {
    let fresh = fresh();
    fill(&fresh.store).await;
    let found = search(&fresh.store, TIGHT, "often", "", 3).await;
    let first = fresh.store.documents_by_key(&[found[0].key]).await.unwrap();
    assert_eq!(first[0].meta.path.as_str(), "x/often");
}
