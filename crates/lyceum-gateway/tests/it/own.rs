//! Connections that belong to one caller: what it watches over them, and when they end.

use std::time::Duration;

use lyceum_gateway::{Share, UpstreamConfig};
use lyceum_http::client::{CallOptions, ClientHandler, Peer, Subscription};
use lyceum_wire::{Era, Revision, RevisionSet};
use serde_json::json;

use crate::census::{child_numbers, children};
use crate::house::{Client1, House, Way, fixture_upstream, text, until};

pub(crate) const WATCHED: &str = "up+fixture://watched";

/// A gateway with a process for each session.
async fn house(served: RevisionSet) -> House {
    let (config, _) = fixture_upstream(Way::Stdio, served).await;
    House::with(vec![UpstreamConfig { share: Share::PerSession, ..config }], None).await
}

/// Begins to watch the resource, in the words of the client's era.
pub(crate) async fn watch(peer: &Peer, client: &Client1) -> Option<tokio::task::JoinHandle<()>> {
    if peer.era() == Era::Legacy {
        let params = json!({ "uri": WATCHED }).to_string();
        peer.call("resources/subscribe", params).await.unwrap();
        return None;
    }
    let filter = json!({ "resourceSubscriptions": [WATCHED] }).to_string();
    let listening = peer.listen(filter).await.unwrap();
    Some(tokio::spawn(hear(listening, client.clone())))
}

async fn hear(mut listening: Subscription, client: Client1) {
    while let Some(Ok(news)) = listening.next().await {
        client.notification(news).await;
    }
}

pub(crate) fn n_updates(client: &Client1) -> usize {
    let heard = client.heard.lock().unwrap();
    let updates = heard.iter().filter(|(method, _)| method == "notifications/resources/updated");
    updates.inspect(|(_, params)| assert_eq!(params["uri"], WATCHED)).count()
}

/// Touches what the caller's own process has until the caller hears of it.
pub(crate) async fn touch_until_heard(peer: &Peer, client: &Client1, cell: &str) {
    let before = n_updates(client);
    for _ in 0..200 {
        // The process is asked in the background, so it may not know yet.
        text(peer, "up_touch", json!({})).await.unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
        if n_updates(client) > before {
            return;
        }
    }
    panic!("{cell}: no update was heard");
}

