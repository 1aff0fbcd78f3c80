//! The headings of a document and the sections they begin, so that an agent need not read the whole.
//!
//! Only Markdown has headings. A `#` in a code block, a quotation or a list begins no section.

#[cfg(test)]
mod tests;

use std::ops::Range;

use pulldown_cmark::{Event, OffsetIter, Options, Parser, Tag, TagEnd};
use serde_json::{Value, json};

use crate::{Code, Error, MimeType, Result};

/// The most headings named in an error.
const MAX_LISTED: usize = 100;
/// How far below the beginning of a heading its underline is looked for, at least.
const UNDERLINE: usize = 512;
/// What may stand between the headings of a path.
const SEPARATORS: [char; 2] = ['>', '›'];

/// The headings of one document, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outline {
    headings: Vec<Heading>,
}

/// A heading and its section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// 1 to 6.
    pub level: u8,
    /// Without markup.
    pub text: String,
    /// The line it is on, counted from 1.
    pub line: usize,
    /// Byte range of the section: from the heading to the next one of the same or a higher rank.
    pub start: usize,
    pub end: usize,
    /// The heading this one stands under, by position.
    parent: Option<usize>,
}

impl Outline {
    pub fn new(body: &str, mime_type: MimeType) -> Outline {
        let mut headings: Vec<Heading> = Vec::new();
        if mime_type != MimeType::Markdown {
            return Outline { headings };
        }
        let (mut line, mut counted) = (1, 0);
        // The headings whose sections are still open, outermost first.
        let mut open: Vec<usize> = Vec::new();
        for (level, text, range) in found(body) {
            let start = body[..range.start].rfind(['\n', '\r']).map_or(0, |at| at + 1);
            line += newlines(&body[counted..start]);
            counted = start;
            while let Some(last) = open.pop_if(|last| headings[*last].level >= level) {
                headings[last].end = start;
            }
            let parent = open.last().copied();
            open.push(headings.len());
            headings.push(Heading { level, text, line, start, end: body.len(), parent });
        }
        Outline { headings }
    }

    pub fn headings(&self) -> &[Heading] {
        &self.headings
    }

    /// The headings that the byte at `offset` stands under, outermost first.
    pub fn path_at(&self, offset: usize) -> Vec<&str> {
        let after = self.headings.partition_point(|heading| heading.start <= offset);
        after.checked_sub(1).map(|last| self.path(last)).unwrap_or_default()
    }

    /// The one section called `name`: a heading, or a path of them as in `Parent > Child`. Case does not matter.
    pub fn section(&self, name: &str) -> Result<&Heading> {
        let found = self.matching(name);
        match found[..] {
            [] => Err(self.unknown(name)),
            [only] => Ok(&self.headings[only]),
            _ => Err(self.ambiguous(name, &found)),
        }
    }

    /// A heading that is called exactly so wins over a path that reads the same.
    fn matching(&self, name: &str) -> Vec<usize> {
        let whole = normal(name);
        let all = 0..self.headings.len();
        let exact: Vec<usize> =
            all.clone().filter(|at| normal(&self.headings[*at].text) == whole).collect();
        if !exact.is_empty() {
            return exact;
        }
        let parts: Vec<String> = name.split(SEPARATORS).map(normal).collect();
        if parts.len() < 2 || parts.iter().any(String::is_empty) {
            return Vec::new();
        }
        all.filter(|at| self.is_under(*at, &parts)).collect()
    }

    /// Whether the heading is the last of `parts` and the others are above it, in order; some may be left out.
    fn is_under(&self, at: usize, parts: &[String]) -> bool {
        let path: Vec<String> = self.path(at).into_iter().map(normal).collect();
        let (Some((last, above)), Some((own, path))) = (parts.split_last(), path.split_last())
        else {
            return false;
        };
        let mut path = path.iter();
        own == last && above.iter().all(|part| path.any(|heading| heading == part))
    }

