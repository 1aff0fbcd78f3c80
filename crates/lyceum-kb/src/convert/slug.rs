//! Paths for what was ingested without one: readable, and the same when the same thing comes again.

use sha2::{Digest, Sha256};
use unicode_normalization::UnicodeNormalization;

use crate::DocPath;

const FOLDER: &str = "ingested";
const MAX_CHARS: usize = 60;

/// Where a page lives: its address decides, so that a page that changed is the same document.
pub fn path_of_url(url: &str) -> DocPath {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    let name = address.split(['?', '#']).next().unwrap_or_default();
    path(&slug(name.strip_prefix("www.").unwrap_or(name)), url)
}

/// Where a text lives that somebody gave as it is: the text decides.
pub fn path_of_text(title: Option<&str>, text: &str) -> DocPath {
    let first = text.lines().map(slug).find(|slug| !slug.is_empty());
    path(&title.map(slug).or(first).unwrap_or_default(), text)
}

/// Letters and digits of any script in lower case, everything else as single dashes.
pub fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.nfc().flat_map(char::to_lowercase).take(4 * MAX_CHARS) {
        if c.is_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let short: String = slug.chars().take(MAX_CHARS).collect();
    short.trim_end_matches('-').to_owned()
}

fn path(slug: &str, identity: &str) -> DocPath {
    let name = if slug.is_empty() { "document" } else { slug };
    let hash: String = Sha256::digest(identity.as_bytes())
        .iter()
        .take(5)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    DocPath::parse(&format!("{FOLDER}/{name}-{hash}"))
        .expect("letters, digits and dashes, well under the limit")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slugs_are_readable() {
        for (text, expected) in [
            ("Hello, World!", "hello-world"),
            ("  --a__b--  ", "a-b"),
            ("Größe: 3 €", "größe-3"),
            ("日本語 テスト", "日本語-テスト"),
            ("../../etc/passwd", "etc-passwd"),
            ("!!!", ""),
        ] {
            assert_eq!(slug(text), expected, "{text}");
        }
        assert_eq!(slug(&"x y".repeat(100)).chars().count(), 60);
    }

    #[test]
    fn the_same_source_has_the_same_path() {
        let page = path_of_url("https://www.example.com/a/b.html?x=1");
        assert!(page.as_str().starts_with("ingested/example-com-a-b-html-"), "{page}");
        assert_eq!(page, path_of_url("https://www.example.com/a/b.html?x=1"));
        assert_ne!(page, path_of_url("https://www.example.com/a/b.html?x=2"));
        let text = path_of_text(None, "\n# First line\nmore");
        assert!(text.as_str().starts_with("ingested/first-line-"), "{text}");
        assert_ne!(text, path_of_text(None, "\n# First line\nless"));
        assert!(path_of_text(None, "").as_str().starts_with("ingested/document-"));
    }

    proptest! {
        #[test]
        fn any_source_has_a_path(text in any::<String>()) {
            prop_assert!(path_of_url(&text).as_str().starts_with(FOLDER));
            prop_assert!(path_of_text(Some(&text), &text).as_str().starts_with(FOLDER));
        }
    }
}
