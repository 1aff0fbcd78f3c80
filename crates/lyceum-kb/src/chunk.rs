//! Cutting a document into the pieces that are embedded.
//!
//! A piece is about one thing if it can be: it ends where a section ends, else a block, a line, a sentence, a word.
//! The pieces follow each other without overlap, and the same text gives the same pieces on every machine.

#[cfg(test)]
mod tests;

use crate::MimeType;
use crate::outline::{Outline, shortened};

/// Characters of a piece, at least if the document has them and at most.
const MIN: usize = 400;
const MAX: usize = 1200;
/// The most pieces of one document.
const MAX_CHUNKS: usize = 4096;
/// Characters of a title, and of title and headings together, before a piece.
const MAX_TITLE: usize = 200;
const MAX_PLACE: usize = 400;
/// Between the title and the headings a piece stands under.
const PATH_SEPARATOR: &str = " › ";

/// A piece of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Byte range in the text.
    pub start: usize,
    pub end: usize,
    /// What is embedded: where the piece stands, then the piece.
    pub text: String,
}

/// Places where a text may be cut, in bytes, ascending.
#[derive(Debug, Default)]
struct Cuts {
    sections: Vec<usize>,
    blocks: Vec<usize>,
}

/// The pieces of a document, in order; none if there is nothing but white space.
pub fn chunks(title: &str, body: &str, mime_type: MimeType) -> Vec<Chunk> {
    let (outline, blocks) = Outline::with_blocks(body, mime_type);
    let sections = outline.headings().iter().map(|heading| heading.start).collect();
    let cuts = Cuts { sections, blocks };
    let mut chunks = Vec::new();
    for (start, end) in pieces(body, &cuts) {
        let piece = &body[start..end];
        let start = end - piece.trim_start().len();
        let piece = piece.trim();
        if !piece.is_empty() {
            let text = format!("{}\n{piece}", place(title, &outline.path_at(start)));
            chunks.push(Chunk { start, end: start + piece.len(), text });
        }
    }
    chunks
}

/// The title and the headings below it; a first heading that repeats the title says nothing new.
fn place(title: &str, path: &[&str]) -> String {
    let repeats = path.first().is_some_and(|first| first.to_lowercase() == title.to_lowercase());
    let path = &path[usize::from(repeats)..];
    let title = shortened(title.into(), MAX_TITLE);
    let place = std::iter::once(&*title).chain(path.iter().copied()).collect::<Vec<_>>();
    shortened(place.join(PATH_SEPARATOR).into(), MAX_PLACE)
}

/// Cuts the whole text, white space and all.
fn pieces(body: &str, cuts: &Cuts) -> Vec<(usize, usize)> {
    // A long text gets longer pieces rather than an end that nobody finds.
    let min = MIN.max(body.chars().count() / MAX_CHUNKS + 1).min(MAX);
    let mut pieces = Vec::new();
    let mut start = 0;
    while start < body.len() && pieces.len() < MAX_CHUNKS {
        let end = next_cut(body, start, min, cuts);
        pieces.push((start, end));
        start = end;
    }
    pieces
}

/// Where the piece that begins at `start` ends.
fn next_cut(body: &str, start: usize, min: usize, cuts: &Cuts) -> usize {
    let rest = &body[start..];
    let Some(least) = advance(rest, min) else { return body.len() };
    let (least, most) = (start + least, advance(rest, MAX).map(|most| start + most));
    let Some(most) = most else {
        // What is left fits in one piece, but two sections of a good size are two pieces.
        let section = first_in(&cuts.sections, least, body.len());
        return section.filter(|at| advance(&body[*at..], min).is_some()).unwrap_or(body.len());
    };
    first_in(&cuts.sections, least, most)
        .or_else(|| last_in(&cuts.blocks, least, most))
        .or_else(|| last_break(body, least, most))
        .unwrap_or(most)
}

/// The byte at which the character number `count` of `text` begins, if there is one.
fn advance(text: &str, count: usize) -> Option<usize> {
    text.char_indices().nth(count).map(|(at, _)| at)
}

fn first_in(cuts: &[usize], least: usize, most: usize) -> Option<usize> {
    let at = cuts.partition_point(|cut| *cut < least);
    cuts.get(at).copied().filter(|cut| *cut <= most)
}

fn last_in(cuts: &[usize], least: usize, most: usize) -> Option<usize> {
    let at = cuts.partition_point(|cut| *cut <= most).checked_sub(1)?;
    cuts.get(at).copied().filter(|cut| *cut >= least)
}

/// The last end of a line, else of a sentence, else of a word, between `least` and `most`.
fn last_break(body: &str, least: usize, most: usize) -> Option<usize> {
    let window = &body[least..most];
    let line = window.rfind('\n').map(|at| at + 1);
    let sentence = || {
        let ends = [". ", "? ", "! ", "; ", "。", "！", "？"];
        ends.iter().filter_map(|end| window.rfind(end).map(|at| at + end.len())).max()
    };
    let word = || last_after(window, char::is_whitespace);
    // JSON on one line has no white space to speak of.
    let value = || last_after(window, |c| matches!(c, ',' | '}' | ']'));
    line.or_else(sentence).or_else(word).or_else(value).map(|at| least + at)
}

fn last_after(window: &str, is_break: impl Fn(char) -> bool) -> Option<usize> {
    window.char_indices().rev().find(|(_, c)| is_break(*c)).map(|(at, c)| at + c.len_utf8())
}
