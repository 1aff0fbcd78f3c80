//! Queries of every kind, and FTS5 itself as the judge of the expressions.

use proptest::prelude::*;
use rusqlite::Connection;

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(Query::parse(text).fts5().unwrap_or_default(), expected, "{text:?}");
}

/// Whether the expression finds the body; panics on what FTS5 does not take for an expression.
fn matches(expression: &str, body: &str) -> bool {
    let db = Connection::open_in_memory().unwrap();
    db.execute_batch(
        "CREATE VIRTUAL TABLE t USING fts5(body, tokenize = 'porter unicode61 remove_diacritics 2')",
    )
    .unwrap();
    db.execute("INSERT INTO t VALUES (?1)", [body]).unwrap();
    db.query_row("SELECT count(*) FROM t WHERE t MATCH ?1", [expression], |row| row.get(0)).unwrap()
}

#[test]
fn words_are_lowered_and_joined_by_or() {
    check("Rotate Keys", r#""rotate" OR "keys""#);
    check("  rotate,keys;now ", r#""rotate" OR "keys" OR "now""#);
    check("Élan ÜBER 東京", r#""élan" OR "über" OR "東京""#);
}

#[test]
fn stop_words_go_unless_nothing_else_remains() {
    check("how do I rotate the keys?", r#""rotate" OR "keys""#);
    check("to be or not to be", r#""to" OR "be" OR "or" OR "not" OR "to" OR "be""#);
    check("don't panic", r#""don" OR "panic""#);
}

#[test]
fn repeated_words_stay_repeated() {
    check("keys keys Keys", r#""keys" OR "keys" OR "keys""#);
}

#[test]
fn quotes_keep_words_together() {
    check(r#""Connection Pool" size"#, r#""connection pool" OR "size""#);
    check("“to be” again", r#""to be" OR "again""#);
    check(r#"a 19" rack"#, r#""19" OR "rack""#);
    check(r#""" " " x"#, r#""x""#);
}

#[test]
fn identifiers_are_searched_in_parts_and_whole() {
    check("ERR_POOL-17", r#""err" OR "pool" OR "17" OR "err pool 17""#);
    check("config.toml.", r#""config" OR "toml" OR "config toml""#);
    check("-x -", r#""x""#);
}

#[test]
fn operators_are_words_or_nothing() {
    check("alpha AND beta", r#""alpha" OR "beta""#);
    check("NEAR(alpha beta, 2)", r#""near" OR "alpha" OR "beta" OR "2""#);
    check("title:alpha^2 + beta*", r#""title" OR "alpha" OR "title alpha" OR "2" OR "beta""#);
}

#[test]
fn without_words_there_is_nothing_to_match() {
    for text in ["", "   ", "🙂 !? ()", "\"\"", "***", "\0", "-- ; '"] {
        assert_eq!(Query::parse(text).fts5(), None, "{text:?}");
    }
}

#[test]
fn long_queries_are_cut() {
    for text in ["word ".repeat(2_000), "x".repeat(10_000), format!("\"{}\"", "a b ".repeat(2_500))]
    {
        let query = Query::parse(&text);
        assert!((1..=MAX_TERMS).contains(&query.terms().len()));
        assert!(query.terms().iter().all(|term| term.words().len() <= MAX_PHRASE));
        assert_eq!(query.text(), text.trim());
        matches(&query.fts5().unwrap(), "body");
    }
}

#[test]
fn phrases_beyond_the_bound_become_words() {
    let text: String = (0..64).map(|n| format!("\"alpha beta{n} gamma\" ")).collect();
    let query = Query::parse(&text);
    let phrases = query.terms().iter().filter(|term| term.words().len() > 1).count();
    assert_eq!(phrases, MAX_PHRASES);
    let distinct: HashSet<&Term> = query.terms().iter().collect();
    assert!(distinct.len() <= MAX_DISTINCT);
    assert!(query.terms().contains(&Term::word("beta8".to_owned())));
    // The same phrase many times is one.
    let query = Query::parse(&"\"alpha beta\" ".repeat(20));
    assert_eq!(query.terms().len(), 20);
}

#[test]
fn a_query_keeps_its_beginning_only() {
    assert!(Query::parse(&"é".repeat(10 << 20)).text().len() <= MAX_TEXT);
}

#[test]
fn fts5_finds_what_was_asked_for() {
    let body = "Rotating the signing keys of a café: see ERR_POOL-17.";
    for (text, expected) in [
        ("how do I rotate a key?", true),
        ("CAFE", true),
        ("err_pool-17", true),
        ("\"signing keys\"", true),
        ("\"keys signing\"", false),
        ("pools", true),
        ("unrelated", false),
    ] {
        let expression = Query::parse(text).fts5().unwrap();
        assert_eq!(matches(&expression, body), expected, "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn every_text_is_a_query_that_fts5_accepts(text in any::<String>()) {
        if let Some(expression) = Query::parse(&text).fts5() {
            matches(&expression, &text);
        }
    }

    #[test]
    fn every_mix_of_syntax_is_a_query_that_fts5_accepts(
        text in r#"([\"'*^:(){}+\-]|NEAR|AND|OR|NOT| |a|é|\u{0301}|日|🙂|\u{0})*"#,
    ) {
        if let Some(expression) = Query::parse(&text).fts5() {
            matches(&expression, &text);
        }
    }
}
