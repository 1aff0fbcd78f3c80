//! Characters in names, descriptions and schemas that people do not see and models do.
//!
//! An upstream can hide orders to a model in them. Definitions are passed on as they are and what is
//! hidden is reported; if the operator wants, it is taken out of titles and descriptions. Everywhere
//! else a character may be part of what an upstream expects to get back, so there it is only reported.

use std::borrow::Cow;
use std::fmt;

use crate::tree::Tree;

#[cfg(test)]
mod tests;

/// Findings kept for one definition; what follows is of the same kind.
const MAX_FINDINGS: usize = 32;
/// Members that are written for people to read.
const PROSE: &[&str] = &["title", "description"];

/// Why a character is not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It turns the direction of writing.
    Bidi,
    /// It has no width.
    ZeroWidth,
    /// It is one of the tag characters, which spell out ASCII that nobody sees.
    Tag,
    /// It varies a character that does not vary, which spells out bytes that nobody sees.
    Variation,
    /// It controls a terminal.
    Control,
    /// It means something to some program only.
    PrivateUse,
}

/// A character that is not seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The way to the text: member names and positions, with `/` between.
    pub place: String,
    /// How many characters come before it there.
    pub offset: usize,
    /// The character.
    pub character: char,
    /// Why it is not seen.
    pub kind: Kind,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { place, offset, character, kind } = self;
        let place = visible(place);
        let kind = match kind {
            Kind::Bidi => "a bidi control",
            Kind::ZeroWidth => "a zero-width character",
            Kind::Tag => "a tag character",
            Kind::Variation => "a stray variation selector",
            Kind::Control => "a control character",
            Kind::PrivateUse => "a private-use character",
        };
        write!(f, "{kind} U+{:04X} in {place}, character {offset}", u32::from(*character))
    }
}

/// What is hidden in a definition, the first few. What is no JSON hides nothing.
pub fn find(definition: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if may_hide(definition)
        && let Ok(tree) = Tree::parse(definition)
    {
        search(&tree, "", &mut findings);
    }
    findings.truncate(MAX_FINDINGS);
    findings
}

/// The definition with nothing hidden in its titles and descriptions. Untouched if there is nothing,
/// in the order it was and with its numbers as they were if there is.
pub fn strip(definition: &str) -> Cow<'_, str> {
    if !may_hide(definition) {
        return Cow::Borrowed(definition);
    }
    let Ok(mut tree) = Tree::parse(definition) else { return Cow::Borrowed(definition) };
    if clear(&mut tree) { Cow::Owned(tree.compact()) } else { Cow::Borrowed(definition) }
}

/// The text with everything hidden spelled out, for logs and diffs. Tabs and line ends are hidden too.
pub fn visible(text: &str) -> Cow<'_, str> {
    let hidden = |(n, c): (usize, char)| {
        matches!(c, '\t' | '\n' | '\r')
            || kind_of(c, &text[..n], &text[n + c.len_utf8()..]).is_some()
    };
    if !text.char_indices().any(hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for (n, c) in text.char_indices() {
        match hidden((n, c)) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// JSON with everything hidden in its strings as escapes; the same JSON, but one can see it.
pub(crate) fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for (n, c) in json.char_indices() {
        match kind_of(c, &json[..n], &json[n + c.len_utf8()..]) {
            None => out.push(c),
            Some(_) => {
                let units = c.encode_utf16(&mut [0; 2]).to_vec();
                out.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
            }
        }
    }
    out
}

/// A quick look: most definitions are plain ASCII without escapes.
fn may_hide(definition: &str) -> bool {
    !definition.is_ascii() || definition.contains('\\') || definition.contains('\u{7f}')
}

fn search(tree: &Tree, place: &str, findings: &mut Vec<Finding>) {
    let look = |text: &str, place: &str, findings: &mut Vec<Finding>| {
        let found = hidden(text).map(|(offset, character, kind)| Finding {
            place: place.to_owned(),
            offset,
            character,
            kind,
        });
        findings.extend(found.take(MAX_FINDINGS));
    };
    let below = |name: &str| match place {
        "" => name.to_owned(),
        _ => format!("{place}/{name}"),
    };
    if findings.len() >= MAX_FINDINGS {
        return;
    }
    match tree {
        Tree::Plain(_) => {}
        Tree::Text(text) => look(text, place, findings),
        Tree::List(elements) => {
            for (n, element) in elements.iter().enumerate() {
                search(element, &below(&n.to_string()), findings);
            }
        }
        Tree::Members(members) => {
            for (name, value) in members {
                look(name, &below(name), findings);
                search(value, &below(name), findings);
            }
        }
    }
}

/// Takes out what is hidden in prose; whether there was any.
fn clear(tree: &mut Tree) -> bool {
    let mut changed = false;
    match tree {
        Tree::Plain(_) | Tree::Text(_) => {}
        Tree::List(elements) => {
            for element in elements {
                changed |= clear(element);
            }
        }
        Tree::Members(members) => {
            for (name, value) in members {
                changed |= match value {
                    Tree::Text(text) if PROSE.contains(&name.as_str()) => clear_text(text),
                    _ => clear(value),
                };
            }
        }
    }
    changed
}

fn clear_text(text: &mut String) -> bool {
    let mut changed = false;
    // What stood beside something hidden may be stray once that is gone.
    while hidden(text).next().is_some() {
        let mut offsets: Vec<usize> = hidden(text).map(|(offset, ..)| offset).collect();
        offsets.reverse();
        let kept = text.chars().enumerate().filter(|(n, _)| {
            let gone = offsets.last() == Some(n);
            if gone {
                offsets.pop();
            }
            !gone
        });
        *text = kept.map(|(_, c)| c).collect();
        changed = true;
    }
    changed
}

/// Everything hidden in a text: how many characters come before, what, and why.
fn hidden(text: &str) -> impl Iterator<Item = (usize, char, Kind)> {
    text.char_indices().enumerate().filter_map(|(offset, (n, c))| {
        let kind = kind_of(c, &text[..n], &text[n + c.len_utf8()..])?;
        Some((offset, c, kind))
    })
}

/// Why `c` is not seen, between what is before it and after it.
fn kind_of(c: char, before: &str, after: &str) -> Option<Kind> {
    let (last, next) = (|| before.chars().next_back(), || after.chars().next());
    let kind = match c {
        ' '..='~' | '\t' | '\n' | '\r' => return None,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => Kind::Control,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Kind::Bidi
        }
        // Joiners shape words of many scripts and hold emoji together.
        '\u{200c}' | '\u{200d}' if last().is_some_and(joins) && next().is_some_and(joins) => {
            return None;
        }
        // Emoji are told from signs by these, and key caps from digits.
        '\u{fe0e}' | '\u{fe0f}' if last().is_some_and(varies) => return None,
        '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => {
            Kind::Variation
        }
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' => Kind::ZeroWidth,
        '\u{e0000}'..='\u{e0fff}' => Kind::Tag,
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' => Kind::PrivateUse,
        _ => return None,
    };
    Some(kind)
}

/// Whether a joiner beside `c` can be there for a reason.
fn joins(c: char) -> bool {
    !c.is_ascii() && (c == '\u{fe0f}' || kind_of(c, "", "").is_none())
}

/// Whether `c` can be shown as text and as an emoji.
fn varies(c: char) -> bool {
    matches!(c, '0'..='9' | '#' | '*' | '©' | '®' | '‼' | '⁉' | '\u{2100}'..='\u{2bff}')
        || matches!(
            c,
            '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}'
        )
}
