//! Finding headings and blocks in Markdown: by the parser, or by looking at lines where the parser would cost too much.
//!
//! The parser keeps a tree with about 60 bytes for every character of markup, and looks at every open quotation and list
//! again on every line. Honest documents have neither a million marks nor quotations a thousand deep.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Characters of markup, about 64 MiB of tree.
const MAX_MARKUP: usize = 1 << 20;
/// Lines times the deepest nesting, a fraction of a second.
const MAX_NESTED_LINES: usize = 1 << 25;
/// Bytes of a heading that are looked at.
const MAX_HEADING_BYTES: usize = 4096;

/// What a document is made of at its outermost level.
pub(super) trait Visitor {
    /// A paragraph, list, table, heading or code begins at this byte.
    fn block(&mut self, start: usize);

    /// A heading of this level begins at this byte. The beginning of its text, if it is very long.
    fn heading(&mut self, level: u8, text: &str, start: usize);
}

/// Shows everything in `body` to `visitor`, in order.
pub(super) fn visit(body: &str, visitor: &mut impl Visitor) {
    if is_costly(body) { visit_lines(body, visitor) } else { visit_tree(body, visitor) }
}

/// Whether the parser would need too much memory or time.
fn is_costly(body: &str) -> bool {
    let (mut markup, mut n_lines, mut depth) = (0, 0, 0);
    for line in body.split_inclusive('\n') {
        n_lines += 1;
        markup += line.bytes().filter(|byte| is_markup(*byte)).count();
        depth = depth.max(nesting(line.as_bytes()));
    }
    markup > MAX_MARKUP || depth * n_lines > MAX_NESTED_LINES
}

fn is_markup(byte: u8) -> bool {
    matches!(
        byte,
        b'\n'
            | b'*'
            | b'_'
            | b'&'
            | b'\\'
            | b'['
            | b']'
            | b'<'
            | b'>'
            | b'!'
            | b'`'
            | b'|'
            | b'-'
            | b'+'
            | b'#'
    )
}

/// How deep a line can be nested: marks of quotations and list items at its beginning, and indentation.
fn nesting(line: &[u8]) -> usize {
    let prefix = line.iter().take_while(|byte| b" \t>-+*0123456789.)".contains(byte)).count();
    let is_space = |at: usize| line.get(at).is_none_or(u8::is_ascii_whitespace);
    let marks = (0..prefix).filter(|at| match line[*at] {
        b'>' => true,
        b'-' | b'+' | b'*' | b'.' | b')' => is_space(at + 1),
        _ => false,
    });
    let spaces = line[..prefix].iter().filter(|byte| matches!(byte, b' ' | b'\t')).count();
    marks.count() + spaces / 2
}

fn visit_tree(body: &str, visitor: &mut impl Visitor) {
    // Without this, front matter reads as a heading underlined with dashes.
    let options = Options::ENABLE_TABLES | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let mut depth = 0_usize;
    let mut heading: Option<String> = None;
    let add = |heading: &mut Option<String>, part: &str| {
        if let Some(text) = heading.as_mut().filter(|text| text.len() < MAX_HEADING_BYTES) {
            text.push_str(&part[..part.floor_char_boundary(MAX_HEADING_BYTES)]);
        }
    };
    for (event, range) in Parser::new_ext(body, options).into_offset_iter() {
        if depth == 0 && !matches!(event, Event::End(_)) {
            visitor.block(range.start);
        }
        match event {
            Event::Start(tag) => {
                if depth == 0 && matches!(tag, Tag::Heading { .. }) {
                    heading = Some(String::new());
                }
                depth += 1;
            }
            Event::End(tag) => {
                depth = depth.saturating_sub(1);
                if let (0, TagEnd::Heading(level)) = (depth, tag)
                    && let Some(text) = heading.take()
                {
                    visitor.heading(level as u8, &text, range.start);
                }
            }
            Event::Text(part) | Event::Code(part) => add(&mut heading, &part),
            Event::SoftBreak | Event::HardBreak => add(&mut heading, " "),
            _ => {}
        }
    }
}

/// Takes paragraphs for blocks, and lines that begin with `#` for headings unless they are fenced off as code.
fn visit_lines(body: &str, visitor: &mut impl Visitor) {
    let mut fence: Option<&str> = None;
    let (mut at, mut blank) = (0, true);
    for line in body.split_inclusive('\n') {
        let text = line.trim();
        let marks = ["```", "~~~"].into_iter().find(|marks| text.starts_with(marks));
        let level = text.bytes().take_while(|byte| *byte == b'#').count();
        let rest = &text[level..];
        let indent = line.len() - line.trim_start().len();
        let is_heading = fence.is_none()
            && (1..=6).contains(&level)
            && (rest.is_empty() || rest.starts_with([' ', '\t']))
            && indent < 4;
        if blank && !text.is_empty() || is_heading {
            visitor.block(at);
        }
        match (fence, marks) {
            (None, Some(_)) => fence = marks,
            (Some(open), Some(marks)) if open == marks => fence = None,
            _ => {}
        }
        if is_heading {
            let end = rest.floor_char_boundary(MAX_HEADING_BYTES);
            visitor.heading(level as u8, rest[..end].trim_end_matches('#'), at);
        }
        blank = text.is_empty();
        at += line.len();
    }
}

/// Where a line follows an empty one.
pub(super) fn paragraph_starts(body: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let (mut at, mut blank) = (0, false);
    for line in body.split_inclusive('\n') {
        let is_blank = line.trim().is_empty();
        if blank && !is_blank {
            starts.push(at);
        }
        blank = is_blank;
        at += line.len();
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen(Vec<String>);

    impl Visitor for Seen {
        fn block(&mut self, start: usize) {
            self.0.push(format!("block {start}"));
        }

        fn heading(&mut self, level: u8, text: &str, start: usize) {
            self.0.push(format!("{level} {} {start}", text.trim()));
        }
    }

    #[test]
    fn lines_show_the_headings_and_blocks_that_the_parser_shows() {
        for body in
            ["", "# A\n\ntext\n\n## B ##\nmore\n", "```\n# code\n```\n\n### C\n", "#\n", "a\n\nb"]
        {
            let (mut tree, mut lines) = (Seen::default(), Seen::default());
            visit_tree(body, &mut tree);
            visit_lines(body, &mut lines);
            let headings = |seen: Seen| -> Vec<String> {
                seen.0.into_iter().filter(|line| !line.starts_with("block")).collect()
            };
            assert_eq!(headings(tree), headings(lines), "{body:?}");
        }
    }

    #[test]
    fn only_texts_that_are_nothing_but_markup_are_costly() {
        let prose = "# Heading\n\nSome *words* and a [link](to/somewhere), then `code`.\n\n- one\n  - two\n\n";
        let code = "        if (a[i] != b[i]) { return *c - 1; } // deeply indented\n";
        let table = "| some cell | another cell | 12.5 |\n";
        for honest in [prose, code, table] {
            assert!(!is_costly(&honest.repeat((4 << 20) / honest.len())), "{honest}");
        }
        let lazy = ">".repeat(1 << 20) + "a\n" + &"b\n".repeat(1 << 20);
        let list: String = (0..1000).map(|n| "  ".repeat(n) + "- a\n").collect();
        for hostile in
            [">".repeat(4 << 20), "[".repeat(4 << 20), lazy, list + &"b\n".repeat(1 << 20)]
        {
            assert!(is_costly(&hostile), "{:?}", &hostile[..20]);
        }
    }
}
