//! Connections that grow old or break, shared ones and those of sessions.

use std::path::Path;
use std::time::Duration;

use lyceum_gateway::process::AllowedCommands;
use lyceum_gateway::{EraChoice, Gateway, Setting, Share, Status, Target, UpstreamConfig};
use lyceum_http::client::CallOptions;
use lyceum_wire::{Revision, RevisionSet};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::census::children;
use crate::healing::status;
use crate::house::{
    House, Way, counts, fixture_upstream, own_server, serve_handler, setting, text, until,
    upstream_program,
};
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

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_closed_unless_somebody_watches_a_resource() {
    let (config, _running) = fixture_upstream(Way::Http, RevisionSet::LEGACY).await;
    let config = UpstreamConfig { idle_timeout: Some(Duration::from_secs(1)), ..config };
    let house = House::with(vec![config], None).await;
    let peer = house.client_with(Revision::V2026_07_28, (), "{}").await;
    status(&house, "up", Status::Idle).await;
    let filter = r#"{"resourceSubscriptions":["up+fixture://watched"]}"#;
    let watching = peer.listen(filter).await.unwrap();
    status(&house, "up", Status::Up).await;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        assert_eq!(house.gateway.health()[0].1.status, Status::Up, "it is watched");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(watching);
    status(&house, "up", Status::Idle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_gives_its_process_back_while_its_upstream_is_up() {
    let (config, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
    let idle_timeout = Some(Duration::from_secs(1));
    let config = UpstreamConfig { share: Share::PerSession, idle_timeout, ..config };
    let house = House::with(vec![config], None).await;
    let (peer, _) = house.client(Revision::V2025_11_25).await;
    assert_eq!(text(&peer, "up_echo", json!({"text": "a"})).await.unwrap(), "a");
    assert_eq!(children(), 2, "one lists, one is the session's");
    becomes(1).await;
    assert_eq!(house.gateway.health()[0].1.status, Status::Up);
    house.gateway.close().await;
}

/// Waits until there are so many processes.
async fn becomes(n_processes: usize) {
    for _ in 0..500 {
        if children() == n_processes {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} processes, not {n_processes}", children());
}

/// A gateway with a process for each session, which does what `script` says. `N` is how many were
/// started so far, `FIXTURE` one that works.
async fn scripted(script: &str, directory: &Path, max_connections: usize) -> House {
    let config = UpstreamConfig {
        share: Share::PerSession,
        max_connections,
        ..scripted_config(script, directory)
    };
    scripted_house(config).await
}

fn scripted_config(script: &str, directory: &Path) -> UpstreamConfig {
    let fixture = format!("exec {} legacy", upstream_program().display());
    let script = script.replace("FIXTURE", &fixture).replace('N', "$(wc -l < count)");
    let command = ["/bin/sh", "-c", &format!("echo x >> count; {script}")];
    UpstreamConfig {
        era: EraChoice::Legacy,
        directory: Some(directory.to_owned()),
        ..UpstreamConfig::new("up", Target::Command(command.map(str::to_owned).to_vec()))
    }
}

async fn scripted_house(config: UpstreamConfig) -> House {
    let allowed_commands = AllowedCommands::default().into();
    let gateway = Gateway::new(Setting { allowed_commands, ..setting() });
    gateway.configure(vec![config]);
    assert!(gateway.settled(Duration::from_secs(20)).await, "{:?}", gateway.health());
    let door = gateway.door(own_server(), std::sync::Arc::new(|_: &str| true));
    let front = serve_handler(door, RevisionSet::ALL).await;
    House::around(gateway, front)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_cancels_while_its_process_starts_leaves_its_place_to_others() {
    // The first process lists. The next one never gets to its work, those after it do.
    let directory = tempfile::tempdir().unwrap();
    let script = "[ N = 2 ] && exec sleep 98763; FIXTURE";
    let house = scripted(script, directory.path(), 1).await;
    let (leaver, _) = house.client(Revision::V2025_11_25).await;
    let (other, _) = house.client(Revision::V2025_11_25).await;
    let starting = {
        let leaver = leaver.clone();
        tokio::spawn(async move { text(&leaver, "up_echo", json!({"text": "never"})).await })
    };
    becomes(2).await;
    let told = text(&other, "up_echo", json!({"text": "mine"})).await.unwrap();
    assert!(told.contains("as many connections as it may have (1)"), "{told}");
    // Which tells the server that it is cancelled.
    starting.abort();
    becomes(1).await;
    assert_eq!(text(&other, "up_echo", json!({"text": "mine"})).await.unwrap(), "mine");
    house.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_whose_processes_do_not_start_do_not_start_them_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let house = scripted("[ N = 1 ] || exit 3; FIXTURE", directory.path(), 8).await;
    let n_started = || std::fs::read(directory.path().join("count")).unwrap().len() / 2;
    let (peer, _) = house.client(Revision::V2025_11_25).await;
    let mut told = String::new();
    for _ in 0..10 {
        told = text(&peer, "up_echo", json!({"text": "a"})).await.unwrap();
        assert!(told.contains("it is tried again"), "{told}");
    }
    assert!(told.contains("several calls in a row"), "{told}");
    assert_eq!(n_started(), 4, "one lists, three were tried");
    house.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_in_vain_does_not_keep_others_from_calling() {
    // One process lists, one is the caller's, and there are no more.
    let directory = tempfile::tempdir().unwrap();
    let house = scripted("[ N -le 2 ] || exit 3; FIXTURE", directory.path(), 8).await;
    let (caller, _) = house.client(Revision::V2025_11_25).await;
    assert_eq!(text(&caller, "up_echo", json!({"text": "a"})).await.unwrap(), "a");
    let (watcher, _) = house.client(Revision::V2025_11_25).await;
    let params = r#"{"uri":"up+fixture://watched"}"#;
    watcher.call("resources/subscribe", params).await.unwrap();
    let n_started = || std::fs::read(directory.path().join("count")).unwrap().len() / 2;
    until("nothing more is started", || n_started() >= 7).await;
    assert_eq!(text(&caller, "up_echo", json!({"text": "b"})).await.unwrap(), "b");
    house.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_process_serves_on_until_another_one_can_be_started() {
    let directory = tempfile::tempdir().unwrap();
    let script = "[ N = 1 ] || [ -e works ] || exit 3; FIXTURE";
    let max_lifetime = Some(Duration::from_secs(3));
    let config = UpstreamConfig { max_lifetime, ..scripted_config(script, directory.path()) };
    let house = scripted_house(config).await;
    let (peer, _) = house.client(Revision::V2025_11_25).await;
    let waiting = {
        let peer = peer.clone();
        tokio::spawn(async move { text(&peer, "up_wait", json!({})).await })
    };
    let n_started = || std::fs::read(directory.path().join("count")).unwrap().len() / 2;
    let stays_up_until = async |n| {
        let (start, limit) = (Instant::now(), Duration::from_secs(30));
        while n_started() < n {
            assert_eq!(house.gateway.health()[0].1.status, Status::Up);
            assert!(start.elapsed() < limit, "it is not tried again: {}", n_started());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    stays_up_until(4).await;
    counts(&peer, "1 waiting, 0 cancelled", "the old one serves").await;
    let why = house.gateway.health()[0].1.last_error.clone().unwrap_or_default();
    assert!(why.contains('3'), "{why}");
    waiting.abort();
    counts(&peer, "0 waiting, 1 cancelled", "it is idle").await;
    stays_up_until(6).await;
    counts(&peer, "0 waiting, 1 cancelled", "it serves though it is idle").await;
    std::fs::write(directory.path().join("works"), "").unwrap();
    let start = Instant::now();
    while text(&peer, "up_counts", json!({})).await.unwrap() != "0 waiting, 0 cancelled" {
        assert!(start.elapsed() < Duration::from_secs(30), "the old one serves on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    becomes(1).await;
    house.gateway.close().await;
}
