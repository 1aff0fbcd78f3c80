//! Foreign text for people to read: titles, paths, texts, messages of other programs.
//!
//! A terminal takes some characters for commands, and others make text show as something it is not. They are spelled out
//! (`\u{1b}`) wherever people read such text.

use std::borrow::Cow;
use std::fmt::Display;

use lyceum_kb::is_hidden;

/// The text as one line, for fields of listings and parts of messages. Line ends are spelled out too, so that no field
/// can pass for another line.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    spelled_out(text, |c, _| is_hidden(c))
}

/// The text with its line ends and tabs.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    spelled_out(text, |c, next| {
        let is_layout = matches!(c, '\n' | '\t') || c == '\r' && next == Some('\n');
        is_hidden(c) && !is_layout
    })
}

/// Says something to people, on standard error.
pub(crate) fn say(text: impl Display) {
    eprintln!("{}", lines(&text.to_string()));
}

fn spelled_out(text: &str, hides: impl Fn(char, Option<char>) -> bool) -> Cow<'_, str> {
    let mut next = text.chars().skip(1);
    let mut shown: Option<String> = None;
    for (at, c) in text.char_indices() {
        let hidden = hides(c, next.next());
        if hidden && shown.is_none() {
            shown = Some(text[..at].to_owned());
        }
        match &mut shown {
            Some(shown) if hidden => shown.extend(c.escape_unicode()),
            Some(shown) => shown.push(c),
            None => {}
        }
    }
    shown.map_or(Cow::Borrowed(text), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(lines("a\x1b[2J\u{9b}1m\u{7}b"), "a\\u{1b}[2J\\u{9b}1m\\u{7}b");
        assert_eq!(lines("over\rwritten"), "over\\u{d}written");
        assert_eq!(lines("\u{202e}fdp.exe\u{200b}"), "\\u{202e}fdp.exe\\u{200b}");
        assert_eq!(one_line("a\nb\tc"), "a\\u{a}b\\u{9}c");
    }

    #[test]
    fn text_stays_as_it_is() {
        for text in ["", "plain", "a\n\tb\r\nc", "naïve 日本 🙂 👩\u{200d}👧"] {
            assert!(matches!(lines(text), Cow::Borrowed(same) if same == text), "{text:?}");
        }
    }
}
