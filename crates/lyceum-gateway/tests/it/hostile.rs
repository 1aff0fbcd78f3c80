//! Upstreams that flood and compress (reliability rows 9 and 28): their own tools fail, with a reason,
//! and nobody holds more of what they say than one message may have.

use std::time::Duration;

use lyceum_gateway::{EraChoice, Status, Target, UpstreamConfig};
use lyceum_wire::RevisionSet;
use serde_json::json;
use tokio::time::Instant;

use crate::census::{children, peak_kb};
use crate::healing::{modern, outcome, status};
use crate::house::{House, Way, fixture_upstream, text, upstream_program};
use crate::mirror::{Mirror, Reply, plain};

/// One message of 16 MiB, in a buffer that may have doubled just before; and what else is going on.
const CAP_KB: usize = (2 * 16 + 16) << 10;
static PIECE: [u8; 64 << 10] = [b'x'; 64 << 10];

fn hostile(flags: &[&str]) -> UpstreamConfig {
    let program = upstream_program().to_str().unwrap().to_owned();
    let flags = ["hostile"].iter().chain(flags).map(|flag| (*flag).to_owned());
    let command = Target::Command([program].into_iter().chain(flags).collect());
    patient(UpstreamConfig { era: EraChoice::Legacy, ..UpstreamConfig::new("up", command) })
}

fn patient(config: UpstreamConfig) -> UpstreamConfig {
    UpstreamConfig { call_timeout: Duration::from_secs(3), ..config }
}

/// The gateway with this upstream and a good one.
async fn beside_a_good_one(config: UpstreamConfig) -> (House, Option<lyceum_testkit::Server>) {
    let (good, running) = fixture_upstream(Way::Http, RevisionSet::MODERN).await;
    let good = UpstreamConfig { name: "good".to_owned(), ..good };
    let house = House::unsettled(vec![config, good]).await;
    status(&house, "good", Status::Up).await;
    (house, running)
}

fn last_error(house: &House) -> String {
    let health = house.gateway.health();
    let (_, up) = health.iter().find(|(name, _)| name == "up").unwrap();
    up.last_error.clone().unwrap_or_default()
}

