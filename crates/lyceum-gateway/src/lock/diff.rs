//! What changed in a definition, for people.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use super::definition::Definition;
use crate::invisible;
use crate::tree::Tree;

/// After this long, what is not yet compared counts as replaced: correct, but longer than it need be.
const MAX_TIME: Duration = Duration::from_millis(200);
/// Bytes of a diff.
const MAX_SIZE: usize = 64 * 1024;
/// Unchanged lines shown around a change.
const CONTEXT: usize = 2;

/// The lines that are not the same, with `-` and `+`, and a few around them. Nothing in them is hidden.
pub(super) fn between(old: &Definition, new: &Definition) -> String {
    let (old, new) = (lines(old), lines(new));
    let compared = TextDiff::configure().timeout(MAX_TIME).diff_lines(&old, &new);
    let mut shown = String::new();
    for (n, hunk) in compared.unified_diff().context_radius(CONTEXT).iter_hunks().enumerate() {
        if n > 0 {
            shown.push_str("  ...\n");
        }
        for change in hunk.iter_changes() {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            if shown.len() + change.value().len() > MAX_SIZE {
                shown.push_str("... and more\n");
                return shown;
            }
            shown.push(sign);
            shown.push(' ');
            shown.push_str(change.value());
        }
    }
    shown
}

/// A definition as lines: texts as they are, everything else as indented JSON.
fn lines(definition: &Definition) -> String {
    let Tree::Members(members) = definition.held() else { return String::new() };
    let mut lines = String::new();
    let mut line = |start: &str, text: &str| {
        lines.push_str(start);
        lines.push_str(&invisible::visible(text));
        lines.push('\n');
    };
    for (name, value) in members {
        match value.text() {
            Some(text) if text.contains('\n') => {
                line(name, ":");
                text.split('\n').for_each(|text| line("  ", text));
            }
            Some(text) => line(&format!("{name}: "), text),
            None => {
                let json = value.pretty();
                let mut json = json.lines();
                line(&format!("{name}: "), json.next().unwrap_or_default());
                json.for_each(|text| line("", text));
            }
        }
    }
    lines
}
