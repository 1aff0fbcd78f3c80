//! Search by words and by filter.

use lyceum_kb::store::{Filter, Store};
use lyceum_kb::{Change, Fields, Prefix, Query};

use super::{create, delete, done, get, tagged, text, update, write};

async fn found(store: &dyn Store, query: &str, filter: &Filter, limit: usize) -> Vec<String> {
    let hits = store.lexical(&Query::parse(query), filter, limit).await.unwrap();
    assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score), "best first");
    let mut paths = Vec::new();
    for hit in hits {
        let documents = store.documents_by_key(&[hit.key]).await.unwrap();
        paths.push(documents[0].meta.path.as_str().to_owned());
    }
    paths
}

async fn check(store: &dyn Store, query: &str, expected: &[&str]) {
    assert_eq!(found(store, query, &Filter::default(), 10).await, expected, "{query:?}");
}

pub(crate) async fn words_find_living_documents(store: &dyn Store) {
    create(store, "guides/café.md", "How to connect the espresso machines").await;
    check(store, "connecting machine", &["guides/café.md"]).await;
    check(store, "CAFE", &["guides/café.md"]).await;
    check(store, "guide", &["guides/café.md"]).await;
    check(store, "tea", &[]).await;
    update(store, "guides/café.md", "Only tea").await;
    check(store, "tea", &["guides/café.md"]).await;
    check(store, "espresso", &[]).await;
    let tags = Fields { tags: Some(vec!["beverage".to_owned()]), ..Fields::default() };
    done(store, write("guides/café.md", Change::Update(tags))).await;
    check(store, "beverage tea", &["guides/café.md"]).await;
    delete(store, "guides/café.md").await;
    check(store, "tea", &[]).await;
    create(store, "guides/café.md", "More tea").await;
    check(store, "tea", &["guides/café.md"]).await;
}

pub(crate) async fn titles_count_more_than_bodies(store: &dyn Store) {
    create(store, "a", "backup words words words").await;
    let fields = Fields { title: Some("Backup".to_owned()), ..text("words words words words") };
    done(store, write("b", Change::Create(fields))).await;
    create(store, "c", "something else entirely here").await;
    check(store, "backup", &["b", "a"]).await;
}

pub(crate) async fn a_filter_is_applied_before_the_limit(store: &dyn Store) {
    for n in 0..20 {
        create(store, &format!("loud/{n}"), "word word word word").await;
    }
    create(store, "quiet/1", "word and a lot of other things that make it less relevant").await;
    let filter = Filter { prefix: Prefix::parse("quiet/").unwrap(), ..Filter::default() };
    assert_eq!(found(store, "word", &filter, 1).await, ["quiet/1"]);
}

pub(crate) async fn filters_combine(store: &dyn Store) {
    for (at, tags) in [("x/1", &["a", "b"][..]), ("x/2", &["a"]), ("y/1", &["a", "b"])] {
        done(store, write(at, Change::Create(tagged("word", tags)))).await;
    }
    let filter = |tags: &[&str], prefix: &str, updated_since| Filter {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        prefix: Prefix::parse(prefix).unwrap(),
        updated_since,
    };
    let newest = get(store, "y/1").await.meta.updated_at;
    let cases = [
        (filter(&["a"], "", None), &["x/1", "x/2", "y/1"][..]),
        (filter(&["a", "b"], "", None), &["x/1", "y/1"]),
        (filter(&["a", "b"], "x/", None), &["x/1"]),
        (filter(&["a", "none"], "", None), &[]),
        (filter(&[], "x", None), &["x/1", "x/2"]),
        (filter(&[], "", Some(newest + 1)), &[]),
        (filter(&["a"], "y/", Some(newest)), &["y/1"]),
    ];
    for (filter, expected) in cases {
        let mut paths = found(store, "word", &filter, 10).await;
        paths.sort();
        assert_eq!(paths, expected, "{filter:?}");
    }
}

pub(crate) async fn odd_queries_are_never_an_error(store: &dyn Store) {
    create(store, "a", "plain words").await;
    let long = "word ".repeat(2000);
    let queries = [
        "",
        "\"",
        "\"\"",
        "*",
        "a AND",
        "NOT",
        "(",
        "NEAR(a b",
        "title:x",
        "-",
        "^a",
        "a\0b",
        "😀",
        "'; DROP TABLE document; --",
        "\u{202e}",
        "{a b}",
        "a + b",
        &long,
    ];
    for query in queries {
        store.lexical(&Query::parse(query), &Filter::default(), 5).await.unwrap();
    }
    check(store, "words\" OR \"", &["a"]).await;
}

pub(crate) async fn text_in_a_filter_is_never_sql(store: &dyn Store) {
    create(store, "a", "word").await;
    for evil in ["' OR 1=1 --", "\"", "%", "\\", "'); DROP TABLE tag; --", "[\"x\"]", "\u{0}"] {
        let filter = Filter { tags: vec![evil.to_owned()], ..Filter::default() };
        assert!(found(store, "word", &filter, 10).await.is_empty());
        assert!(store.matching(&filter).await.unwrap().is_empty());
        let filter = Filter { prefix: Prefix::parse(evil).unwrap(), ..Filter::default() };
        assert!(store.matching(&filter).await.unwrap().is_empty());
        if evil == "\u{0}" {
            // No document has such a tag.
            continue;
        }
        done(store, write("b", Change::Upsert(tagged("word", &[evil])))).await;
        let filter = Filter { tags: vec![evil.to_owned()], ..Filter::default() };
        assert_eq!(found(store, "word", &filter, 10).await, ["b"]);
    }
}

pub(crate) async fn matching_gives_the_keys(store: &dyn Store) {
    for (at, tags) in [("x/1", &["a", "b"][..]), ("x/2", &["a"]), ("y/1", &["a", "b"])] {
        done(store, write(at, Change::Create(tagged("word", tags)))).await;
    }
    delete(store, "y/1").await;
    let (first, second) = (get(store, "x/1").await.meta.key, get(store, "x/2").await.meta.key);
    let tags = |tags: &[&str]| Filter {
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        ..Filter::default()
    };
    assert_eq!(*store.matching(&Filter::default()).await.unwrap(), [first, second].into());
    assert_eq!(*store.matching(&tags(&["a"])).await.unwrap(), [first, second].into());
    assert_eq!(*store.matching(&tags(&["b", "a"])).await.unwrap(), [first].into());
    let prefix = Filter { prefix: Prefix::parse("x/2").unwrap(), ..Filter::default() };
    assert_eq!(*store.matching(&prefix).await.unwrap(), [second].into());
}