async fn says_why(house: &House, expected: &str) {
    let start = Instant::now();
    while !last_error(house).contains(expected) {
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", house.gateway.health());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_floods_its_output_is_killed_and_started_again() {
    for (tool, reason) in [
        ("up_line", "a line of the server's output is larger than 16777216 bytes"),
        ("up_noise", "its output is no messages"),
    ] {
        let (house, _good) = beside_a_good_one(hostile(&[])).await;
        status(&house, "up", Status::Up).await;
        let peer = modern(&house).await;
        let before = peak_kb();
        let (failed, said) = outcome(&peer, tool).await;
        assert!(failed && said.contains("up"), "{tool}: {said}");
        says_why(&house, reason).await;
        assert!(last_error(&house).contains("the process ended"), "{}", last_error(&house));
        // Its successor is as good as any, and there is only one of it.
        status(&house, "up", Status::Up).await;
        assert_eq!(outcome(&peer, "up_behave").await, (false, "behaved".to_owned()));
        assert_eq!(children(), 1, "{tool}");
        assert_eq!(text(&peer, "good_echo", json!({"text": "on"})).await.unwrap(), "on");
        let grown = peak_kb().saturating_sub(before);
        assert!(grown <= CAP_KB, "{tool}: {grown} KiB");
        house.gateway.close().await;
        assert_eq!(children(), 0, "{tool}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_floods_from_the_start_stays_down() {
    let before = peak_kb();
    let (house, _good) = beside_a_good_one(hostile(&["--at-once"])).await;
    says_why(&house, "larger than 1048576 bytes").await;
    let peer = modern(&house).await;
    // Several attempts later it is still no more than that.
    for n in 0..20 {
        let said = text(&peer, "good_echo", json!({"text": n.to_string()})).await;
        assert_eq!(said.unwrap(), n.to_string());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(children() <= 1);
    let grown = peak_kb().saturating_sub(before);
    assert!(grown <= CAP_KB, "{grown} KiB");
    house.gateway.close().await;
    assert_eq!(children(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_floods_its_errors_or_the_news_is_held_up_and_goes_on() {
    for tool in ["up_errors", "up_notify"] {
        let (house, _good) = beside_a_good_one(hostile(&[])).await;
        status(&house, "up", Status::Up).await;
        let peer = modern(&house).await;
        let before = peak_kb();
        let (failed, said) = outcome(&peer, tool).await;
        // One that floods its output with news answers nothing any more.
        assert_eq!(failed, tool == "up_notify", "{tool}: {said}");
        for n in 0..20 {
            let said = text(&peer, "good_echo", json!({"text": n.to_string()})).await;
            assert_eq!(said.unwrap(), n.to_string());
            if !failed {
                assert_eq!(outcome(&peer, "up_behave").await, (false, "behaved".to_owned()));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let grown = peak_kb().saturating_sub(before);
        assert!(grown <= CAP_KB, "{tool}: {grown} KiB");
        let start = Instant::now();
        house.gateway.close().await;
        assert!(start.elapsed() < Duration::from_secs(6), "{tool}: {:?}", start.elapsed());
        assert_eq!(children(), 0, "{tool}");
    }
}

const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

/// Calls a tool whose answer never ends: what the model is told, and how much was taken.
async fn swallowed(head: &str, piece: &[u8]) -> (String, u64) {
    let (head, piece) = (head.to_owned(), piece.to_vec());
    let upstream = Mirror::answering(move |request| match request.method.as_str() {
        "tools/call" => Reply::Endless(head.clone(), piece.clone()),
        method => plain(method),
    })
    .await;
    let (house, _good) = beside_a_good_one(patient(upstream.config("up"))).await;
    status(&house, "up", Status::Up).await;
    let peer = modern(&house).await;
    let (failed, said) = outcome(&peer, "up_mirror").await;
    assert!(failed, "{said}");
    assert_eq!(text(&peer, "good_echo", json!({"text": "on"})).await.unwrap(), "on");
    (said, upstream.n_taken())
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_without_an_end_are_given_up_at_the_limit() {
    let chunk = [b"10000\r\n".as_slice(), &PIECE, b"\r\n"].concat();
    let lines = format!("data: {}\n", "x".repeat(1000)).repeat(64);
    let large = "larger than 16777216 bytes";
    for (name, head, piece, expected) in [
        ("text", format!("{JSON}\r\n{{\"a\":\""), &PIECE[..], large),
        (
            "a length of a terabyte",
            format!("{JSON}content-length: 1099511627776\r\n\r\n{{"),
            &PIECE[..],
            large,
        ),
        ("chunks", format!("{JSON}transfer-encoding: chunked\r\n\r\n"), &chunk, large),
        ("an event", format!("{EVENTS}data: "), &PIECE[..], large),
        ("an event of many lines", EVENTS.to_owned(), lines.as_bytes(), large),
        ("an event's id", format!("{EVENTS}id: "), &PIECE[..], large),
        ("a comment", format!("{EVENTS}: "), &PIECE[..], large),
        ("a refusal", "HTTP/1.1 500 X\r\n\r\n".to_owned(), &PIECE[..], "HTTP 500"),
        ("a head", "HTTP/1.1 200 OK\r\nx-a: ".to_owned(), &PIECE[..], "connection broke"),
    ] {
        let before = peak_kb();
        let (said, n_taken) = swallowed(&head, piece).await;
        assert!(said.contains(expected), "{name}: {said}");
        // Besides the limit, what the kernel holds on the way.
        assert!(n_taken < 40 << 20, "{name}: {n_taken} bytes");
        let grown = peak_kb().saturating_sub(before);
        assert!(grown <= CAP_KB, "{name}: {grown} KiB");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_say_nothing_for_ever_are_given_up_in_time() {
    for (name, head, piece) in [
        ("comments", EVENTS.to_owned(), ": x\n\n".repeat(1000)),
        ("events of other names", EVENTS.to_owned(), "event: x\ndata: y\n\n".repeat(1000)),
        ("events without data", EVENTS.to_owned(), "id: 1\n\n".repeat(1000)),
        ("interim answers", String::new(), "HTTP/1.1 100 Continue\r\n\r\n".repeat(100)),
    ] {
        let (before, start) = (peak_kb(), Instant::now());
        let (said, _) = swallowed(&head, piece.as_bytes()).await;
        assert!(said.contains("did not answer within 3s"), "{name}: {said}");
        // Without optimization, and beside other tests, one turn of reading alone may take many seconds.
        assert!(start.elapsed() < Duration::from_secs(60), "{name}: {:?}", start.elapsed());
        let grown = peak_kb().saturating_sub(before);
        assert!(grown <= CAP_KB, "{name}: {grown} KiB");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standing_stream_without_an_end_costs_only_itself() {
    let upstream = Mirror::streaming(|request| match request {
        None => Reply::Endless(format!("{EVENTS}data: "), PIECE.to_vec()),
        Some(request) => plain(&request.method),
    })
    .await;
    let address = upstream.running.address();
    for target in [
        Target::Http(format!("http://{address}/mcp")),
        Target::HttpSse(format!("http://{address}/sse")),
        Target::CustomSse(format!("http://{address}/base")),
    ] {
        let before = peak_kb();
        let is_http = matches!(target, Target::Http(_));
        // Where messages go is said in a few bytes.
        let limit = if matches!(target, Target::HttpSse(_)) { 1 << 20 } else { 16 << 20 };
        let config = patient(UpstreamConfig::new("up", target));
        let (house, _good) = beside_a_good_one(config).await;
        let peer = modern(&house).await;
        if is_http {
            // Its answers come on streams of their own.
            status(&house, "up", Status::Up).await;
            assert!(!outcome(&peer, "up_mirror").await.0);
        } else {
            says_why(&house, &format!("larger than {limit} bytes")).await;
        }
        assert_eq!(text(&peer, "good_echo", json!({"text": "on"})).await.unwrap(), "on");
        let grown = peak_kb().saturating_sub(before);
        assert!(grown <= CAP_KB, "{is_http}: {grown} KiB");
        house.gateway.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_answers_are_refused_unread() {
    for coding in ["gzip", "br", "zstd", "deflate", "x-gzip", "gzip, br", "identity, gzip"] {
        for (kind, head) in [
            ("JSON", format!("{JSON}content-encoding: {coding}\r\n\r\n")),
            (
                "events",
                EVENTS.replacen("\r\n\r\n", &format!("\r\ncontent-encoding: {coding}\r\n\r\n"), 1),
            ),
        ] {
            let before = peak_kb();
            let (said, n_taken) = swallowed(&head, &[0; 64 << 10]).await;
            assert!(
                said.contains("it compressed an answer nobody asked to compress"),
                "{kind}: {said}"
            );
            assert!(n_taken < 12 << 20, "{coding} {kind}: {n_taken} bytes");
            let grown = peak_kb().saturating_sub(before);
            assert!(grown <= CAP_KB, "{coding} {kind}: {grown} KiB");
        }
    }
    // Those that do not even say so.
    let gzip = "\u{1f}";
    for head in [
        format!("{JSON}content-length: 4\r\n\r\n{gzip}xyz"),
        format!("{JSON}transfer-encoding: gzip, chunked\r\n\r\n4\r\n{gzip}xyz\r\n0\r\n\r\n"),
    ] {
        let (said, n_taken) = swallowed(&head, b"").await;
        assert!(said.contains("up"), "{said}");
        assert_eq!(n_taken, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_to_compress() {
    let upstream = Mirror::start().await;
    let mut configs = Vec::new();
    let address = upstream.running.address();
    for (name, target) in [
        ("http", Target::Http(format!("http://{address}/mcp"))),
        ("sse", Target::HttpSse(format!("http://{address}/sse"))),
        ("custom", Target::CustomSse(format!("http://{address}/base"))),
    ] {
        configs.push(patient(UpstreamConfig::new(name, target)));
    }
    let house = House::unsettled(configs).await;
    status(&house, "http", Status::Up).await;
    let request =
        lyceum_testkit::Request::modern("/mcp", 1, "tools/call", json!({"name": "http_mirror"}))
            .header("accept-encoding", "gzip, br, zstd")
            .header("te", "trailers, gzip");
    let answer = house.front.connect().await.call(&request).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    house.gateway.close().await;
    let seen = upstream.everything().to_ascii_lowercase();
    for asked in ["get /sse", "get /base/sse", "server/discover", "initialize", "tools/call"] {
        assert!(seen.contains(asked), "{asked} is missing: {seen}");
    }
    let asks = |line: &str| line.starts_with("accept-encoding") || line.starts_with("te:");
    assert!(!seen.lines().any(asks), "{seen}");
}
