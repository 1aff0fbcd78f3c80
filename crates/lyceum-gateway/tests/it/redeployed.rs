//! Upstreams that are something else when they are back: noticed, though nobody calls them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lyceum_gateway::{EraChoice, Share, UpstreamConfig};
use lyceum_http::client::{CallOptions, ClientHandler, Peer};
use lyceum_server::{Call, NoArguments, tool};
use lyceum_testkit::Server as Running;
use lyceum_wire::{Revision, RevisionSet};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::fixture;
use crate::healing::{modern, outcome};
use crate::house::{Client1, House, Way, fixture_upstream, serve_on, text, until};
use crate::mirror::{Mirror, Reply, plain, plain_modern};

const PATIENCE: Duration = Duration::from_secs(30);

/// Ends a server and starts another in its place, with one more tool.
async fn redeploy(running: Option<Running>, served: RevisionSet) -> JoinHandle<()> {
    let mut running = running.unwrap();
    let address = running.address();
    running.begin_stop();
    running.stopped().await;
    let listener = TcpListener::bind(address).await.unwrap();
    let server = fixture::server();
    server.add_tool(tool("later", "New.", |_: Call, _: NoArguments| async { Ok("") }));
    tokio::spawn(serve_on(listener, server, served, Box::pin(std::future::pending())))
}

/// Waits until a tool is shown, which costs the upstream no call.
async fn shown(house: &House, peer: &Peer, name: &str) {
    let start = Instant::now();
    while !peer.list_tools().await.unwrap().iter().any(|tool| tool.name == name) {
        assert!(start.elapsed() < PATIENCE, "no {name}: {:?}", house.gateway.health());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redeployed_upstream_is_listed_again_and_its_watchers_are_told() {
    for served in [RevisionSet::LEGACY, RevisionSet::MODERN] {
        let (config, running) = fixture_upstream(Way::Http, served).await;
        let house = House::with(vec![config], None).await;
        let peer = modern(&house).await;
        let client = Client1::default();
        let filter = json!({"resourceSubscriptions": ["up+fixture://watched"]});
        let mut listening = peer.listen(filter.to_string()).await.unwrap();
        let ear = client.clone();
        let hearing = tokio::spawn(async move {
            while let Some(Ok(news)) = listening.next().await {
                ear.notification(news).await;
            }
        });
        // The upstream is asked in the background; once it tells, it knows.
        while client.heard.lock().unwrap().is_empty() {
            text(&peer, "up_touch", json!({})).await.unwrap();
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        client.heard.lock().unwrap().clear();
        let again = redeploy(running, served).await;
        shown(&house, &peer, "up_later").await;
        let updated = client.hears("notifications/resources/updated").await;
        assert_eq!(updated["uri"], "up+fixture://watched");
        hearing.abort();
        again.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_changes_its_era_is_found_out() {
    let eras = [(RevisionSet::LEGACY, "legacy"), (RevisionSet::MODERN, "modern")];
    for (before, after) in [(0, 1), (1, 0)] {
        let (config, running) = fixture_upstream(Way::Http, eras[before].0).await;
        let config = UpstreamConfig { era: EraChoice::Auto, ..config };
        let house = House::with(vec![config], None).await;
        let peer = modern(&house).await;
        let era = || house.gateway.health()[0].1.era;
        assert_eq!(era(), Some(eras[before].1));
        let again = redeploy(running, eras[after].0).await;
        until("it is taken for what it was", || era() == Some(eras[after].1)).await;
        shown(&house, &peer, "up_later").await;
        assert_eq!(text(&peer, "up_echo", json!({"text": "a"})).await.unwrap(), "a");
        again.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_refuses_every_call_is_asked_what_it_speaks() {
    for share in [Share::Shared, Share::PerSession] {
        let is_old = Arc::new(AtomicBool::new(false));
        let (rolled_back, is_greeted) = (Arc::clone(&is_old), AtomicBool::new(false));
        let upstream = Mirror::answering(move |request| {
            if !rolled_back.load(Ordering::SeqCst) {
                return match request.method.as_str() {
                    "subscriptions/listen" => Reply::Unknown,
                    _ => plain_modern(request),
                };
            }
            match request.method.as_str() {
                "initialize" => is_greeted.store(true, Ordering::SeqCst),
                "ping" => return Reply::Result("{}".to_owned()),
                _ if !is_greeted.load(Ordering::SeqCst) => return Reply::Error(-32602),
                _ => {}
            }
            plain(&request.method)
        })
        .await;
        let config = UpstreamConfig { share, ..upstream.config("up") };
        let house = House::with(vec![config], None).await;
        let peer = house.client_with(Revision::V2025_11_25, (), "{}").await;
        let is_answered = async || {
            let called = peer.call_tool("up_mirror", "{}", &CallOptions::new()).await;
            called.is_ok_and(|result| !result.windows(9).any(|part| part == b"\"isError\""))
        };
        assert!(is_answered().await);
        is_old.store(true, Ordering::SeqCst);
        let start = Instant::now();
        while !is_answered().await {
            assert!(start.elapsed() < PATIENCE, "{share:?}: {:?}", house.gateway.health());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(house.gateway.health()[0].1.era, Some("legacy"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_upstream_speaks_is_found_out_once() {
    let upstream = Mirror::start().await;
    let config = UpstreamConfig { share: Share::PerSession, ..upstream.config("up") };
    let house = House::with(vec![config], None).await;
    for _ in 0..3 {
        let peer = house.client_with(Revision::V2025_06_18, (), "{}").await;
        peer.call_tool("up_mirror", "{}", &CallOptions::new()).await.unwrap();
    }
    assert_eq!(upstream.n_seen("initialize"), 4, "one lists, three are the sessions'");
    assert_eq!(upstream.n_seen("server/discover"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_upstream_is_listened_to_before_it_is_listed() {
    let upstream = Mirror::answering(plain_modern).await;
    let house = House::with(vec![upstream.config("up")], None).await;
    assert_eq!(house.gateway.health()[0].1.tools, 1);
    let seen = upstream.everything();
    let at = |method: &str| seen.find(&format!(r#""method":"{method}""#)).unwrap();
    assert!(at("subscriptions/listen") < at("tools/list"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listening_stream_that_was_refused_is_asked_for_again_unless_there_is_none() {
    for (code, is_asked_again) in [(-32603, true), (-32601, false)] {
        let n_asked = AtomicUsize::new(0);
        let upstream = Mirror::answering(move |request| match request.method.as_str() {
            "subscriptions/listen" if n_asked.fetch_add(1, Ordering::SeqCst) < 2 => {
                Reply::Error(code)
            }
            _ => plain_modern(request),
        })
        .await;
        let house = House::with(vec![upstream.config("up")], None).await;
        if is_asked_again {
            until("it is not asked again", || upstream.n_seen("subscriptions/listen") == 3).await;
            until("it is not listed again", || upstream.n_seen("tools/list") == 2).await;
        } else {
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert_eq!(upstream.n_seen("subscriptions/listen"), 1);
        }
        assert!(!outcome(&modern(&house).await, "up_mirror").await.0);
    }
}
