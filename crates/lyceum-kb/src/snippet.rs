//! The passage of a document to show for a query: where its words stand closest together.

mod matcher;
#[cfg(test)]
mod tests;

use std::ops::Range;

use self::matcher::{Match, Matcher};
use crate::kb::Snippet;
use crate::outline;
use crate::{MimeType, Query};

/// Characters of a passage, at most.
const LENGTH: usize = 240;
/// Characters shown before the first match, at most.
const LEAD: usize = 60;
/// Bytes from the first match to the end of the last, so that all are shown.
const SPAN: usize = LENGTH - LEAD;
/// Matches looked at; a passage of a text that repeats the words more often than this is as good as any.
const MAX_MATCHES: usize = 20_000;
/// What a match is worth beside others of the same word, of a phrase, or in the chunk that the vectors chose.
const REPEATED: f64 = 0.05;
const IN_PHRASE: f64 = 1.0;
const IN_CHUNK: f64 = 0.3;

/// The passage of `body` that shows best why it was found. `near` is the chunk nearest in meaning: when no word
/// matches, the passage is its beginning. Words and headings are looked for in the first `look` bytes.
pub(crate) fn snippet(
    body: &str,
    mime_type: MimeType,
    query: &Query,
    near: Option<Range<usize>>,
    look: usize,
) -> Snippet {
    let near = near.filter(|near| body.get(near.clone()).is_some());
    let looked = &body[..body.floor_char_boundary(look)];
    let matches = Matcher::new(query).matches(looked, MAX_MATCHES);
    let range = match best(&matches, near.as_ref()) {
        Some(first) => around(body, first),
        None => from(body, near.map_or(0, |near| near.start)),
    };
    Snippet {
        text: body[range.clone()].to_owned(),
        start: range.start,
        end: range.end,
        headings: match range.start <= looked.len() {
            true => outline::path_at(looked, mime_type, range.start),
            false => Vec::new(),
        },
        highlights: highlights(&matches, &range),
    }
}

/// Where the first match of the best passage begins: the one with the most, and the rarest, of the words.
fn best(matches: &[Match], near: Option<&Range<usize>>) -> Option<usize> {
    let words = matches.iter().map(|found| found.word + 1).max()?;
    let mut total = vec![0_u32; words];
    matches.iter().for_each(|found| total[found.word] += 1);
    let worth: Vec<f64> = total.iter().map(|n| 1.0 / (1.0 + f64::from(*n).ln().max(0.0))).collect();
    let bonus = |found: &Match| if found.in_phrase { IN_PHRASE } else { 0.0 };

    let mut inside = vec![0_u32; words];
    let (mut score, mut end) = (0.0, 0);
    let mut best: Option<(f64, usize)> = None;
    for (first, start) in matches.iter().enumerate() {
        while let Some(next) = matches.get(end)
            && (end <= first || next.end <= start.start + SPAN)
        {
            let known = inside[next.word] > 0;
            score += if known { REPEATED } else { worth[next.word] } + bonus(next);
            inside[next.word] += 1;
            end += 1;
        }
        let chunk = near.is_some_and(|near| near.contains(&start.start));
        let with_chunk = score + if chunk { IN_CHUNK } else { 0.0 };
        // Sums that differ by rounding are equal, and the earlier passage wins.
        if best.is_none_or(|(best, _)| with_chunk > best + 1e-9) {
            best = Some((with_chunk, start.start));
        }
        inside[start.word] -= 1;
        let left = inside[start.word] > 0;
        score -= if left { REPEATED } else { worth[start.word] } + bonus(start);
    }
    best.map(|(_, start)| start)
}

/// A passage in which the match at `first` is near the beginning.
fn around(body: &str, first: usize) -> Range<usize> {
    let earliest = back(body, first, LEAD);
    let lead = &body[earliest..first];
    let line = lead.rfind('\n').map(|at| at + 1);
    let sentence = || lead.rfind(". ").map(|at| at + 2);
    let word = || lead.find(char::is_whitespace).filter(|_| earliest > 0);
    let start = earliest + line.or_else(sentence).or_else(word).unwrap_or(0);
    from(body, start)
}

/// The passage that begins at `start`, cut between words if it can be.
fn from(body: &str, start: usize) -> Range<usize> {
    let start = body.len() - body[start..].trim_start().len();
    let rest = &body[start..];
    let cut = rest.char_indices().nth(LENGTH).map(|(at, _)| at);
    let end = match cut {
        None => rest.len(),
        Some(cut) => {
            let between = rest[cut..].starts_with(char::is_whitespace);
            let space = rest[..cut].rfind(char::is_whitespace).filter(|at| *at > cut / 2);
            if between { cut } else { space.unwrap_or(cut) }
        }
    };
    start..start + rest[..end].trim_end().len()
}

/// `count` characters before `at`, or the beginning.
fn back(body: &str, at: usize, count: usize) -> usize {
    body[..at].char_indices().rev().take(count).last().map_or(at, |(at, _)| at)
}

fn highlights(matches: &[Match], range: &Range<usize>) -> Vec<(usize, usize)> {
    let from = matches.partition_point(|found| found.end <= range.start);
    let inside = matches[from..].iter().take_while(|found| found.start < range.end);
    let clip = |at: usize| at.clamp(range.start, range.end) - range.start;
    inside.map(|found| (clip(found.start), clip(found.end))).collect()
}
