//! What comes back from a login: the query of the redirect, and whether to believe it.
//!
//! Pure. `state` ties it to our request, `iss` (RFC 9207) to the authorization server we sent the
//! user to; both are checked before anything else is read.

use subtle::ConstantTimeEq;
use url::form_urlencoded;

use super::error::{OAuthError, plain};

/// What a redirect is held against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) state: &'a str,
    pub(super) issuer: &'a str,
    /// Whether the issuer said that its redirects name it.
    pub(super) sends_iss: bool,
}

/// The authorization code in the query of a redirect.
pub(super) fn code(query: &str, expected: Expected<'_>) -> Result<String, OAuthError> {
    let refused = |why| Err(OAuthError::Redirect(why));
    let member = |name| member(query, name);
    if !has_state(query, expected.state) {
        return refused("it answers another request");
    }
    match member("iss") {
        Ok(None) if expected.sends_iss => return refused("it does not say who it is from"),
        // Compared as it is: issuers that differ only in spelling are different issuers.
        Ok(Some(iss)) if iss != expected.issuer => return refused("it is from somebody else"),
        Ok(_) => {}
        Err(error) => return Err(error),
    }
    if let Some(error) = member("error")? {
        let description = member("error_description")?.unwrap_or_default();
        let reason = plain(&format!("{error} {description}"));
        return Err(OAuthError::Denied { issuer: plain(expected.issuer), reason });
    }
    match member("code")?.filter(|code| !code.is_empty()) {
        Some(code) => Ok(code),
        None => refused("it brings no code"),
    }
}

/// Whether a redirect answers the request that had this `state`.
pub(super) fn has_state(query: &str, state: &str) -> bool {
    let found = member(query, "state").ok().flatten();
    found.is_some_and(|found| found.as_bytes().ct_eq(state.as_bytes()).into())
}

/// Whether a redirect brings bad news.
pub(super) fn has_error(query: &str) -> bool {
    !matches!(member(query, "error"), Ok(None))
}

/// A parameter; one that comes twice may mean two things, so it is refused.
fn member(query: &str, name: &str) -> Result<Option<String>, OAuthError> {
    let mut found = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == name);
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(OAuthError::Redirect("it says something twice")),
        (first, None) => Ok(first.map(|(_, value)| value.into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, sends_iss: bool, expected: Result<&str, &str>) {
        let found = code(query, Expected { state: "s1", issuer: "https://as", sends_iss });
        let found = found.map_err(|error| error.to_string());
        match expected {
            Ok(code) => assert_eq!(found.as_deref(), Ok(code), "{query}"),
            Err(part) => assert!(found.clone().unwrap_err().contains(part), "{query}: {found:?}"),
        }
    }

    #[test]
    fn the_code_of_our_own_request_is_taken() {
        check("code=a%20b&state=s1", false, Ok("a b"));
        check("state=s1&code=x&iss=https%3A%2F%2Fas", true, Ok("x"));
        check("state=s1&code=x&iss=https%3A%2F%2Fas", false, Ok("x"));
    }

    #[test]
    fn somebody_elses_answer_is_not() {
        check("code=x", false, Err("another request"));
        check("code=x&state=s2", false, Err("another request"));
        check("code=x&state=s1&state=s1", false, Err("another request"));
        check("code=x&state=s1", true, Err("does not say who"));
        for iss in ["https://evil", "https://as/", "https://AS", "https://as:443", ""] {
            check(&format!("code=x&state=s1&iss={iss}"), true, Err("from somebody else"));
            check(&format!("code=x&state=s1&iss={iss}"), false, Err("from somebody else"));
        }
        check("code=x&state=s1&iss=https://as&iss=https://evil", true, Err("twice"));
        check("error=access_denied&state=s2", false, Err("another request"));
    }

    #[test]
    fn a_refusal_is_told_without_line_breaks() {
        check("error=access_denied&state=s1", false, Err("https://as refused: access_denied"));
        check("error=e&error_description=a%0Ab&state=s1", false, Err("e ab"));
        check("state=s1", false, Err("no code"));
        check("state=s1&code=", false, Err("no code"));
        check("state=s1&code=a&code=b", false, Err("twice"));
    }
}
