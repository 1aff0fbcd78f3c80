//! Which scopes to ask for: one pure function, and reading and writing lists of scopes.

/// More than this is not a request, it is an attack on the consent page.
const MAX_SCOPES: usize = 64;

/// Asks for refresh tokens where an authorization server has it; nothing a resource can demand.
const OFFLINE: &str = "offline_access";

/// What there is to choose from.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Offers<'a> {
    /// The scope of the server's challenge.
    pub(super) challenge: Option<&'a str>,
    /// What the operator configured.
    pub(super) configured: &'a [String],
    /// `scopes_supported` of the server.
    pub(super) resource: Option<&'a [String]>,
    /// `scopes_supported` of the authorization server.
    pub(super) issuer: &'a [String],
    /// What was asked for before, at the same authorization server.
    pub(super) before: &'a [String],
    /// Whether the grant can bring refresh tokens.
    pub(super) may_refresh: bool,
}

/// The scopes to ask for; none at all means leaving the choice to the authorization server.
pub(super) fn choose(offers: Offers<'_>) -> Vec<String> {
    let mut scopes = offers.before.to_vec();
    scopes.extend_from_slice(offers.configured);
    if let Some(challenge) = offers.challenge {
        scopes.extend(split(challenge));
    } else if offers.configured.is_empty() {
        scopes.extend_from_slice(offers.resource.unwrap_or_default());
    }
    scopes.retain(|scope| is_scope(scope) && scope != OFFLINE);
    let mut chosen: Vec<String> = Vec::new();
    for scope in scopes {
        if !chosen.contains(&scope) && chosen.len() < MAX_SCOPES {
            chosen.push(scope);
        }
    }
    // Alone it would replace the scopes the authorization server grants by itself.
    let has_offline = offers.issuer.iter().any(|scope| scope == OFFLINE);
    if has_offline && offers.may_refresh && !chosen.is_empty() {
        chosen.push(OFFLINE.to_owned());
    }
    chosen
}

/// Whether `wanted` has anything that `had` has not.
pub(super) fn asks_for_more(wanted: &[String], had: &[String]) -> bool {
    wanted.iter().any(|scope| !had.contains(scope))
}

fn split(text: &str) -> impl Iterator<Item = String> {
    text.split_ascii_whitespace().map(str::to_owned)
}

/// The characters RFC 6749 allows.
fn is_scope(text: &str) -> bool {
    let allowed = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    !text.is_empty() && text.len() <= 256 && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        split(text).collect()
    }

    /// challenge, configured, resource, issuer, before → chosen.
    fn check(
        challenge: Option<&str>,
        [configured, resource, issuer, before]: [&str; 4],
        expected: &str,
    ) {
        let (configured, resource) = (list(configured), list(resource));
        let (issuer, before) = (list(issuer), list(before));
        let offers = Offers {
            challenge,
            configured: &configured,
            resource: (!resource.is_empty()).then_some(&resource),
            issuer: &issuer,
            before: &before,
            may_refresh: true,
        };
        assert_eq!(choose(offers).join(" "), expected, "{offers:?}");
        let cannot = choose(Offers { may_refresh: false, ..offers });
        assert!(!cannot.contains(&OFFLINE.to_owned()), "{offers:?}");
    }

    #[test]
    fn the_challenge_comes_before_what_is_supported() {
        check(Some("a b"), ["", "c d", "", ""], "a b");
        check(None, ["", "c d", "x", ""], "c d");
        check(None, ["", "", "x y", ""], "");
        check(Some(""), ["", "c", "", ""], "");
    }

    #[test]
    fn the_operator_comes_before_what_is_supported_and_beside_the_challenge() {
        check(None, ["o", "c d", "", ""], "o");
        check(Some("a"), ["o", "c d", "", ""], "o a");
    }

    #[test]
    fn asking_again_keeps_what_was_asked_before() {
        check(Some("b"), ["", "c", "", "a b"], "a b");
        check(Some("c"), ["", "", "", "a b"], "a b c");
    }

    #[test]
    fn offline_access_is_asked_for_where_it_is_listed_and_nowhere_else() {
        check(Some("a"), ["", "", "a offline_access", ""], "a offline_access");
        check(Some("a offline_access"), ["", "", "a", ""], "a");
        check(Some("a offline_access"), ["", "", "", "offline_access"], "a");
        check(None, ["", "", "offline_access", ""], "");
    }

    #[test]
    fn nonsense_and_floods_are_left_out() {
        check(Some("a \"b\" c\\d é e"), ["", "", "", ""], "a e");
        let flood = (0..1000).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let chosen = choose(Offers { challenge: Some(&flood), ..Offers::default() });
        assert_eq!(chosen.len(), MAX_SCOPES);
    }

    #[test]
    fn more_is_what_was_not_there() {
        assert!(asks_for_more(&list("a b"), &list("a")));
        assert!(!asks_for_more(&list("a"), &list("b a")));
        assert!(!asks_for_more(&[], &[]));
    }
}
