//! Where metadata is looked for, in order, and whom it may speak for.

use super::*;

fn places(find: fn(&Url) -> Vec<Url>, of: &str) -> Vec<String> {
    find(&Url::parse(of).unwrap()).into_iter().map(String::from).collect()
}

#[test]
fn resource_metadata_is_looked_for_below_the_path_and_then_at_the_root() {
    let check = |server: &str, expected: &[&str]| {
        assert_eq!(places(resource_metadata_urls, server), expected, "{server}");
    };
    check(
        "https://h:8443/a/mcp",
        &[
            "https://h:8443/.well-known/oauth-protected-resource/a/mcp",
            "https://h:8443/.well-known/oauth-protected-resource",
        ],
    );
    check(
        "https://h/mcp/?k=v#f",
        &[
            "https://h/.well-known/oauth-protected-resource/mcp?k=v",
            "https://h/.well-known/oauth-protected-resource",
        ],
    );
    check("https://h", &["https://h/.well-known/oauth-protected-resource"]);
}

#[test]
fn issuers_with_a_path_have_three_places_and_never_the_root() {
    let check = |issuer: &str, expected: &[&str]| {
        assert_eq!(places(server_metadata_urls, issuer), expected, "{issuer}");
    };
    check(
        "https://as/tenant1",
        &[
            "https://as/.well-known/oauth-authorization-server/tenant1",
            "https://as/.well-known/openid-configuration/tenant1",
            "https://as/tenant1/.well-known/openid-configuration",
        ],
    );
    for root in ["https://as", "https://as/"] {
        check(
            root,
            &[
                "https://as/.well-known/oauth-authorization-server",
                "https://as/.well-known/openid-configuration",
            ],
        );
    }
}

#[test]
fn a_resource_covers_its_own_origin_and_what_lies_below_its_path() {
    let server = Url::parse("https://h/a/mcp?k=v").unwrap();
    for good in
        ["https://h/a/mcp", "https://h/a/mcp/", "https://h/a", "https://h", "https://H:443/"]
    {
        assert!(covers(good, &server), "{good}");
    }
    for bad in [
        "https://evil/a/mcp",
        "http://h/a/mcp",
        "https://h:8443/a/mcp",
        "https://h/a/mc",
        "https://h/a/mcp/more",
        "https://h/a/mcp?k=w",
        "https://h/a/mcp#f",
        "https://h@evil/a/mcp",
        "https://evil@h/a/mcp",
        "/a/mcp",
        "urn:h",
        "",
    ] {
        assert!(!covers(bad, &server), "{bad}");
    }
}

#[test]
fn issuers_are_compared_as_text() {
    assert!(is_same_issuer("https://as/t", "https://as/t"));
    assert!(is_same_issuer("https://as/", "https://as"));
    for other in ["https://as/t/", "https://AS/t", "https://as:443/t", "https://as/%74", ""] {
        assert!(!is_same_issuer("https://as/t", other), "{other}");
    }
    assert!(!is_same_issuer("https://as", "https://as.evil"));
}

#[test]
fn a_server_without_metadata_is_called_by_its_url() {
    let check = |server: &str, expected: &str| {
        assert_eq!(canonical(&Url::parse(server).unwrap()), expected);
    };
    check("HTTPS://H:443/mcp#f", "https://h/mcp");
    check("https://h", "https://h");
    check("https://h/?k=v", "https://h/?k=v");
}
