//! Upstreams that offer very much (reliability row G6): there is an end to what is shown of them, and
//! whoever lists tools is served from what is known already.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lyceum_gateway::Status;
use lyceum_wire::Member;
use tokio::time::Instant;

use crate::census::peak_kb;
use crate::healing::{modern, outcome, status};
use crate::house::House;
use crate::mirror::{Mirror, Reply, plain};

const PAGES: usize = 11;
const PER_PAGE: usize = 1_000;

/// A page of tools; the first has one with a schema of ten megabytes.
fn page(number: usize) -> String {
    let mut tools = String::new();
    for n in 0..PER_PAGE {
        let _ = write!(
            tools,
            r#"{{"name":"t{:05}","description":"One of many.","inputSchema":{{"type":"object","properties":{{"a":{{"type":"string"}}}}}}}},"#,
            number * PER_PAGE + n
        );
    }
    if number == 0 {
        let large = "x".repeat(10 << 20);
        let _ = write!(
            tools,
            r#"{{"name":"large","inputSchema":{{"type":"object","description":"{large}"}}}},"#
        );
    }
    tools.pop();
    let next = match number + 1 {
        PAGES => String::new(),
        next => format!(r#","nextCursor":"{next}""#),
    };
    format!(r#"{{"tools":[{tools}]{next}}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_tools_are_shown_and_listed_from_what_is_known() {
    let gone = Arc::new(AtomicBool::new(false));
    let is_gone = Arc::clone(&gone);
    let upstream = Mirror::answering(move |request| match request.method.as_str() {
        _ if is_gone.load(Ordering::Relaxed) => Reply::Endless(String::new(), Vec::new()),
        "tools/list" => {
            let cursor = request.params.text(Member::Cursor);
            Reply::Result(page(cursor.map_or(0, |cursor| cursor.parse().unwrap())))
        }
        method => plain(method),
    })
    .await;
    let house = House::with(vec![upstream.config("up")], None).await;
    status(&house, "up", Status::Up).await;
    assert_eq!(house.gateway.health()[0].1.tools, 10_000);
    let peer = modern(&house).await;
    assert!(!outcome(&peer, "up_t00000").await.0);
    assert!(!outcome(&peer, "up_t09999").await.0);
    let n_asked = upstream.n_seen("tools/list");
    assert_eq!(n_asked, PAGES);
    // From here on the upstream says nothing at all.
    gone.store(true, Ordering::Relaxed);
    let before = peak_kb();
    let mut quickest = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        let tools = peer.list_tools().await.unwrap();
        quickest = quickest.min(start.elapsed());
        assert_eq!(tools.len(), 10_000);
        assert!(!tools.iter().any(|tool| tool.name.contains("large")));
    }
    assert_eq!(upstream.n_seen("tools/list"), n_asked, "lists come from what is known");
    // All of it, read by a client: optimized code serves it in a tenth of that.
    assert!(quickest < Duration::from_secs(2), "{quickest:?}");
    let grown = peak_kb().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_without_an_end_is_refused() {
    for (name, reason, length) in [
        ("pages that go on", "has no end", 1),
        ("pages that go on and are large", "a listing is larger than", 1 << 20),
    ] {
        let filler = "x".repeat(length);
        let upstream = Mirror::answering(move |request| match request.method.as_str() {
            "tools/list" => {
                let next = request.params.text(Member::Cursor).map_or(0, |cursor| cursor.parse::<u64>().unwrap()) + 1;
                Reply::Result(format!(r#"{{"tools":[{{"name":"t{next}","inputSchema":{{"type":"object"}},"x":"{filler}"}}],"nextCursor":"{next}"}}"#))
            }
            method => plain(method),
        })
        .await;
        let before = peak_kb();
        let house = House::unsettled(vec![upstream.config("up")]).await;
        assert!(house.gateway.settled(Duration::from_secs(60)).await, "{name}");
        let (_, health) = &house.gateway.health()[0];
        assert!(
            health.last_error.as_ref().is_some_and(|told| told.contains(reason)),
            "{name}: {health:?}"
        );
        assert_eq!(health.tools, 0, "{name}");
        let grown = peak_kb().saturating_sub(before);
        assert!(grown < 128 << 10, "{name}: {grown} KiB");
    }
}
