//! Clients that ask right after the gateway was started, before its upstreams are there.

use std::time::Duration;

use lyceum_gateway::{Target, UpstreamConfig};
use lyceum_testkit::{Server as Running, Shutdown};
use lyceum_wire::{Revision, RevisionSet};
use serde_json::{Value, json};

use crate::fixture;
use crate::house::{House, serve_on, text, until};
use crate::mirror::{Mirror, Reply, plain};

const ERAS: [Revision; 2] = [Revision::V2025_06_18, Revision::V2026_07_28];

/// A gateway that was started this moment, and its upstream, which takes its time.
async fn house() -> (House, Running) {
    let late = Running::start(|listener, shutdown: Shutdown| async move {
        tokio::time::sleep(Duration::from_millis(700)).await;
        serve_on(listener, fixture::server(), RevisionSet::ALL, shutdown).await;
    })
    .await;
    let target = Target::Http(format!("http://{}/mcp", late.address()));
    (House::unsettled(vec![UpstreamConfig::new("up", target)]).await, late)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_list_has_what_is_there_a_moment_later() {
    let lists = [
        ("tools/list", "tools"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ];
    for (revision, (method, member)) in ERAS.into_iter().flat_map(|era| lists.map(|it| (era, it))) {
        let (house, _late) = house().await;
        let (peer, _) = house.client(revision).await;
        let listed = peer.call(method, b"").await.unwrap();
        let listed: Value = serde_json::from_slice(&listed).unwrap();
        assert_ne!(listed[member], json!([]), "{revision} {method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_call_waits_for_its_upstream() {
    for revision in ERAS {
        let (house, _late) = house().await;
        let (peer, _) = house.client(revision).await;
        let echoed = text(&peer, "up_echo", json!({"text": "a"})).await;
        assert_eq!(echoed.unwrap(), "a", "{revision}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_listed_last_is_waited_for_too() {
    let upstream = Mirror::answering(|request| match request.method.as_str() {
        "initialize" => Reply::Result(
            r#"{"protocolVersion":"2025-03-26","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"m","version":"1"}}"#
                .to_owned(),
        ),
        "prompts/list" => {
            std::thread::sleep(Duration::from_millis(700));
            Reply::Result(r#"{"prompts":[{"name":"late"}]}"#.to_owned())
        }
        method => plain(method),
    })
    .await;
    let house = House::unsettled(vec![upstream.config("up")]).await;
    let (peer, _) = house.client(Revision::V2025_06_18).await;
    until("it has no tools", || house.gateway.health()[0].1.tools == 1).await;
    let listed = peer.call("prompts/list", b"").await.unwrap();
    assert!(String::from_utf8_lossy(&listed).contains("up_late"), "{listed:?}");
}
