//! Host and Origin as a matrix (reliability row 1), then each check's own table.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use http::{HeaderMap, HeaderValue, Uri};
use proptest::prelude::*;

use super::*;

fn headers(lines: &[(HeaderName, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

/// The request target and the Host lines, and the status a server with the default policy, which
/// also answers for `mcp.example.com` and `other.example.com:8080`, gives: 200 to go on.
const HOSTS: [(&str, &[&str], u16); 41] = [
    // Addressed to us.
    ("/mcp", &["localhost"], 200),
    ("/mcp", &["localhost:8000"], 200),
    ("/mcp", &["LocalHost:1"], 200),
    ("/mcp", &["127.0.0.1:65535"], 200),
    ("/mcp", &["[::1]"], 200),
    ("/mcp", &["[::1]:8000"], 200),
    ("/mcp", &["[0:0:0:0:0:0:0:1]:8000"], 200),
    ("/mcp", &["mcp.example.com"], 200),
    ("/mcp", &["MCP.Example.Com:444"], 200),
    ("/mcp", &["other.example.com:8080"], 200),
    // In absolute form, or as HTTP/2 has it.
    ("http://localhost:8000/mcp", &["localhost:8000"], 200),
    ("http://LOCALHOST:8000/mcp", &["localhost:8000"], 200),
    ("http://localhost:8000/mcp", &[], 200),
    ("https://[::1]/mcp", &["[::1]"], 200),
    // Addressed to somebody else.
    ("/mcp", &["evil.test"], 421),
    ("/mcp", &["evil.test:8000"], 421),
    ("/mcp", &["localhost.evil.test"], 421),
    ("/mcp", &["evil-localhost"], 421),
    ("/mcp", &["127.0.0.1.evil.test"], 421),
    ("/mcp", &["127.0.0.1.nip.test:8000"], 421),
    ("/mcp", &["127.0.0.1."], 421),
    ("/mcp", &["localhost."], 421),
    ("/mcp", &["127.0.0.2"], 421),
    ("/mcp", &["127.1"], 421),
    ("/mcp", &["0.0.0.0"], 421),
    ("/mcp", &["[::ffff:127.0.0.1]"], 421),
    ("/mcp", &["sub.mcp.example.com"], 421),
    ("/mcp", &["other.example.com"], 421),
    ("/mcp", &["other.example.com:80801"], 400),
    ("http://evil.test/mcp", &[], 421),
    // Two addressees.
    ("http://evil.test/mcp", &["localhost"], 421),
    ("http://localhost/mcp", &["evil.test"], 421),
    ("http://localhost:1/mcp", &["localhost:2"], 421),
    ("http://localhost/mcp", &["localhost:80"], 421),
    ("/mcp", &["localhost", "localhost"], 400),
    ("/mcp", &["localhost", "evil.test"], 400),
    // No addressee, or none that can be read in one way only.
    ("/mcp", &[], 400),
    ("/mcp", &[""], 400),
    ("/mcp", &["localhost, evil.test"], 400),
    ("/mcp", &["localhost@evil.test"], 400),
    ("http://user@localhost/mcp", &["localhost"], 400),
];

/// More ways to write a Host that is none.
const NO_HOSTS: [&str; 14] = [
    ":8000",
    "localhost:",
    "localhost:80x",
    "localhost:-1",
    "localhost:+80",
    "localhost:99999",
    "localhost:80:80",
    "localhost/",
    "http://localhost",
    "[::1",
    "[::1]x",
    "::1",
    "[localhost]",
    "l\u{f6}calhost",
];

/// Origin lines and the status of an endpoint that also allows `https://app.example.com` and
/// `http://dev.example.com:3000`.
const ORIGINS: [(&[&str], u16); 33] = [
    (&[], 200),
    (&["http://localhost"], 200),
    (&["https://localhost:5173"], 200),
    (&["http://127.0.0.1:6274"], 200),
    (&["http://[::1]:3000"], 200),
    (&["https://app.example.com"], 200),
    (&["HTTPS://App.Example.com"], 200),
    (&["http://dev.example.com:3000"], 200),
    (&["null"], 403),
    (&["http://evil.test"], 403),
    (&[""], 403),
    (&["*"], 403),
    (&["http://localhost", "http://localhost"], 403),
    (&["http://localhost", "http://evil.test"], 403),
    (&["http://localhost http://evil.test"], 403),
    (&["http://localhost,http://evil.test"], 403),
    (&["http://localhost.evil.test"], 403),
    (&["http://localhost.:80"], 403),
    (&["http://evil.test/http://localhost"], 403),
    (&["http://localhost@evil.test"], 403),
    (&["http://localhost/"], 403),
    (&["http://localhost:80x"], 403),
    (&["http://127.0.0.1."], 403),
    (&["http://127.0.0.1.evil.test"], 403),
    (&["localhost"], 403),
    (&["file://localhost"], 403),
    (&["http:localhost"], 403),
    (&["chrome-extension://localhost"], 403),
    (&["https://app.example.com.evil.test"], 403),
    (&["https://app.example.co"], 403),
    (&["http://app.example.com"], 403),
    (&["https://app.example.com:444"], 403),
    (&["http://dev.example.com"], 403),
];

fn host_policy() -> HostPolicy {
    let mut policy = HostPolicy::loopback();
    policy.allow("mcp.example.com").unwrap();
    policy.allow("other.example.com:8080").unwrap();
    policy
}

fn origin_policy() -> OriginPolicy {
    let mut policy = OriginPolicy::loopback();
    policy.allow("https://app.example.com").unwrap();
    policy.allow("http://dev.example.com:3000").unwrap();
    policy
}

fn host_status(target: &str, headers: &HeaderMap) -> u16 {
    let uri: Uri = target.parse().unwrap();
    check_host(&uri, headers, &host_policy()).map_or_else(|refused| refused.status, |()| 200)
}

fn origin_status(headers: &HeaderMap) -> u16 {
    check_origin(headers, &origin_policy()).map_or_else(|refused| refused.status, |_| 200)
}

#[test]
fn host_and_origin_are_judged_apart_in_every_combination() {
    for (target, hosts, host_expected) in HOSTS {
        for (origins, origin_expected) in ORIGINS {
            let hosts = hosts.iter().map(|host| (HOST, *host));
            let origins = origins.iter().map(|origin| (ORIGIN, *origin));
            let lines: Vec<(HeaderName, &str)> = hosts.chain(origins).collect();
            let headers = headers(&lines);
            assert_eq!(host_status(target, &headers), host_expected, "{target} {lines:?}");
            assert_eq!(origin_status(&headers), origin_expected, "{target} {lines:?}");
        }
    }
}

#[test]
fn a_host_that_names_its_own_page_admits_nobody() {
    let headers = headers(&[(HOST, "evil.test"), (ORIGIN, "http://evil.test")]);
    assert_eq!((host_status("/mcp", &headers), origin_status(&headers)), (421, 403));
}

#[test]
fn hosts_that_can_be_read_in_two_ways_are_refused() {
    for host in NO_HOSTS {
        assert_eq!(host_status("/mcp", &headers(&[(HOST, host)])), 400, "{host}");
        assert!(host_policy().allow(host).is_err(), "{host} in configuration");
    }
}

#[test]
fn the_bound_address_is_served_but_not_all_addresses() {
    let serves = |bind: &str, host: &str| {
        let policy = HostPolicy::for_bind(bind.parse().unwrap());
        check_host(&Uri::from_static("/mcp"), &headers(&[(HOST, host)]), &policy).is_ok()
    };
    assert!(serves("192.0.2.7:80", "192.0.2.7:80"));
    assert!(serves("192.0.2.7:80", "localhost"));
    assert!(serves("[2001:db8::7]:80", "[2001:DB8::7]"));
    assert!(!serves("192.0.2.7:80", "192.0.2.8"));
    assert!(!serves("0.0.0.0:80", "0.0.0.0"));
    assert!(!serves("[::]:80", "[::]"));
    assert!(serves("0.0.0.0:80", "127.0.0.1"));
}

#[test]
fn a_star_serves_every_well_formed_host() {
    let mut policy = HostPolicy::loopback();
    policy.allow("*").unwrap();
    let serves = |lines: &[(HeaderName, &str)]| {
        check_host(&Uri::from_static("/mcp"), &headers(lines), &policy).is_ok()
    };
    assert!(serves(&[(HOST, "evil.test")]));
    assert!(!serves(&[(HOST, "a@evil.test")]));
    assert!(!serves(&[]));
}

#[test]
fn configured_origins_are_normalized_or_refused() {
    let mut policy = OriginPolicy::loopback();
    policy.allow("HTTPS://App.Example.com:443").unwrap();
    policy.allow("http://plain.example.com:80").unwrap();
    policy.allow("https://odd.example.com:80").unwrap();
    let allows = |origin: &str| check_origin(&headers(&[(ORIGIN, origin)]), &policy).is_ok();
    assert!(allows("https://app.example.com"));
    assert!(allows("http://plain.example.com"));
    assert!(allows("https://odd.example.com:80"));
    assert!(!allows("https://odd.example.com"));
    for entry in ["null", "*", "", "app.example.com", "https://app.example.com/", "ftp://a"] {
        let error = OriginPolicy::loopback().allow(entry).unwrap_err();
        assert!(error.to_string().contains("is not an origin such as"), "{error}");
    }
}

#[test]
fn an_allowed_origin_is_handed_on_to_be_reflected() {
    let lines = headers(&[(ORIGIN, "http://localhost:1")]);
    assert_eq!(check_origin(&lines, &origin_policy()).unwrap().unwrap(), "http://localhost:1");
    assert_eq!(check_origin(&headers(&[]), &origin_policy()), Ok(None));
}

#[test]
fn refusals_say_what_to_do_and_quote_with_care() {
    let lines = headers(&[(HOST, "evil.test"), (ORIGIN, "http://evil.test/\"\u{e9}")]);
    let refused = check_host(&Uri::from_static("/"), &lines, &host_policy()).unwrap_err();
    assert_eq!(refused.message, "host \"evil.test\" is not served here; add it to `hosts`");
    let refused = check_origin(&lines, &origin_policy()).unwrap_err();
    assert_eq!(
        refused.message,
        r#"origin "http://evil.test/\"\xc3\xa9" may not call this endpoint; add it to `origins`"#
    );
    let long = headers(&[(HOST, &"a".repeat(10_000))]);
    let refused = check_host(&Uri::from_static("/"), &long, &host_policy()).unwrap_err();
    assert!(refused.message.len() < 200);
}

#[test]
fn json_is_told_from_other_bodies() {
    let rows: [(&[&str], ContentType); 17] = [
        (&[], ContentType::Missing),
        (&["application/json"], ContentType::Json),
        (&["Application/JSON"], ContentType::Json),
        (&["application/json; charset=utf-8"], ContentType::Json),
        (&["application/json;charset=\"UTF-8\""], ContentType::Json),
        (&[" application/json ; profile=x ;"], ContentType::Json),
        (&["application/json; charset=latin1"], ContentType::Other),
        (&["application/json; charset=utf-16"], ContentType::Other),
        (&["application/json, text/plain"], ContentType::Other),
        (&["application/json", "application/json"], ContentType::Other),
        (&["application/json", "text/plain"], ContentType::Other),
        (&["application/json-rpc"], ContentType::Other),
        (&["application/jsonx"], ContentType::Other),
        (&["text/json"], ContentType::Other),
        (&["text/plain; x=application/json"], ContentType::Other),
        (&["application/x-www-form-urlencoded"], ContentType::Other),
        (&[""], ContentType::Other),
    ];
    for (lines, expected) in rows {
        let lines: Vec<_> = lines.iter().map(|line| (CONTENT_TYPE, *line)).collect();
        assert_eq!(check_content_type(&headers(&lines)), expected, "{lines:?}");
    }
}

#[test]
fn encoded_bodies_are_refused() {
    let rows: [(&[&str], bool); 10] = [
        (&[], true),
        (&["identity"], true),
        (&["Identity, identity"], true),
        (&[""], true),
        (&["gzip"], false),
        (&["br"], false),
        (&["identity, gzip"], false),
        (&["identity", "zstd"], false),
        (&["identityx"], false),
        (&["identity;q=1"], false),
    ];
    for (lines, accepted) in rows {
        let lines: Vec<_> = lines.iter().map(|line| (CONTENT_ENCODING, *line)).collect();
        let checked = check_content_encoding(&headers(&lines));
        assert_eq!(checked.is_ok(), accepted, "{lines:?}");
        assert!(checked.is_ok() || checked.unwrap_err().status == 415);
    }
}

proptest! {
    #[test]
    fn any_header_values_are_judged(values in prop::collection::vec(any::<Vec<u8>>(), 0..3)) {
        let mut headers = HeaderMap::new();
        for value in values.iter().filter_map(|value| HeaderValue::from_bytes(value).ok()) {
            for name in [HOST, ORIGIN, CONTENT_TYPE, CONTENT_ENCODING] {
                headers.append(name, value.clone());
            }
        }
        let _ = check_host(&Uri::from_static("/"), &headers, &host_policy());
        let _ = check_origin(&headers, &origin_policy());
        let _ = check_content_type(&headers);
        let _ = check_content_encoding(&headers);
    }

    #[test]
    fn nothing_added_to_a_good_host_or_origin_stays_good(extra in "[a-z.@/:\\[\\]%-]{1,6}") {
        let is_port = |text: &str| text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
        prop_assume!(!is_port(&extra));
        for host in [format!("localhost{extra}"), format!("{extra}localhost")] {
            prop_assert_ne!(host_status("/mcp", &headers(&[(HOST, &host)])), 200);
        }
        for origin in [format!("http://localhost{extra}"), format!("http://{extra}localhost")] {
            prop_assert_eq!(origin_status(&headers(&[(ORIGIN, &origin)])), 403);
        }
    }
}
