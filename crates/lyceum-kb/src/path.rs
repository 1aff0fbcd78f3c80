//! Where a document lives: a normalised path, and the prefixes that lists are cut by.

use std::fmt;

use unicode_normalization::UnicodeNormalization;

use crate::error::quoted;
use crate::hidden::{is_hidden, is_joiner};
use crate::{Error, Result};

const MAX_BYTES: usize = 1024;
/// Longer texts cannot come under the limit by being normalised, so they are not.
const MAX_UNNORMALISED: usize = 4 * MAX_BYTES;

/// The id of a document, like `guides/setup.md`: NFC, 1 to 1024 bytes, no empty, `.` or `..` segment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocPath(String);

/// The beginning of paths, compared byte by byte; nothing in it is a wildcard. May be empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Prefix(String);

impl DocPath {
    pub fn parse(text: &str) -> Result<DocPath> {
        let wrong = |why: &str| Err(Error::invalid(format!("path {}: {why}", quoted(text))));
        if text.len() > MAX_UNNORMALISED {
            return wrong("give 1 to 1024 bytes");
        }
        let path: String = text.nfc().collect();
        if path.is_empty() || path.len() > MAX_BYTES {
            return wrong("give 1 to 1024 bytes");
        }
        if path.chars().any(char::is_control) {
            return wrong("control characters are not allowed");
        }
        if path.starts_with('/') || path.ends_with('/') {
            return wrong("leave out the slash at the beginning or end");
        }
        if path.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return wrong("empty, `.` and `..` segments are not allowed");
        }
        Ok(DocPath(path))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Refuses a path that shows as another one. Only new documents are checked, so that those there are can be read,
    /// exported and deleted.
    pub fn check_visible(&self) -> Result<()> {
        if self.0.chars().any(|c| is_hidden(c) || is_joiner(c)) {
            return Err(Error::invalid(format!(
                "path {}: bidi controls, zero-width and other invisible characters are not allowed; leave them out",
                quoted(&self.0)
            )));
        }
        Ok(())
    }

    /// The path without its last segment; empty at the top.
    pub fn parent(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(parent, _)| parent)
    }

    /// The last segment, which is also the default title.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl Prefix {
    /// Any text is a prefix; a leading slash is ignored.
    pub fn parse(text: &str) -> Result<Prefix> {
        if text.len() > MAX_BYTES {
            return Err(Error::invalid("prefix: give at most 1024 bytes"));
        }
        Ok(Prefix(text.strip_prefix('/').unwrap_or(text).nfc().collect()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first string beyond everything that starts with this prefix; `None` when there is none.
    ///
    /// Strings are compared by bytes, and UTF-8 keeps the order of characters, so the end is the prefix with its
    /// last character replaced by the next one.
    pub fn end(&self) -> Option<String> {
        let mut chars: Vec<char> = self.0.chars().collect();
        while let Some(last) = chars.pop() {
            if let Some(next) = (last..=char::MAX).nth(1) {
                chars.push(next);
                return Some(chars.into_iter().collect());
            }
        }
        None
    }
}

impl fmt::Display for DocPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let parsed = DocPath::parse(text).ok();
        assert_eq!(parsed.as_ref().map(DocPath::as_str), expected, "{text:?}");
    }

    #[test]
    fn paths_are_normalised_or_refused() {
        check("a/b.md", Some("a/b.md"));
        check("cafe\u{301}", Some("café"));
        check(&"x".repeat(1024), Some(&"x".repeat(1024)));
        check(&"x".repeat(1025), None);
        for bad in ["", "/a", "a/", "a//b", "a/./b", "../a", "a/..", "a\nb", "a\0b", "\u{85}"] {
            check(bad, None);
        }
        check("a/...", Some("a/..."));
        check("100%/_\\", Some("100%/_\\"));
    }

    #[test]
    fn paths_that_show_as_others_can_be_read_but_not_made() {
        for hidden in ['\u{202e}', '\u{200b}', '\u{200d}', '\u{2066}', '\u{feff}', '\u{ad}'] {
            let path = DocPath::parse(&format!("a{hidden}b.md")).unwrap();
            let error = path.check_visible().unwrap_err();
            assert!(error.message().contains("invisible"), "{error}");
            assert!(!error.message().contains(hidden), "{error}");
        }
        for plain in ["a/b.md", "café/日本.md", "ع.md", "🙂.md"] {
            DocPath::parse(plain).unwrap().check_visible().unwrap();
        }
    }

    #[test]
    fn a_path_knows_its_parent_and_name() {
        let path = DocPath::parse("a/b/c.md").unwrap();
        assert_eq!((path.parent(), path.name()), ("a/b", "c.md"));
        let top = DocPath::parse("c.md").unwrap();
        assert_eq!((top.parent(), top.name()), ("", "c.md"));
    }

    #[test]
    fn the_end_of_a_prefix_is_beyond_everything_under_it() {
        #[track_caller]
        fn check(prefix: &str, expected: Option<&str>) {
            assert_eq!(Prefix::parse(prefix).unwrap().end().as_deref(), expected, "{prefix:?}");
        }
        check("knowledge/", Some("knowledge0"));
        check("/knowledge/", Some("knowledge0"));
        check("", None);
        check("a\u{10ffff}", Some("b"));
        check("\u{10ffff}", None);
        check("\u{d7ff}", Some("\u{e000}"));
    }
}
