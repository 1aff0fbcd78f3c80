//! The URIs of documents: `kb:///` and the path, escaped where a URI needs it.

use lyceum_kb::DocPath;

pub(crate) const SCHEME: &str = "kb:///";
/// What the template of all documents looks like.
pub(crate) const TEMPLATE: &str = "kb:///{+path}";

/// The URI of a document, as lists show it.
pub(crate) fn of(path: &DocPath) -> String {
    // What RFC 3986 allows in a path segment as it is, beside letters and digits.
    escaped(path, b"-._~!$&'()*+,;=:@/")
}

/// Every spelling of a document's URI that clients commonly send, the usual one first.
pub(crate) fn spellings(path: &DocPath) -> Vec<String> {
    let mut spellings = vec![
        of(path),
        // RFC 6570 expansion of {+path} keeps all reserved characters.
        escaped(path, b"-._~!$&'()*+,;=:@/?#[]"),
        // `encodeURIComponent` of each segment.
        escaped(path, b"-._~!'()*/"),
        // Everything but unreserved characters.
        escaped(path, b"-._~/"),
        // No escaping at all.
        format!("{SCHEME}{path}"),
    ];
    let mut seen = std::collections::HashSet::new();
    spellings.retain(|spelling| seen.insert(spelling.clone()));
    spellings
}

fn escaped(path: &DocPath, kept: &[u8]) -> String {
    let mut uri = SCHEME.to_owned();
    for byte in path.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_uri_cannot_hold_is_escaped() {
        for (path, uri) in [
            ("guides/setup.md", "kb:///guides/setup.md"),
            ("a b/100%.md", "kb:///a%20b/100%25.md"),
            ("what?/c#.md", "kb:///what%3F/c%23.md"),
            ("naïve/🙂", "kb:///na%C3%AFve/%F0%9F%99%82"),
            ("a:b@c,(d)", "kb:///a:b@c,(d)"),
        ] {
            assert_eq!(of(&DocPath::parse(path).unwrap()), uri);
        }
    }

    #[test]
    fn simple_paths_have_one_spelling() {
        let spellings = |path| spellings(&DocPath::parse(path).unwrap());
        assert_eq!(spellings("guides/setup.md"), ["kb:///guides/setup.md"]);
        assert_eq!(
            spellings("c#, d"),
            ["kb:///c%23,%20d", "kb:///c#,%20d", "kb:///c%23%2C%20d", "kb:///c#, d"]
        );
    }
}
