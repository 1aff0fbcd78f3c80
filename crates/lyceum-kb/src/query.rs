//! What a caller searches for, as words and phrases.
//!
//! Any text is a query: there are no operators, so nothing a person or a model types can be a syntax error. Quotes
//! keep words together, everything else that is neither letter nor digit separates words.

mod stop_words;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

/// The most terms a query has; a pasted page is searched for by its beginning.
const MAX_TERMS: usize = 64;
/// The most different terms. Each costs a pass over its occurrences in all documents.
const MAX_DISTINCT: usize = 32;
/// The most different terms that are phrases; the words of further ones are looked for one by one. A phrase costs a
/// pass over the occurrences of each of its words.
const MAX_PHRASES: usize = 8;
/// The most words of one phrase; a longer quotation is found by its beginning.
const MAX_PHRASE: usize = 8;
/// The most parts of an identifier.
const MAX_PARTS: usize = 32;
/// How much of the text is looked at.
const MAX_TEXT: usize = 16 * 1024;
const QUOTES: [char; 5] = ['"', '“', '”', '«', '»'];
/// What holds the parts of an identifier together: `ERR_POOL-17`, `config.toml`, `a/b`.
const JOINERS: [char; 6] = ['_', '-', '.', '/', ':', '@'];

/// A query's terms; never fails to parse.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    text: String,
    terms: Vec<Term>,
}

/// One word, or several that must follow each other. Lower case, letters and digits only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Term {
    words: Vec<String>,
}

impl Query {
    /// Finds the words and quoted phrases of `text`. Stop words go unless nothing else remains; a word that is
    /// repeated stays repeated, because it counts twice.
    pub fn parse(text: &str) -> Query {
        let text = text.trim();
        let text = &text[..text.floor_char_boundary(MAX_TEXT)];
        let all = terms_of(text);
        let mut terms: Vec<Term> =
            all.iter().filter(|term| !term.is_stop_word()).cloned().collect();
        if terms.is_empty() {
            terms = all;
        }
        Query { text: text.to_owned(), terms: affordable(terms) }
    }

    /// The query as it was typed, or its first 16 kB, for models that read sentences.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// A `MATCH` expression that any FTS5 table accepts: the terms, any of which may match.
    pub fn fts5(&self) -> Option<String> {
        let quoted: Vec<String> = self.terms.iter().map(Term::fts5).collect();
        (!quoted.is_empty()).then(|| quoted.join(" OR "))
    }
}

impl Term {
    fn word(word: String) -> Term {
        Term { words: vec![word] }
    }

    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The term as FTS5 writes it. It holds letters and digits only, so there is nothing to escape.
    pub(crate) fn fts5(&self) -> String {
        format!("\"{}\"", self.words.join(" "))
    }

    fn is_stop_word(&self) -> bool {
        matches!(&self.words[..], [word] if is_stop_word(word))
    }
}

/// The terms of `text` in order: text between two quotes is one, the rest is words.
fn terms_of(text: &str) -> Vec<Term> {
    let mut terms = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(QUOTES) {
        push_words(before, &mut terms);
        rest = after;
        // A quote that is never closed is punctuation, as in 19" racks.
        if let Some((phrase, after)) = after.split_once(QUOTES) {
            let words: Vec<String> = words(phrase).take(MAX_PHRASE).collect();
            if !words.is_empty() {
                terms.push(Term { words });
            }
            rest = after;
        }
    }
    push_words(rest, &mut terms);
    terms
}

/// The first terms, within all bounds. Phrases beyond theirs become words.
fn affordable(terms: Vec<Term>) -> Vec<Term> {
    let mut kept: Vec<Term> = Vec::new();
    let mut distinct: HashSet<Term> = HashSet::new();
    let mut phrases = 0;
    for term in terms {
        let is_new_phrase = term.words.len() > 1 && !distinct.contains(&term);
        let parts = if is_new_phrase && phrases == MAX_PHRASES {
            term.words.into_iter().map(Term::word).collect()
        } else {
            phrases += usize::from(is_new_phrase);
            vec![term]
        };
        for term in parts {
            if distinct.len() < MAX_DISTINCT {
                distinct.insert(term.clone());
            }
            if kept.len() < MAX_TERMS && distinct.contains(&term) {
                kept.push(term);
            }
        }
    }
    kept
}

/// The words of unquoted text. An identifier gives its parts and, as a phrase, the whole: the parts find
/// neighbours, the whole puts the very thing first.
fn push_words(text: &str, terms: &mut Vec<Term>) {
    for piece in text.split(|c: char| !is_word(c) && !JOINERS.contains(&c)) {
        let mut parts: Vec<String> = words(piece).take(MAX_PARTS).collect();
        terms.extend(parts.iter().cloned().map(Term::word));
        if parts.len() > 1 {
            parts.truncate(MAX_PHRASE);
            terms.push(Term { words: parts });
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Whether `c` belongs to a word as the tokeniser `unicode61` sees it: letters, digits, and accents on them.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || ('\u{300}'..='\u{36f}').contains(&c)
}

/// Whether a lower-case word is too common to say anything.
pub(crate) fn is_stop_word(word: &str) -> bool {
    stop_words::contains(word)
}
