//! Replacing passages of a text, each of which must occur exactly once.

use memchr::memmem;

use crate::{Code, Error, Result};

/// How many places are named when a passage is ambiguous.
const MAX_LINES: usize = 20;

/// One passage and what takes its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    pub old: String,
    pub new: String,
}

/// Applies `edits` in order, each to the text the one before left; all or nothing.
pub(crate) fn apply(body: &str, edits: &[Replacement]) -> Result<String> {
    if edits.is_empty() {
        return Err(Error::invalid("edits: give at least one"));
    }
    let mut text = body.to_owned();
    for (index, edit) in edits.iter().enumerate() {
        let at = find_once(&text, &edit.old).map_err(|error| error.with("edit", index))?;
        text.replace_range(at..at + edit.old.len(), &edit.new);
    }
    Ok(text)
}

/// Where `old` begins, if it occurs exactly once; overlapping occurrences count.
fn find_once(text: &str, old: &str) -> Result<usize> {
    if old.is_empty() {
        return Err(Error::invalid("old_str: give the passage to replace, at least one character"));
    }
    let finder = memmem::Finder::new(old);
    let Some(first) = finder.find(text.as_bytes()) else {
        return Err(Error::new(
            Code::NotFoundInContent,
            "old_str does not occur in the document; read it again and copy the passage exactly",
        )
        .with("occurrences", 0));
    };
    if finder.find(&text.as_bytes()[first + 1..]).is_none() {
        return Ok(first);
    }
    let (count, lines) = count_occurrences(text.as_bytes(), old.as_bytes());
    Err(Error::new(
        Code::Ambiguous,
        format!("old_str occurs {count} times; add surrounding text until it occurs once"),
    )
    .with("occurrences", count)
    .with("lines", lines))
}

/// Counts the occurrences of `old`, overlapping ones too, and names the lines of the first few.
///
/// Knuth-Morris-Pratt, so the time is linear however repetitive the text is. UTF-8 is self-synchronizing: a match of
/// bytes is a match of characters.
fn count_occurrences(text: &[u8], old: &[u8]) -> (usize, Vec<usize>) {
    let borders = borders(old);
    let (mut count, mut lines) = (0, Vec::new());
    let (mut line, mut counted, mut matched) = (1, 0, 0);
    for (at, byte) in text.iter().enumerate() {
        while matched > 0 && (matched == old.len() || old[matched] != *byte) {
            matched = borders[matched - 1];
        }
        matched += usize::from(old[matched] == *byte);
        if matched == old.len() {
            count += 1;
            if lines.len() < MAX_LINES {
                let start = at + 1 - old.len();
                line += memchr::memchr_iter(b'\n', &text[counted..start]).count();
                counted = start;
                lines.push(line);
            }
        }
    }
    (count, lines)
}

/// For every prefix of `old`, how long its longest proper prefix is that is also its suffix.
fn borders(old: &[u8]) -> Vec<usize> {
    let mut borders = vec![0; old.len()];
    let mut matched = 0;
    for at in 1..old.len() {
        while matched > 0 && old[matched] != old[at] {
            matched = borders[matched - 1];
        }
        matched += usize::from(old[matched] == old[at]);
        borders[at] = matched;
    }
    borders
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use tokio::time::{Duration, Instant};

    use super::*;

    fn edits(pairs: &[(&str, &str)]) -> Vec<Replacement> {
        pairs
            .iter()
            .map(|(old, new)| Replacement { old: (*old).to_owned(), new: (*new).to_owned() })
            .collect()
    }

    #[track_caller]
    fn applies(body: &str, pairs: &[(&str, &str)], expected: &str) {
        assert_eq!(apply(body, &edits(pairs)).unwrap(), expected);
    }

    #[track_caller]
    fn refuses(body: &str, pairs: &[(&str, &str)], code: Code, details: serde_json::Value) {
        let error = apply(body, &edits(pairs)).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert_eq!(json!(error.details()), details);
    }

    #[test]
    fn edits_apply_in_order_to_the_text_before() {
        applies("one two", &[("one", "1")], "1 two");
        applies("one two", &[("one", "three"), ("three two", "done")], "done");
        applies("a", &[("a", "")], "");
        applies("naïve 🙂", &[("🙂", "🙃")], "naïve 🙃");
    }

    #[test]
    fn a_passage_must_occur_exactly_once() {
        refuses("x", &[("y", "z")], Code::NotFoundInContent, json!({"occurrences": 0, "edit": 0}));
        refuses(
            "aaa",
            &[("aa", "b")],
            Code::Ambiguous,
            json!({"occurrences": 2, "lines": [1, 1], "edit": 0}),
        );
        refuses(
            "x\ny\nx",
            &[("y", "z"), ("x", "z")],
            Code::Ambiguous,
            json!({"occurrences": 2, "lines": [1, 3], "edit": 1}),
        );
        refuses(
            "ééé",
            &[("éé", "e")],
            Code::Ambiguous,
            json!({"occurrences": 2, "lines": [1, 1], "edit": 0}),
        );
        refuses("x", &[("", "z")], Code::InvalidArgument, json!({"edit": 0}));
        refuses("x", &[], Code::InvalidArgument, json!({}));
    }

    #[test]
    fn a_passage_that_occurs_a_million_times_is_counted_but_not_listed() {
        let error = apply(&"a".repeat(1_000_000), &edits(&[("a", "b")])).unwrap_err();
        assert_eq!(error.details()["occurrences"], 1_000_000);
        assert_eq!(error.details()["lines"].as_array().unwrap().len(), MAX_LINES);
    }

    /// Counts the plain way.
    fn counted(text: &str, old: &str) -> (usize, Vec<usize>) {
        let starts: Vec<usize> = (0..text.len())
            .filter(|at| text.as_bytes()[*at..].starts_with(old.as_bytes()))
            .collect();
        let line = |at: &usize| text[..*at].matches('\n').count() + 1;
        (starts.len(), starts.iter().take(MAX_LINES).map(line).collect())
    }

    proptest! {
        #[test]
        fn occurrences_are_counted_as_by_hand(text in "[ab\né]{0,60}", old in "[ab\né]{1,4}") {
            prop_assert_eq!(
                count_occurrences(text.as_bytes(), old.as_bytes()),
                counted(&text, &old)
            );
        }
    }

    #[test]
    fn repetitive_text_is_searched_in_linear_time() {
        // Comparing at every place takes 4 × 10^12 steps, which is hours.
        let started = Instant::now();
        let text = "a".repeat(4 << 20);
        let error = apply(&text, &edits(&[(&text[..2 << 20], "b")])).unwrap_err();
        assert_eq!(error.details()["occurrences"], (2 << 20) + 1);
        let almost = "a".repeat(2 << 20) + "b";
        let error = apply(&text, &edits(&[(&almost, "b")])).unwrap_err();
        assert_eq!(error.code(), Code::NotFoundInContent);
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    }
}
