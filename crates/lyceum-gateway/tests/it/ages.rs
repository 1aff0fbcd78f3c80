//! Connections that grow old or break, shared ones and those of sessions.

use std::time::Duration;

use lyceum_gateway::{Share, UpstreamConfig};
use lyceum_http::client::CallOptions;
use lyceum_wire::{Revision, RevisionSet};
use serde_json::{Value, json};

use crate::house::{House, Way, counts, fixture_upstream, text};
use crate::mirror::Mirror;

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_made_anew_when_they_are_old() {
    let upstream = Mirror::start().await;
    let config = UpstreamConfig {
        share: Share::PerSession,
        max_lifetime: Some(Duration::from_secs(1)),
        ..upstream.config("up")
    };
    let house = House::with(vec![config], None).await;
    let peer = house.client_with(Revision::V2025_06_18, (), "{}").await;
    // The one that lists says that everything can be asked for, the session's that nothing can.
    let counts = || {
        let bodies = upstream.bodies("initialize");
        let of_session = bodies.iter().filter(|body| body.contains(r#""capabilities":{}"#)).count();
        (bodies.len() - of_session, of_session)
    };
    peer.call_tool("up_mirror", "{}", &CallOptions::new()).await.unwrap();
    assert_eq!(counts().1, 1);
    for _ in 0..100 {
        if counts().0 > 1 && counts().1 > 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        peer.call_tool("up_mirror", "{}", &CallOptions::new()).await.unwrap();
    }
    panic!("connected {:?} times", counts());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_process_crashed_gets_another_one() {
    let (config, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
    let config = UpstreamConfig { share: Share::PerSession, ..config };
    let house = House::with(vec![config], None).await;
    let (peer, _) = house.client(Revision::V2025_11_25).await;
    assert_eq!(text(&peer, "up_echo", json!({"text": "a"})).await.unwrap(), "a");
    let crashed = peer.call_tool("up_crash", "{}", &CallOptions::new()).await.unwrap();
    let crashed: Value = serde_json::from_slice(&crashed).unwrap();
    assert_eq!(crashed["isError"], true, "{crashed}");
    assert_eq!(text(&peer, "up_echo", json!({"text": "b"})).await.unwrap(), "b");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_session_keeps_its_connection_however_many_want_one() {
    let (config, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
    let config = UpstreamConfig { share: Share::PerSession, max_connections: 1, ..config };
    let house = House::with(vec![config], None).await;
    let (busy, _) = house.client(Revision::V2025_11_25).await;
    let (other, _) = house.client(Revision::V2025_11_25).await;
    let waiting = {
        let busy = busy.clone();
        tokio::spawn(async move { text(&busy, "up_wait", json!({})).await })
    };
    counts(&busy, "1 waiting, 0 cancelled", "").await;
    let mut told = text(&other, "up_echo", json!({"text": "mine"})).await.unwrap();
    assert!(told.contains("as many connections as it may have (1)"), "{told}");
    counts(&busy, "1 waiting, 0 cancelled", "").await;
    waiting.abort();
    counts(&busy, "0 waiting, 1 cancelled", "").await;
    // Whoever is idle gives way.
    for _ in 0..100 {
        told = text(&other, "up_echo", json!({"text": "mine"})).await.unwrap();
        if told == "mine" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("an idle session kept its connection: {told}");
}
