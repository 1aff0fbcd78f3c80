//! Host and Origin over the wire, every combination, at every door (CVE-2025-66414 and its kin).

use lyceum_http::{HostPolicy, OriginPolicy};
use lyceum_testkit::{Request, Server};
use serde_json::json;

use crate::lab::{Lab, PATH, initialize, modern};

const GOOD_HOSTS: [&str; 6] =
    ["127.0.0.1", "127.0.0.1:8808", "localhost", "LOCALHOST:1", "[::1]", "[::1]:8808"];
const BAD_HOSTS: [&str; 16] = [
    "evil.example",
    "evil.example:8808",
    "127.0.0.1.evil.example",
    "127.0.0.1.",
    "localhost.",
    "localhost.evil.example",
    "evil.example#127.0.0.1",
    "a@127.0.0.1",
    "127.0.0.1@evil.example",
    "127.1",
    "0.0.0.0",
    "0x7f000001",
    "[::ffff:127.0.0.1]",
    "127.0.0.1:8808:1",
    "127.0.0.1, evil.example",
    "",
];
const GOOD_ORIGINS: [&str; 4] =
    ["http://localhost", "http://127.0.0.1:6274", "https://localhost:443", "http://[::1]:3000"];
const BAD_ORIGINS: [&str; 12] = [
    "http://evil.example",
    "https://evil.example",
    "null",
    "http://localhost.evil.example",
    "http://127.0.0.1.evil.example",
    "http://localhost@evil.example",
    "http://evil.example/http://localhost",
    "localhost",
    "file://localhost",
    "chrome-extension://localhost",
    "http://localhost, http://evil.example",
    "",
];

