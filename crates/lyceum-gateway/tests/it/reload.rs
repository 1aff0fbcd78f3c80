//! Settings that change while the gateway runs.

use std::time::Duration;

use lyceum_gateway::process::{AllowedCommands, Limits};
use lyceum_gateway::{Status, Target, UpstreamConfig};
use lyceum_wire::{Revision, RevisionSet};
use serde_json::json;

use crate::house::{House, Way, fixture_upstream, text, upstream_program};

async fn becomes(house: &House, expected: [Status; 2]) {
    let mut statuses = Vec::new();
    for _ in 0..500 {
        let health = house.gateway.health();
        statuses = health.iter().map(|(_, health)| health.status).collect();
        if statuses == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{statuses:?}, not {expected:?}: {:?}", house.gateway.health());
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_obey_the_commands_allowed_now_and_other_upstreams_go_on() {
    let (process, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
    let (remote, _running) = fixture_upstream(Way::Http, RevisionSet::LEGACY).await;
    let configs = vec![process, UpstreamConfig { name: "remote".to_owned(), ..remote }];
    let house = House::with(configs.clone(), None).await;
    let (peer, _) = house.client(Revision::V2026_07_28).await;
    let since = |house: &House| house.gateway.health()[1].1.since;
    let before = since(&house);
    house.gateway.allow_processes(AllowedCommands::new(["other"]), Limits::default());
    house.gateway.configure(configs.clone());
    becomes(&house, [Status::Down, Status::Up]).await;
    let why = house.gateway.health()[0].1.last_error.clone().unwrap_or_default();
    assert!(why.contains("other"), "{why}");
    assert_eq!(text(&peer, "remote_echo", json!({"text": "on"})).await.unwrap(), "on");
    assert_eq!(since(&house), before, "it was left alone");
    let commands = AllowedCommands::new([upstream_program().to_str().unwrap()]);
    house.gateway.allow_processes(commands, Limits::default());
    house.gateway.configure(configs);
    becomes(&house, [Status::Up, Status::Up]).await;
    assert_eq!(text(&peer, "up_echo", json!({"text": "again"})).await.unwrap(), "again");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_of_the_same_name_does_not_inherit_tools() {
    let (config, _running) = fixture_upstream(Way::Http, RevisionSet::LEGACY).await;
    let house = House::with(vec![config.clone()], None).await;
    let (peer, _) = house.client(Revision::V2026_07_28).await;
    let n_tools = async || peer.list_tools().await.unwrap().len();
    let before = n_tools().await;
    assert!(before > 0);
    let call_timeout = Duration::from_secs(50);
    house.gateway.configure(vec![UpstreamConfig { call_timeout, ..config.clone() }]);
    assert_eq!(n_tools().await, before);
    let target = Target::Command(vec!["false".to_owned()]);
    house.gateway.configure(vec![UpstreamConfig { target, ..config }]);
    assert_eq!(n_tools().await, 0);
}
