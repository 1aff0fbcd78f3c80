//! The headers pages get.

use http::header::ORIGIN;

use super::*;

const PAGE: HeaderValue = HeaderValue::from_static("https://app.example.com");

/// The headers of the answer to a preflight that asks for `requested`.
fn preflight(requested: &[&str]) -> String {
    let mut request = HeaderMap::new();
    request.append(ORIGIN, PAGE);
    for line in requested {
        request.append(ACCESS_CONTROL_REQUEST_HEADERS, line.parse().unwrap());
    }
    let mut headers = HeaderMap::new();
    preflight_headers(&PAGE, &request, &mut headers);
    told(&headers)
}

fn told(headers: &HeaderMap) -> String {
    let mut lines: Vec<String> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    lines.sort();
    lines.join("\n")
}

#[test]
fn answers_reflect_the_origin_and_show_our_headers() {
    let mut headers = HeaderMap::new();
    headers.append(VARY, HeaderValue::from_static("accept"));
    answer_headers(&PAGE, &mut headers);
    insta::assert_snapshot!(told(&headers), @r"
    access-control-allow-origin: https://app.example.com
    access-control-expose-headers: mcp-session-id, www-authenticate, lyceum-decision, x-request-id
    vary: accept
    vary: origin
    ");
}

#[test]
fn preflights_allow_what_clients_send() {
    insta::assert_snapshot!(preflight(&[]), @r"
    access-control-allow-headers: authorization, x-api-key, content-type, accept, mcp-session-id, mcp-protocol-version, last-event-id, mcp-method, mcp-name, x-request-id
    access-control-allow-methods: GET, POST, DELETE
    access-control-allow-origin: https://app.example.com
    access-control-max-age: 7200
    vary: origin, access-control-request-headers
    ");
}

#[test]
fn preflights_allow_each_tool_parameter_they_ask_for() {
    let allowed =
        preflight(&["authorization, Mcp-Param-City,mcp-param-x", "x-evil, mcp-param-day"]);
    let suffix = "x-request-id, mcp-param-city, mcp-param-x, mcp-param-day";
    assert!(allowed.lines().any(|line| line.ends_with(suffix)), "{allowed}");
    assert!(!allowed.contains("x-evil"));
}

#[test]
fn preflights_reflect_nothing_but_tokens_and_not_without_end() {
    let plain = preflight(&[]);
    assert_eq!(
        preflight(&["mcp-param", "mcp-param-a b", "mcp-param-a:b, mcp-param-\"", ""]),
        plain
    );
    let many = preflight(&[&"mcp-param-a,".repeat(1000)]);
    assert_eq!(many.matches("mcp-param-a").count(), MOST_PARAMS);
}