/// What could do harm at each door.
fn doors() -> Vec<Request> {
    let sse = Request::new("GET", "/sse").header("accept", "text/event-stream");
    let post =
        Request::post("/messages?session_id=x", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    vec![
        initialize("2025-11-25"),
        Request::legacy(PATH, 1, "ping", json!({})),
        modern(1, "echo", json!({})),
        Request::new("GET", PATH),
        Request::new("DELETE", PATH).header("mcp-session-id", "x"),
        Request::new("OPTIONS", PATH),
        sse,
        post,
    ]
}

/// The status of a request on a connection of its own.
async fn status(server: &Server, request: &Request) -> u16 {
    let mut connection = server.connect().await;
    connection.send(request.to_bytes()).await;
    connection.head().await.expect("an answer").status
}

#[tokio::test]
async fn foreign_hosts_reach_no_handler() {
    let lab = Lab::new();
    let server = lab.serve().await;
    for door in doors() {
        for host in BAD_HOSTS {
            for origin in [None, Some(GOOD_ORIGINS[0]), Some(BAD_ORIGINS[0])] {
                let mut request = door.clone().set("host", host);
                if let Some(origin) = origin {
                    request = request.header("origin", origin);
                }
                let status = status(&server, &request).await;
                assert!([400, 421].contains(&status), "{host:?} {origin:?}: {status}");
            }
        }
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn foreign_origins_reach_no_handler_whatever_the_host() {
    let lab = Lab::new();
    let server = lab.serve().await;
    for door in doors() {
        for origin in BAD_ORIGINS {
            for host in &GOOD_HOSTS[..2] {
                let request = door.clone().set("host", host).header("origin", origin);
                assert_eq!(status(&server, &request).await, 403, "{origin:?}");
            }
            // A page that rebinds its own name sends the same evil name in both.
            if let Some(host) = origin.strip_prefix("http://") {
                let request = door.clone().set("host", host).header("origin", origin);
                assert!([400, 403, 421].contains(&status(&server, &request).await), "{origin:?}");
            }
        }
        let twice =
            door.clone().header("origin", GOOD_ORIGINS[0]).header("origin", GOOD_ORIGINS[0]);
        assert_eq!(status(&server, &twice).await, 403);
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn ambiguous_addressees_reach_no_handler() {
    let lab = Lab::new();
    let server = lab.serve().await;
    for door in doors() {
        let mut cases = vec![
            door.clone().without("host"),
            door.clone().header("host", "127.0.0.1"),
            door.clone().header("host", "evil.example"),
        ];
        for (authority, host) in [
            ("evil.example", "127.0.0.1"),
            ("127.0.0.1", "evil.example"),
            ("evil.example", "evil.example"),
            ("a@127.0.0.1", "127.0.0.1"),
        ] {
            let mut absolute = door.clone().set("host", host);
            absolute.target = format!("http://{authority}{}", door.target);
            cases.push(absolute);
        }
        for case in cases {
            let status = status(&server, &case).await;
            assert!([400, 421].contains(&status), "{case:?}: {status}");
        }
    }
    assert_eq!(lab.fixture.invocations(), 0);
}

#[tokio::test]
async fn loopback_names_and_origins_are_served() {
    let lab = Lab::new();
    let server = lab.serve().await;
    for host in GOOD_HOSTS {
        for origin in GOOD_ORIGINS {
            let request = modern(1, "echo", json!({})).set("host", host).header("origin", origin);
            assert_eq!(status(&server, &request).await, 200, "{host} {origin}");
        }
        let mut absolute = modern(1, "echo", json!({})).set("host", host);
        absolute.target = format!("http://{host}{PATH}");
        assert_eq!(status(&server, &absolute).await, 200, "{host}");
    }
}

#[tokio::test]
async fn configured_names_and_origins_are_served_and_no_others() {
    let mut hosts = HostPolicy::loopback();
    hosts.allow("mcp.example.com:443").unwrap();
    let mut origins = OriginPolicy::loopback();
    origins.allow("https://app.example.com").unwrap();
    let lab = Lab::with(|endpoint| endpoint.hosts(hosts).origins(origins));
    let server = lab.serve().await;
    for (host, origin, expected) in [
        ("mcp.example.com:443", "https://app.example.com", 200),
        ("127.0.0.1", "https://app.example.com", 200),
        ("mcp.example.com", "https://app.example.com", 421),
        ("mcp.example.com:444", "https://app.example.com", 421),
        ("mcp.example.com:443", "http://app.example.com", 403),
        ("mcp.example.com:443", "https://app.example.com:444", 403),
        ("mcp.example.com:443", "https://app.example.com.evil.example", 403),
        ("mcp.example.com:443", "https://mcp.example.com", 403),
    ] {
        let request = modern(1, "echo", json!({})).set("host", host).header("origin", origin);
        assert_eq!(status(&server, &request).await, expected, "{host} {origin}");
    }
}

/// Browsers send `Sec-Fetch-Site`, and pages cannot change it.
#[tokio::test]
async fn cross_site_writes_need_an_origin_that_may_call() {
    let mut origins = OriginPolicy::loopback();
    origins.allow("https://app.example").unwrap();
    let lab = Lab::with(|endpoint| endpoint.origins(origins));
    let server = lab.serve().await;
    let status = async |request: Request| server.connect().await.call(&request).await.status();
    for (site, origin, refused) in [
        ("cross-site", None, true),
        ("Cross-Site", None, true),
        ("cross-site", Some("https://evil.example"), true),
        ("cross-site", Some("https://app.example"), false),
        ("cross-site", Some("http://localhost:3000"), false),
        ("same-site", None, false),
        ("same-origin", None, false),
        ("none", None, false),
    ] {
        let from = |request: Request| {
            let request = request.header("sec-fetch-site", site);
            origin.into_iter().fold(request, |request, origin| request.header("origin", origin))
        };
        for door in doors().into_iter().filter(|door| ["POST", "DELETE"].contains(&&*door.method)) {
            let told = format!("{site} {origin:?} {} {}", door.method, door.target);
            assert_eq!(status(from(door)).await == 403, refused, "{told}");
        }
        let look = Request::new("GET", PATH).header("accept", "application/json");
        assert_eq!(status(from(look)).await == 403, refused && origin.is_some(), "a GET: {site}");
    }
}
