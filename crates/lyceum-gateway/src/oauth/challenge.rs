//! [`Challenge`]: what a `WWW-Authenticate` header asks for.
//!
//! Only reads. A header that makes no sense asks for nothing; discovery then goes by the well-known
//! places.

use http::header::{HeaderMap, WWW_AUTHENTICATE};

/// The parameters of a `Bearer` challenge that matter to a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) error: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) resource_metadata: Option<String>,
}

impl Challenge {
    pub(crate) fn read(headers: &HeaderMap) -> Challenge {
        let mut challenge = Challenge::default();
        for value in headers.get_all(WWW_AUTHENTICATE) {
            if let Ok(text) = value.to_str() {
                challenge.add(text);
            }
        }
        challenge
    }

    pub(crate) fn is_about_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// Adds what the `Bearer` challenges in one header value say; what was said first stays.
    fn add(&mut self, text: &str) {
        let mut rest = text;
        let mut bearer = false;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            let Some((word, after)) = token(rest) else { return };
            let after = after.trim_start();
            match after.strip_prefix('=') {
                // A word without a value names the scheme of the next challenge.
                None => {
                    bearer = word.eq_ignore_ascii_case("bearer");
                    rest = after;
                }
                Some(value) => {
                    let Some((value, after)) = quoted_or_token(value.trim_start()) else { return };
                    if bearer {
                        self.set(word, value);
                    }
                    rest = after;
                }
            }
        }
    }

    fn set(&mut self, name: &str, value: String) {
        let member = match name.to_ascii_lowercase().as_str() {
            "error" => &mut self.error,
            "scope" => &mut self.scope,
            "resource_metadata" => &mut self.resource_metadata,
            _ => return,
        };
        member.get_or_insert(value);
    }
}

/// The token `text` starts with, and what follows it.
fn token(text: &str) -> Option<(&str, &str)> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~/".contains(c);
    let end = text.find(|c| !is_token(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn quoted_or_token(text: &str) -> Option<(String, &str)> {
    let Some(inner) = text.strip_prefix('"') else {
        // Unquoted URLs are against the grammar, but what they mean is plain.
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return Some((text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut characters = inner.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((value, &inner[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            _ => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&str], expected: [Option<&str>; 3]) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
        }
        let found = Challenge::read(&headers);
        let found = [&found.error, &found.scope, &found.resource_metadata];
        assert_eq!(found.map(|member| member.as_deref()), expected, "{values:?}");
    }

    #[test]
    fn bearer_parameters_are_read() {
        check(&[], [None; 3]);
        check(&["Bearer"], [None; 3]);
        check(
            &[r#"Bearer realm="a", scope="x y", resource_metadata="https://h/p?q=1,2""#],
            [None, Some("x y"), Some("https://h/p?q=1,2")],
        );
        check(
            &[r#"bearer error = "insufficient_scope",scope=x"#],
            [Some("insufficient_scope"), Some("x"), None],
        );
        check(&[r#"Bearer scope="a \"b\\c""#], [None, Some(r#"a "b\c"#), None]);
        check(&["Bearer resource_metadata=https://h/p"], [None, None, Some("https://h/p")]);
    }

    #[test]
    fn other_schemes_say_nothing_about_ours() {
        check(
            &[r#"Basic realm="x", scope="no", Bearer scope="yes", DPoP scope="no""#],
            [None, Some("yes"), None],
        );
        check(&[r#"DPoP scope="no""#, r#"Bearer error="e""#], [Some("e"), None, None]);
    }

    #[test]
    fn nonsense_asks_for_nothing() {
        for text in ["", ",,,", "=", "Bearer =", r#"Bearer scope="open"#, r#"Bearer scope="a\"#] {
            check(&[text], [None; 3]);
        }
    }
}
