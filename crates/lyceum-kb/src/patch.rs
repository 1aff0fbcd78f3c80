//! Replacing passages of a text, each of which must occur exactly once.

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
    let mut places = occurrences(text, old);
    let Some(first) = places.next() else {
        return Err(Error::new(
            Code::NotFoundInContent,
            "old_str does not occur in the document; read it again and copy the passage exactly",
        )
        .with("occurrences", 0));
    };
    let mut count = 1;
    let mut lines = vec![line_of(text, first)];
    for place in places {
        count += 1;
        if lines.len() < MAX_LINES {
            lines.push(line_of(text, place));
        }
    }
    if count == 1 {
        return Ok(first);
    }
    Err(Error::new(
        Code::Ambiguous,
        format!("old_str occurs {count} times; add surrounding text until it occurs once"),
    )
    .with("occurrences", count)
    .with("lines", lines))
}

fn occurrences<'a>(text: &'a str, old: &'a str) -> impl Iterator<Item = usize> + 'a {
    let mut from = 0;
    std::iter::from_fn(move || {
        let place = from + text[from..].find(old)?;
        from = place + text[place..].chars().next().map_or(1, char::len_utf8);
        Some(place)
    })
}

/// The line `place` is on, counted from 1.
fn line_of(text: &str, place: usize) -> usize {
    text[..place].bytes().filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
}
