//! The seven forms, and the list.

use super::*;

fn shown(text: &str) -> String {
    match Target::parse(text) {
        Ok(Target::Command(words)) => format!("run {}", words.join("|")),
        Ok(Target::Http(url)) => format!("http {url}"),
        Ok(Target::HttpSse(url)) => format!("sse {url}"),
        Ok(Target::CustomSse(base)) => format!("custom {base}"),
        Err(error) => format!("error {error}"),
    }
}

#[test]
fn k40_to_k43_every_form_is_understood() {
    let rows = [
        ("stdio://npx  -y\tserver \"a b\"", "run npx|-y|server|\"a|b\""),
        ("http://h:1/mcp", "http http://h:1/mcp"),
        ("https://h/mcp/", "http https://h/mcp/"),
        (" HTTPS://h/x?k=v ", "http https://h/x?k=v"),
        ("sse://h:1", "sse http://h:1/sse"),
        ("sse://h/base/", "sse http://h/base/sse"),
        ("sses://h/base/sse", "sse https://h/base/sse"),
        ("sses://h/base/sse/?k=v", "sse https://h/base/sse?k=v"),
        ("sse://h/mysse", "sse http://h/mysse/sse"),
        ("custom-http-sse://h/a", "custom http://h/a"),
        ("custom-https-sse://h", "custom https://h"),
    ];
    for (text, expected) in rows {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn k44_an_unknown_scheme_is_told_all_seven() {
    let schemes = ["stdio", "http", "https", "sse", "sses", "custom-http-sse", "custom-https-sse"];
    for text in ["ftp://h", "h:80", "", "ws://h", "custom-sse://h"] {
        let error = shown(text);
        let missing = schemes.iter().find(|scheme| !error.contains(&format!("{scheme}://")));
        assert_eq!(missing, None, "{error}");
        assert!(error.contains(&format!("{text:?}")), "{error}");
    }
}

#[test]
fn urls_without_a_command_or_a_host_are_refused() {
    for text in ["stdio://", "stdio://  ", "http://", "sse://", "http://a b/", "sses://h:99999"] {
        assert!(shown(text).starts_with("error"), "{text}: {}", shown(text));
    }
}

#[test]
fn k50_the_list_of_servers_is_taken_apart() {
    let list = "calc:stdio://python calc.py, \n web : http://h:1/mcp/ ,,broken, :x, y:, \
                http://h/unnamed, old:sse://h";
    let (servers, malformed) = parse_servers(list);
    let servers: Vec<String> =
        servers.iter().map(|listed| format!("{}={}", listed.name, listed.url)).collect();
    assert_eq!(servers, ["calc=stdio://python calc.py", "web=http://h:1/mcp", "old=sse://h"]);
    assert_eq!(malformed, ["broken", ":x", "y:", "http://h/unnamed"]);
}
