//! Masks secrets in text that other programs wrote, before it is logged.
//!
//! It knows the usual forms only: queries and user names of URLs, values that follow a name such as
//! `token=`, and what follows `Bearer`. A program that prints a bare secret cannot be helped.

use std::borrow::Cow;

/// What stands in the place of a secret.
const MASK: &str = "***";

/// Names whose values are masked, in lower case, wherever they end a longer name (`API_KEY`).
const NAMES: [&str; 8] =
    ["key", "token", "secret", "password", "passwd", "authorization", "cookie", "credential"];

/// Words after which a secret stands.
const SCHEMES: [&str; 2] = ["bearer", "basic"];

/// The text with what looks like a secret masked.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    let suspicious = |byte: &u8| matches!(byte, b'=' | b':' | b'?' | b'@');
    let mentions = |word: &str| {
        text.as_bytes().windows(word.len()).any(|at| at.eq_ignore_ascii_case(word.as_bytes()))
    };
    if !text.as_bytes().iter().any(suspicious) && !SCHEMES.iter().any(|word| mentions(word)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut is_secret = false;
    for word in text.split_inclusive(char::is_whitespace) {
        let bare = word.trim_end();
        let space = &word[bare.len()..];
        if SCHEMES.iter().any(|scheme| plain(bare).eq_ignore_ascii_case(scheme)) {
            out.push_str(bare);
            is_secret = true;
        } else if is_secret && !bare.is_empty() {
            out.push_str(MASK);
            is_secret = false;
        } else {
            is_secret = mask_word(bare, &mut out);
        }
        out.push_str(space);
    }
    Cow::Owned(out)
}

/// Writes a word with its secret masked; `true` when the next word is the secret.
fn mask_word(mut word: &str, out: &mut String) -> bool {
    if let Some((start, rest)) = word.split_once("://") {
        mask_url(start, rest, out);
        return false;
    }
    // One pair may stand behind another.
    while let Some(at) = word.find(['=', ':']) {
        let (name, value) = (plain(&word[..at]).to_ascii_lowercase(), &word[at + 1..]);
        out.push_str(&word[..=at]);
        if NAMES.iter().any(|known| name.ends_with(known)) {
            let is_next = plain(value).is_empty();
            out.push_str(if is_next { value } else { MASK });
            return is_next;
        }
        word = value;
    }
    out.push_str(word);
    false
}

/// Writes a URL without its query, fragment, user and password.
fn mask_url(start: &str, rest: &str, out: &mut String) {
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let (place, query) = rest.split_at(end);
    let slash = place.find('/').unwrap_or(place.len());
    let host = place[..slash].rfind('@').map_or(0, |at| at + 1);
    out.push_str(start);
    out.push_str("://");
    if host > 0 {
        out.push_str(MASK);
        out.push('@');
    }
    out.push_str(&place[host..]);
    if !query.is_empty() {
        out.push_str(&query[..1]);
        out.push_str(MASK);
    }
}

/// A word without the quotes and brackets around it.
fn plain(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_their_usual_forms_are_masked_and_nothing_else_is() {
        for (text, expected) in [
            ("listening on port 80", "listening on port 80"),
            ("error: file not found: a.txt", "error: file not found: a.txt"),
            ("API_KEY=sk-123 n=2", "API_KEY=*** n=2"),
            (r#"{"token": "abc", "n": 1}"#, r#"{"token": *** "n": 1}"#),
            ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
            ("sent Bearer abc.def to it", "sent Bearer *** to it"),
            ("password: hunter2 was refused", "password: *** was refused"),
            (
                "GET https://u:p@a.example/x?sig=1#f failed",
                "GET https://***@a.example/x?*** failed",
            ),
            ("at http://a.example/x", "at http://a.example/x"),
            ("a=b&access_token=c", "a=b&access_token=***"),
            ("", ""),
        ] {
            assert_eq!(redacted(text), expected, "{text}");
        }
    }

    #[test]
    fn long_lines_of_separators_take_no_stack_and_no_time() {
        let line = "=:".repeat(1024);
        assert_eq!(redacted(&line), line);
    }
}
