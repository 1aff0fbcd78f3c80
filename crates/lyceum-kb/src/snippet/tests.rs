//! Passages, with what is highlighted in brackets.

use proptest::prelude::*;
use tokio::time::Instant;

use super::*;

fn marked(snippet: &Snippet) -> String {
    let mut text = snippet.text.clone();
    for (start, end) in snippet.highlights.iter().rev() {
        text.insert(*end, ']');
        text.insert(*start, '[');
    }
    text
}

fn find(body: &str, query: &str) -> Snippet {
    snippet(body, MimeType::Markdown, &Query::parse(query), None, body.len())
}

fn passage(body: &str, mime_type: MimeType, query: &str, near: Option<Range<usize>>) -> Snippet {
    snippet(body, mime_type, &Query::parse(query), near, body.len())
}

#[test]
fn only_as_much_as_is_allowed_is_looked_through() {
    let body = format!("# One\n\nbeginning {}\n\n# Two\n\napple pie", filler(1000));
    let at = body.find("apple").unwrap();
    let query = Query::parse("apple");
    let snippet = |near, look| snippet(&body, MimeType::Markdown, &query, near, look);
    assert!(snippet(None, body.len()).text.contains("apple"));
    let short = snippet(None, 100);
    assert!(short.text.starts_with("# One") && short.highlights.is_empty());
    let near = snippet(Some(at..body.len()), 100);
    assert_eq!((&*near.text, near.headings.len()), ("apple pie", 0));
}

#[track_caller]
fn check(body: &str, query: &str, expected: &str) {
    assert_eq!(marked(&find(body, query)), expected, "{query}");
}

fn filler(n: usize) -> String {
    "Nothing of interest is said here. ".repeat(n)
}

#[test]
fn words_are_highlighted_whatever_their_form() {
    check("Rotate the keys.", "how to rotate a key", "[Rotate] the [keys].");
    check("A rotation of keys.", "rotating KEY", "A [rotation] of [keys].");
    check("deployments deployed deployable", "deploy", "[deployments] [deployed] deployable");
    check("the policy, its policies", "policies", "the [policy], its [policies]");
    check("Un café crème", "CAFE creme", "Un [café] [crème]");
    check("cafe\u{301}s", "café", "[cafe\u{301}s]");
    check("keyboard monkey", "key", "keyboard monkey");
    check("東京 タワー", "東京", "[東京] タワー");
    check("ERR_POOL-17 and pool", "err_pool-17", "[ERR]_[POOL]-[17] and [pool]");
}

#[test]
fn a_short_text_is_shown_whole() {
    check("\n\n  one two\n", "two", "one [two]");
    check("", "two", "");
    check("   ", "", "");
}

#[test]
fn the_passage_has_the_most_words() {
    let body = format!("An apple. {}Apple and pear. {}A pear.", filler(30), filler(30));
    let found = find(&body, "apple pear");
    assert!(marked(&found).starts_with("[Apple] and [pear]. Nothing"), "{}", marked(&found));
    assert_eq!(&body[found.start..found.end], found.text);
    assert!((200..=LENGTH).contains(&found.text.chars().count()));
}

#[test]
fn rare_words_count_more_than_frequent_ones() {
    let body = format!("{}{}The quince.{}", "The apple. ".repeat(50), filler(10), filler(10));
    assert!(find(&body, "apple quince").text.contains("quince"));
}

#[test]
fn a_phrase_is_preferred_to_its_words() {
    let body = format!("Pool of a connection. {}A connection pool. {}", filler(20), filler(20));
    assert!(find(&body, "\"connection pool\"").text.starts_with("A connection pool."));
}

#[test]
fn a_passage_begins_and_ends_between_words() {
    let body = "lorem ipsum ".repeat(100) + "needle " + &"dolor sit ".repeat(100);
    let found = find(&body, "needle");
    assert!(found.text.starts_with("lorem") || found.text.starts_with("ipsum"));
    assert!(found.text.ends_with("dolor") || found.text.ends_with("sit"));
    assert!(found.text.contains("needle"));
}

#[test]
fn without_matching_words_the_chunk_is_shown() {
    let body = format!("# A\n\n{}\n\n## B\n\nThe chunk. {}", filler(20), filler(20));
    let at = body.find("The chunk").unwrap();
    let found = passage(&body, MimeType::Markdown, "pear", Some(at..at + 50));
    assert!(found.text.starts_with("The chunk."), "{}", found.text);
    assert_eq!(found.headings, ["A", "B"]);
    assert_eq!(found.highlights, []);
    let start = passage(&body, MimeType::Markdown, "pear", None);
    assert!(start.text.starts_with("# A"));
}

#[test]
fn the_chunk_decides_between_equal_passages() {
    let body = format!("First apple. {}Second apple. {}", filler(20), filler(20));
    let at = body.find("Second").unwrap();
    let found = passage(&body, MimeType::Plain, "apple", Some(at..body.len()));
    assert!(found.text.starts_with("Second apple."));
    assert!(find(&body, "apple").text.starts_with("First apple."));
}

#[test]
fn a_chunk_that_is_not_in_the_text_is_ignored() {
    for (start, end) in [(5, 900), (900, 901), (2, 1), (1, 2)] {
        let near = Some(Range { start, end });
        assert_eq!(passage("éa b", MimeType::Plain, "x", near).text, "éa b");
    }
}

#[test]
fn large_texts_and_queries_take_little_time() {
    let query = (0..200).map(|at| format!("word{at} ")).collect::<String>();
    let bodies =
        ["word1 ".repeat(90_000), "x".repeat(1 << 19), "é ".repeat(1 << 18), filler(15_000)];
    for body in bodies {
        let started = Instant::now();
        let found = find(&body, &query);
        assert!(found.text.chars().count() <= LENGTH);
        // Milliseconds when optimised; what is not linear takes minutes.
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_text_has_a_passage_for_any_query(
        body in "([a-c]{1,3}|[ .\n#]|é|e\u{301}|日|🙂|\u{0}|ﬁ|İ|ß|\\PC){0,400}",
        query in "([a-c]{1,3}|[ \"-]|é|日|İ|ß|\\PC){0,20}",
        near in (0_usize..300, 0_usize..300),
    ) {
        let found = passage(&body, MimeType::Markdown, &query, Some(near.0..near.1));
        prop_assert_eq!(&body[found.start..found.end], &found.text);
        prop_assert!(found.text.chars().count() <= LENGTH);
        prop_assert_eq!(found.text.trim(), &found.text);
        let mut from = 0;
        for (start, end) in &found.highlights {
            prop_assert!(from <= *start && start < end);
            prop_assert!(found.text.get(*start..*end).is_some());
            from = *end;
        }
    }
}