/// Waits until there are so many processes.
pub(crate) async fn becomes(n_processes: usize, cell: &str) {
    until(&format!("{cell}: not {n_processes} processes"), || children() == n_processes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_takes_its_process_with_it() {
    let house = house(RevisionSet::LEGACY).await;
    for revision in [Revision::V2024_11_05, Revision::V2025_03_26, Revision::V2025_11_25] {
        let (peer, client) = house.client(revision).await;
        assert_eq!(text(&peer, "up_echo", json!({"text": "a"})).await.unwrap(), "a");
        watch(&peer, &client).await;
        assert_eq!(children(), 2, "one lists, one is the session's: {revision}");
        peer.close().await;
        becomes(1, revision.as_str()).await;
    }
    house.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_hears_of_its_own_process_and_of_no_other() {
    for served in [RevisionSet::LEGACY, RevisionSet::MODERN] {
        let house = house(served).await;
        for revision in [Revision::V2024_11_05, Revision::V2025_06_18, Revision::V2025_11_25] {
            let cell = format!("{revision} to {served:?}");
            for toucher in 0..2 {
                let clients = [house.client(revision).await, house.client(revision).await];
                for (peer, client) in &clients {
                    watch(peer, client).await;
                }
                let (peer, client) = &clients[toucher];
                touch_until_heard(peer, client, &cell).await;
                assert_eq!(n_updates(&clients[1 - toucher].1), 0, "{cell}");
                for (peer, _) in clients {
                    peer.close().await;
                }
            }
        }
        house.gateway.close().await;
        assert_eq!(children(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn modern_clients_hear_of_the_process_of_their_principal() {
    for served in [RevisionSet::LEGACY, RevisionSet::MODERN] {
        let house = house(served).await;
        let (legacy, heard_by_legacy) = house.client(Revision::V2025_11_25).await;
        watch(&legacy, &heard_by_legacy).await;
        let (modern, heard) = house.client(Revision::V2026_07_28).await;
        let listening = watch(&modern, &heard).await;
        touch_until_heard(&modern, &heard, &format!("{served:?}")).await;
        assert_eq!(n_updates(&heard_by_legacy), 0, "{served:?}");
        drop(listening);
        house.gateway.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_in_place_of_one_that_crashed_is_watched_again() {
    let house = house(RevisionSet::LEGACY).await;
    let (peer, client) = house.client(Revision::V2025_11_25).await;
    watch(&peer, &client).await;
    touch_until_heard(&peer, &client, "before").await;
    // What was touched once too often is heard by then.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = n_updates(&client);
    peer.call_tool("up_crash", "{}", &CallOptions::new()).await.unwrap();
    until("nobody told of the gap", || n_updates(&client) > before).await;
    // Once may still be the gap.
    for _ in 0..2 {
        touch_until_heard(&peer, &client, "after").await;
    }
    house.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_keeps_an_idle_process_and_who_stops_does_not() {
    let (config, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
    let idle_timeout = Some(Duration::from_secs(1));
    let config = UpstreamConfig { share: Share::PerSession, idle_timeout, ..config };
    let house = House::with(vec![config], None).await;
    let (peer, client) = house.client(Revision::V2025_11_25).await;
    watch(&peer, &client).await;
    becomes(2, "watched").await;
    let processes = child_numbers();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(child_numbers(), processes, "it is watched");
    touch_until_heard(&peer, &client, "watched").await;
    let params = json!({ "uri": WATCHED }).to_string();
    peer.call("resources/unsubscribe", params).await.unwrap();
    becomes(1, "not watched").await;
    house.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_keeps_a_process_and_whoever_gets_none_is_told_what_to_do() {
    let (config, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
    let config = UpstreamConfig { share: Share::PerSession, max_connections: 1, ..config };
    let house = House::with(vec![config], None).await;
    let (watcher, client) = house.client(Revision::V2025_11_25).await;
    watch(&watcher, &client).await;
    touch_until_heard(&watcher, &client, "watched").await;
    let (other, _) = house.client(Revision::V2025_11_25).await;
    let told = text(&other, "up_echo", json!({"text": "mine"})).await.unwrap();
    assert!(told.contains("as many connections as it may have (1)"), "{told}");
    assert!(told.contains("have max_connections of this upstream raised"), "{told}");
    touch_until_heard(&watcher, &client, "still watched").await;
    let params = json!({ "uri": WATCHED }).to_string();
    watcher.call("resources/unsubscribe", params).await.unwrap();
    let start = tokio::time::Instant::now();
    while text(&other, "up_echo", json!({"text": "mine"})).await.unwrap() != "mine" {
        assert!(start.elapsed() < Duration::from_secs(30), "it is kept though nobody watches");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    house.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_whose_settings_change_is_still_listed_watched_and_waited_for() {
    for share in [Share::Shared, Share::PerSession] {
        let (config, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
        let config = UpstreamConfig { share, ..config };
        let house = House::with(vec![config.clone()], None).await;
        let cell = format!("{share:?}");
        let (peer, client) = house.client(Revision::V2025_11_25).await;
        watch(&peer, &client).await;
        touch_until_heard(&peer, &client, &cell).await;
        let under_way = {
            let peer = peer.clone();
            tokio::spawn(async move { text(&peer, "up_ask_late", json!({})).await })
        };
        tokio::time::sleep(Duration::from_millis(100)).await;
        let call_timeout = Duration::from_secs(50);
        house.gateway.configure(vec![UpstreamConfig { call_timeout, ..config }]);
        assert_eq!(text(&peer, "up_echo", json!({"text": "b"})).await.unwrap(), "b", "{cell}");
        assert_eq!(under_way.await.unwrap().unwrap(), "Hello, Ada!", "{cell}");
        touch_until_heard(&peer, &client, &cell).await;
        let heard = client.heard.lock().unwrap().clone();
        let changed = heard.iter().find(|(method, _)| method.ends_with("list_changed"));
        assert_eq!(changed, None, "{cell}: what is shown did not change");
        house.gateway.close().await;
        assert_eq!(children(), 0, "{cell}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_loses_their_process_because_somebody_needs_a_second_one() {
    let (config, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
    let config = UpstreamConfig { share: Share::PerSession, max_connections: 2, ..config };
    let house = House::with(vec![config], None).await;
    let (idle, _) = house.client(Revision::V2025_11_25).await;
    text(&idle, "up_echo", json!({"text": "a"})).await.unwrap();
    let before = child_numbers();
    let asking = house.client_with(Revision::V2026_07_28, (), r#"{"elicitation":{}}"#).await;
    let options = CallOptions::new().capabilities(r#"{"elicitation":{}}"#);
    let options = options.hand_back_input_requests();
    let asked = asking.call_with("tools/call", r#"{"name":"up_ask"}"#, &options).await.unwrap();
    assert!(String::from_utf8_lossy(&asked).contains("input_required"), "{asked:?}");
    let told = text(&asking, "up_echo", json!({"text": "b"})).await.unwrap();
    assert!(told.contains("as many connections as it may have (2)"), "{told}");
    let after = child_numbers();
    assert!(before.iter().all(|number| after.contains(number)), "{before:?} {after:?}");
    house.gateway.close().await;
}
