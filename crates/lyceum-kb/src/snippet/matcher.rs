//! Finding the words of a query in a text, whatever their ending, case or accents.
//!
//! The lexical index stems with Porter's rules; here a word and its usual English endings are enough, because a
//! highlight that is missing costs nothing.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{decompose_canonical, is_combining_mark};

use crate::Query;
use crate::query::{is_stop_word, is_word};

/// Endings that leave a word the same word, longest first where one ends with another.
const ENDINGS: &[&str] = &[
    "ations", "ation", "ments", "ment", "ings", "ing", "ions", "ion", "ors", "or", "ers", "er",
    "ies", "ied", "ed", "es", "ly", "s", "e", "y",
];
/// A stem shorter than this says nothing.
const MIN_STEM: usize = 4;
/// Different words looked for.
const MAX_WORDS: usize = 32;
/// Words longer than this are not folded, hence not found.
const MAX_WORD: usize = 256;
/// The list of patterns whose first letter is not in ASCII, after one for each that is.
const OTHERS: usize = 128;

/// The words of a query, ready to be found.
#[derive(Debug, Default)]
pub(super) struct Matcher {
    patterns: Vec<Pattern>,
    /// Patterns by their first letter without its accent.
    by_first: Vec<Vec<usize>>,
    /// Patterns that follow each other in a phrase of the query.
    neighbours: Vec<(usize, usize)>,
}

#[derive(Debug)]
struct Pattern {
    whole: String,
    stem: String,
}

/// A word of the text that is a word of the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Which word of the query.
    pub(super) word: usize,
    /// Whether it follows the word that it follows in the query.
    pub(super) in_phrase: bool,
}

impl Matcher {
    pub(super) fn new(query: &Query) -> Matcher {
        let mut matcher = Matcher { by_first: vec![Vec::new(); OTHERS + 1], ..Matcher::default() };
        for term in query.terms() {
            let content: Vec<&String> =
                term.words().iter().filter(|word| !is_stop_word(word)).collect();
            let words = if content.is_empty() { term.words().iter().collect() } else { content };
            let ids: Vec<usize> = words.into_iter().filter_map(|word| matcher.add(word)).collect();
            matcher.neighbours.extend(ids.windows(2).map(|pair| (pair[0], pair[1])));
        }
        matcher
    }

    fn add(&mut self, word: &str) -> Option<usize> {
        let mut whole = String::new();
        fold(word, &mut whole);
        if let Some(known) = self.patterns.iter().position(|pattern| pattern.whole == whole) {
            return Some(known);
        }
        let first = word.chars().next().filter(|_| self.patterns.len() < MAX_WORDS)?;
        let stem = ENDINGS.iter().find_map(|ending| whole.strip_suffix(ending));
        let stem = stem.filter(|stem| stem.len() >= MIN_STEM).unwrap_or(&whole).to_owned();
        self.by_first[first_slot(first)].push(self.patterns.len());
        self.patterns.push(Pattern { whole, stem });
        Some(self.patterns.len() - 1)
    }

    /// The first `limit` matches, in order.
    pub(super) fn matches(&self, text: &str, limit: usize) -> Vec<Match> {
        let mut matches: Vec<Match> = Vec::new();
        let mut folded = String::new();
        // The word of the query that ended just before this word.
        let mut before = None;
        for (start, end) in words(text) {
            let word = self.find(&text[start..end], &mut folded);
            if let Some(word) = word {
                let in_phrase = before.is_some_and(|left| self.neighbours.contains(&(left, word)));
                matches.push(Match { start, end, word, in_phrase });
                if matches.len() == limit {
                    break;
                }
            }
            before = word;
        }
        matches
    }

    /// Which word of the query `word` is; `folded` is a buffer.
    fn find(&self, word: &str, folded: &mut String) -> Option<usize> {
        let candidates = &self.by_first[first_slot(word.chars().next()?)];
        if candidates.is_empty() || word.len() > MAX_WORD {
            return None;
        }
        folded.clear();
        fold(word, folded);
        candidates.iter().copied().find(|id| self.patterns[*id].matches(folded))
    }
}

impl Pattern {
    fn matches(&self, word: &str) -> bool {
        let is = |stem: &str| {
            word.strip_prefix(stem).is_some_and(|rest| rest.is_empty() || ENDINGS.contains(&rest))
        };
        is(&self.whole) || is(&self.stem)
    }
}

/// The list that words beginning with `first` are in.
fn first_slot(first: char) -> usize {
    let mut bare = None;
    if first.is_ascii() {
        bare = Some(first);
    } else {
        decompose_canonical(first, |part| bare = bare.or(Some(part)));
    }
    bare.filter(char::is_ascii).map_or(OTHERS, |bare| bare.to_ascii_lowercase() as usize)
}

/// Byte ranges of the words of `text`, as the lexical index sees them.
fn words(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(is_word)?;
        at = text[start..].find(|c| !is_word(c)).map_or(text.len(), |length| start + length);
        Some((start, at))
    })
}

/// Appends `word` to `folded` in lower case, without accents.
fn fold(word: &str, folded: &mut String) {
    if word.is_ascii() {
        folded.extend(word.chars().map(|c| c.to_ascii_lowercase()));
    } else {
        let bare = word.nfd().filter(|c| !is_combining_mark(*c));
        folded.extend(bare.flat_map(char::to_lowercase));
    }
}
