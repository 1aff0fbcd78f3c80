//! The headings of a document and the sections they begin, so that an agent need not read the whole.
//!
//! Only Markdown has headings. A `#` in a code block, a quotation or a list begins no section.

mod scan;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::error::quoted;
use crate::{Code, Error, MimeType, Result};

/// Headings of one document; those that follow are text like any other.
const MAX_HEADINGS: usize = 20_000;
/// Characters of a heading; what is longer is cut.
const MAX_HEADING: usize = 200;
/// The most headings named in an error, and the bytes they may take.
const MAX_LISTED: usize = 100;
const MAX_LISTED_BYTES: usize = 16 * 1024;
/// Bytes of the name of a section.
const MAX_NAME: usize = 8 * 1024;
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
    /// Without markup, at most 200 characters.
    pub text: String,
    /// The line it is on, counted from 1.
    pub line: usize,
    /// Byte range of the section: from the heading to the next one of the same or a higher rank.
    pub start: usize,
    pub end: usize,
    /// The heading this one stands under, by position.
    parent: Option<usize>,
}

/// Collects headings and the sections they begin.
struct OutlineBuilder<'a> {
    body: &'a str,
    outline: Outline,
    /// Where blocks begin, if that is asked for.
    blocks: Option<Vec<usize>>,
    /// The headings whose sections are still open, outermost first.
    open: Vec<usize>,
    /// The line of the byte up to which line ends are counted.
    line: usize,
    counted: usize,
}

impl<'a> OutlineBuilder<'a> {
    fn new(body: &'a str, blocks: Option<Vec<usize>>) -> OutlineBuilder<'a> {
        let outline = Outline::default();
        OutlineBuilder { body, outline, blocks, open: Vec::new(), line: 1, counted: 0 }
    }
}

impl scan::Visitor for OutlineBuilder<'_> {
    fn block(&mut self, start: usize) {
        self.blocks.iter_mut().for_each(|blocks| blocks.push(start));
    }

    fn heading(&mut self, level: u8, text: &str, start: usize) {
        let start = self.body[..start].rfind(['\n', '\r']).map_or(0, |at| at + 1);
        let headings = &mut self.outline.headings;
        while let Some(last) = self.open.pop_if(|last| headings[*last].level >= level) {
            headings[last].end = start;
        }
        if headings.len() == MAX_HEADINGS {
            return;
        }
        self.line += newlines(&self.body[self.counted..start]);
        self.counted = start;
        let parent = self.open.last().copied();
        self.open.push(headings.len());
        let text = shortened(tidy(text), MAX_HEADING);
        headings.push(Heading {
            level,
            text,
            line: self.line,
            start,
            end: self.body.len(),
            parent,
        });
    }
}

impl Outline {
    /// Takes time linear in the length of `body`, up to a second for some megabytes: not for async threads.
    pub fn new(body: &str, mime_type: MimeType) -> Outline {
        let mut builder = OutlineBuilder::new(body, None);
        if mime_type == MimeType::Markdown {
            scan::visit(body, &mut builder);
        }
        builder.outline
    }

    /// The outline, and where the blocks outside of any other block begin: paragraphs, code, lists, tables, headings.
    pub(crate) fn with_blocks(body: &str, mime_type: MimeType) -> (Outline, Vec<usize>) {
        if mime_type != MimeType::Markdown {
            return (Outline::default(), scan::paragraph_starts(body));
        }
        let mut builder = OutlineBuilder::new(body, Some(Vec::new()));
        scan::visit(body, &mut builder);
        (builder.outline, builder.blocks.unwrap_or_default())
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
        if name.len() > MAX_NAME {
            return Err(Error::invalid("section: give at most 8192 bytes"));
        }
        let found = self.matching(name);
        match found[..] {
            [] => Err(self.unknown(name)),
            [only] => Ok(&self.headings[only]),
            _ => Err(self.ambiguous(name, &found)),
        }
    }

    /// A heading that is called exactly so wins over a path that reads the same.
    fn matching(&self, name: &str) -> Vec<usize> {
        let names: Vec<String> =
            self.headings.iter().map(|heading| normal(&heading.text)).collect();
        let parts: Vec<String> = name.split(SEPARATORS).map(normal).collect();
        let all = 0..names.len();
        // A long path would be cut down to its first heading.
        if parts.len() == 1 || name.chars().count() <= MAX_HEADING {
            let whole = normal(name);
            let exact: Vec<usize> = all.clone().filter(|at| names[*at] == whole).collect();
            if !exact.is_empty() {
                return exact;
            }
        }
        if parts.len() < 2 || parts.iter().any(String::is_empty) {
            return Vec::new();
        }
        all.filter(|at| self.is_under(*at, &parts, &names)).collect()
    }

    /// Whether the heading is the last of `parts` and the others are above it, in order; some may be left out.
    ///
    /// A path has at most six headings, because each is of a lower rank than the one before.
    fn is_under(&self, at: usize, parts: &[String], names: &[String]) -> bool {
        let mut parts = parts.iter().rev();
        if parts.next() != Some(&names[at]) {
            return false;
        }
        let mut above =
            std::iter::successors(self.headings[at].parent, |at| self.headings[*at].parent);
        parts.all(|part| above.any(|at| names[at] == *part))
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
            format!("no section is called {}; details.outline lists those there are", quoted(name))
        };
        let all: Vec<usize> = (0..self.headings.len()).collect();
        Error::not_found(message).with("outline", self.listed(&all))
    }

    fn ambiguous(&self, name: &str, found: &[usize]) -> Error {
        let lines: Vec<usize> =
            found.iter().take(MAX_LISTED).map(|at| self.headings[*at].line).collect();
        let message = format!(
            "{} sections are called {}; say which as \"Parent > Child\", or read by lines",
            found.len(),
            quoted(name)
        );
        Error::new(Code::Ambiguous, message)
            .with("occurrences", found.len())
            .with("lines", lines)
            .with("outline", self.listed(found))
    }

    fn listed(&self, which: &[usize]) -> Vec<Value> {
        let mut bytes = 0;
        let paths = which.iter().map(|at| (&self.headings[*at], self.path(*at).join(" > ")));
        let fitting = paths.take(MAX_LISTED).take_while(|(_, path)| {
            bytes += path.len();
            bytes <= MAX_LISTED_BYTES
        });
        fitting
            .map(|(heading, path)| {
                json!({ "section": path, "level": heading.level, "line": heading.line })
            })
            .collect()
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

/// The text itself, or its beginning with `…` after it; at most `max` characters, and the same when shortened again.
pub(crate) fn shortened(text: Cow<'_, str>, max: usize) -> String {
    if text.char_indices().nth(max).is_none() {
        return text.into_owned();
    }
    let end = text.char_indices().nth(max - 1).map_or(text.len(), |(end, _)| end);
    format!("{}…", &text[..end])
}

fn newlines(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
}

fn tidy(text: &str) -> Cow<'_, str> {
    Cow::Owned(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A name as it is compared: copied from the document with its `##`, or typed from memory.
fn normal(name: &str) -> String {
    shortened(tidy(name.trim_start().trim_start_matches('#')), MAX_HEADING).to_lowercase()
}
