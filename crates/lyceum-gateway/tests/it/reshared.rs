//! Upstreams that are watched while an operator changes or removes them: who hears of what, over which
//! connection, and that nothing stays.

use std::time::Duration;

use lyceum_gateway::{Share, UpstreamConfig};
use lyceum_http::client::Peer;
use lyceum_wire::{Revision, RevisionSet};
use serde_json::json;
use tokio::time::Instant;

use crate::census::{child_numbers, children};
use crate::house::{Client1, House, Way, fixture_upstream, until};
use crate::own::{becomes, n_updates, touch_until_heard, watch};

/// A legacy session, and what it hears.
type Watcher = (Peer, Client1);

/// Two sessions that watch, and a modern client that does.
async fn watchers(house: &House) -> [Watcher; 3] {
    let [a, b] = [Revision::V2025_06_18, Revision::V2025_11_25];
    let watchers =
        [house.client(a).await, house.client(b).await, house.client(Revision::V2026_07_28).await];
    for (peer, client) in &watchers {
        watch(peer, client).await;
    }
    watchers
}

/// Sets `share` and waits until every watcher was told that something may have changed meanwhile,
/// and the number of processes is what it is to be.
async fn share(house: &House, config: &UpstreamConfig, share: Share, watchers: &[Watcher]) {
    let n_processes = if share == Share::Shared { 1 } else { 1 + watchers.len() };
    let before = child_numbers();
    let heard = quiet(watchers).await;
    house.gateway.configure(vec![UpstreamConfig { share, ..config.clone() }]);
    for ((_, client), heard) in watchers.iter().zip(heard) {
        until(&format!("{share:?}: not told"), || n_updates(client) > heard).await;
    }
    until("an old process stays", || child_numbers().is_disjoint(&before)).await;
    becomes(n_processes, &format!("{share:?}")).await;
}

/// How much each has heard, once nobody hears anything for a while.
async fn quiet(watchers: &[Watcher]) -> Vec<usize> {
    let count = || watchers.iter().map(|(_, client)| n_updates(client)).collect::<Vec<_>>();
    let (mut heard, mut since) = (count(), Instant::now());
    while since.elapsed() < Duration::from_millis(500) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = count();
        if now != heard {
            (heard, since) = (now, Instant::now());
        }
    }
    heard
}

/// Everybody hears of what anybody touches.
async fn is_heard_by_all(watchers: &[Watcher], cell: &str) {
    for (peer, client) in watchers {
        let heard: Vec<_> = watchers.iter().map(|(_, client)| n_updates(client)).collect();
        touch_until_heard(peer, client, cell).await;
        for ((_, other), heard) in watchers.iter().zip(heard) {
            until(&format!("{cell}: not heard by all"), || n_updates(other) > heard).await;
        }
    }
}

/// Whoever touches hears of it, and nobody else does.
async fn is_heard_by_its_own(watchers: &[Watcher], cell: &str) {
    for (n, (peer, client)) in watchers.iter().enumerate() {
        let mut before = quiet(watchers).await;
        touch_until_heard(peer, client, cell).await;
        let mut after = quiet(watchers).await;
        (before[n], after[n]) = (0, 0);
        assert_eq!(after, before, "{cell}: {n} was heard by others");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_follow_their_upstream_to_connections_of_their_own_and_back() {
    for served in [RevisionSet::LEGACY, RevisionSet::MODERN] {
        let (config, _) = fixture_upstream(Way::Stdio, served).await;
        let house = House::with(vec![config.clone()], None).await;
        let watchers = watchers(&house).await;
        is_heard_by_all(&watchers, &format!("{served:?}, shared")).await;
        for round in 0..2 {
            let cell = format!("{served:?}, round {round}");
            share(&house, &config, Share::PerSession, &watchers).await;
            is_heard_by_its_own(&watchers, &cell).await;
            share(&house, &config, Share::Shared, &watchers).await;
            is_heard_by_all(&watchers, &cell).await;
        }
        house.gateway.close().await;
        assert_eq!(children(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_came_to_a_shared_upstream_takes_its_own_process_along() {
    let (config, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
    let house = House::with(vec![config.clone()], None).await;
    let watchers = watchers(&house).await;
    share(&house, &config, Share::PerSession, &watchers).await;
    let [(leaver, _), (quitter, _), _] = &watchers;
    leaver.clone().close().await;
    becomes(3, "one left").await;
    let params = json!({ "uri": crate::own::WATCHED }).to_string();
    quitter.call("resources/unsubscribe", params).await.unwrap();
    let idle_timeout = Some(Duration::from_secs(1));
    let config = UpstreamConfig { share: Share::PerSession, idle_timeout, ..config };
    house.gateway.configure(vec![config]);
    becomes(2, "one lists, one is watched").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(children(), 2, "nobody else is given a process");
    house.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_is_removed_is_left_alone_though_somebody_watches() {
    for share in [Share::Shared, Share::PerSession] {
        let (config, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
        let house = House::with(vec![UpstreamConfig { share, ..config.clone() }], None).await;
        let watchers = watchers(&house).await;
        becomes(if share == Share::Shared { 1 } else { 4 }, "watched").await;
        house.gateway.configure(Vec::new());
        becomes(0, "removed").await;
        for (peer, client) in &watchers {
            // It may be refused, but it starts nothing.
            if peer.era() == lyceum_wire::Era::Modern {
                watch(peer, client).await;
            }
        }
        for _ in 0..20 {
            assert_eq!(children(), 0, "{share:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