    fn path(&self, at: usize) -> Vec<&str> {
        let up = |at: &usize| self.headings[*at].parent;
        let mut path: Vec<&str> =
            std::iter::successors(Some(at), up).map(|at| self.headings[at].text.as_str()).collect();
        path.reverse();
        path
    }

    fn unknown(&self, name: &str) -> Error {
        let message = if self.headings.is_empty() {
            "the document has no headings; read it by lines".to_owned()
        } else {
            format!("no section is called {name:?}; details.outline lists those there are")
        };
        let all: Vec<usize> = (0..self.headings.len()).collect();
        Error::not_found(message).with("outline", self.listed(&all))
    }

    fn ambiguous(&self, name: &str, found: &[usize]) -> Error {
        let lines: Vec<usize> =
            found.iter().take(MAX_LISTED).map(|at| self.headings[*at].line).collect();
        let message = format!(
            "{} sections are called {name:?}; say which as \"Parent > Child\", or read by lines",
            found.len()
        );
        Error::new(Code::Ambiguous, message)
            .with("occurrences", found.len())
            .with("lines", lines)
            .with("outline", self.listed(found))
    }

    fn listed(&self, which: &[usize]) -> Vec<Value> {
        let listed = which.iter().take(MAX_LISTED).map(|at| {
            let heading = &self.headings[*at];
            json!({
                "section": self.path(*at).join(" > "),
                "level": heading.level,
                "line": heading.line,
            })
        });
        listed.collect()
    }
}

/// The headings that the byte at `offset` stands under, for who needs no more of the outline than that.
pub(crate) fn path_at(body: &str, mime_type: MimeType, offset: usize) -> Vec<String> {
    // What follows cannot change what stands above, but for the underline of a heading.
    let from = body.ceil_char_boundary(offset.saturating_add(UNDERLINE));
    let end = body[from..].find('\n').map_or(body.len(), |at| from + at);
    let outline = Outline::new(&body[..end], mime_type);
    outline.path_at(offset).into_iter().map(str::to_owned).collect()
}

/// Where the blocks outside of any other block begin: paragraphs, code, lists, tables, headings.
pub(crate) fn block_starts(body: &str) -> Vec<usize> {
    let mut depth = 0_usize;
    let mut starts = Vec::new();
    for (event, range) in events(body) {
        if depth == 0 && !matches!(event, Event::End(_)) {
            starts.push(range.start);
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    starts
}

fn events(body: &str) -> OffsetIter<'_> {
    // Without this, front matter reads as a heading underlined with dashes.
    let options = Options::ENABLE_TABLES | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    Parser::new_ext(body, options).into_offset_iter()
}

/// Level, text and place of every heading that is not part of another block.
fn found(body: &str) -> Vec<(u8, String, Range<usize>)> {
    let mut found = Vec::new();
    let mut depth = 0_usize;
    let mut current: Option<String> = None;
    for (event, range) in events(body) {
        match event {
            Event::Start(tag) => {
                if depth == 0 && matches!(tag, Tag::Heading { .. }) {
                    current = Some(String::new());
                }
                depth += 1;
            }
            Event::End(tag) => {
                depth = depth.saturating_sub(1);
                if let (0, TagEnd::Heading(level), Some(text)) = (depth, tag, &mut current) {
                    found.push((level as u8, tidy(text), range));
                    current = None;
                }
            }
            Event::Text(part) | Event::Code(part) => {
                current.iter_mut().for_each(|text| text.push_str(&part));
            }
            Event::SoftBreak | Event::HardBreak => {
                current.iter_mut().for_each(|text| text.push(' '));
            }
            _ => {}
        }
    }
    found
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

fn tidy(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A name as it is compared: copied from the document with its `##`, or typed from memory.
fn normal(name: &str) -> String {
    tidy(name.trim_start().trim_start_matches('#')).to_lowercase()
}
