//! Upstreams that are no longer wanted: each is told, by whatever means there are.

use std::path::Path;
use std::time::Duration;

use lyceum_gateway::process::AllowedCommands;
use lyceum_gateway::{EraChoice, Gateway, Setting, Share, Target, UpstreamConfig};
use lyceum_wire::{Revision, RevisionSet};
use serde_json::json;
use tokio::time::Instant;

use crate::census::children;
use crate::house::{House, own_server, serve_handler, setting, text, upstream_program};

/// The fixture as a process that leaves a note when it could leave in peace.
fn polite(name: &str, note: &Path) -> UpstreamConfig {
    let fixture = upstream_program();
    let script = format!("{} legacy; echo left >> {}", fixture.display(), note.display());
    let command = ["/bin/sh", "-c", &script].map(str::to_owned).to_vec();
    let era = EraChoice::Legacy;
    UpstreamConfig { era, ..UpstreamConfig::new(name, Target::Command(command)) }
}

/// A gateway with one process for everybody and one for the session that called; and where they say
/// that they left.
async fn house(directory: &Path) -> (House, [std::path::PathBuf; 2]) {
    let notes = ["shared", "own"].map(|name| directory.join(name));
    let own = UpstreamConfig { share: Share::PerSession, ..polite("own", &notes[1]) };
    let allowed_commands = AllowedCommands::default().into();
    let gateway = Gateway::new(Setting { allowed_commands, ..setting() });
    gateway.configure(vec![polite("shared", &notes[0]), own]);
    assert!(gateway.settled(Duration::from_secs(20)).await, "{:?}", gateway.health());
    let door = gateway.door(own_server(), std::sync::Arc::new(|_: &str| true));
    let front = serve_handler(door, RevisionSet::ALL).await;
    let house = House::around(gateway, front);
    let (peer, _) = house.client(Revision::V2025_11_25).await;
    for tool in ["shared_echo", "own_echo"] {
        assert_eq!(text(&peer, tool, json!({"text": "a"})).await.unwrap(), "a");
    }
    assert_eq!(children(), 3, "two that list, and the session's");
    (house, notes)
}

fn n_left(note: &Path) -> usize {
    std::fs::read_to_string(note).unwrap_or_default().lines().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_closed_lets_every_process_leave() {
    let directory = tempfile::tempdir().unwrap();
    let (house, notes) = house(directory.path()).await;
    house.gateway.close().await;
    assert_eq!((children(), notes.each_ref().map(|note| n_left(note))), (0, [1, 2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_is_no_longer_configured_may_leave_and_others_stay() {
    let directory = tempfile::tempdir().unwrap();
    let (house, notes) = house(directory.path()).await;
    house.gateway.configure(vec![polite("shared", &notes[0])]);
    let start = Instant::now();
    while (children(), n_left(&notes[1])) != (1, 2) {
        let left = format!("{} processes, {} left", children(), n_left(&notes[1]));
        assert!(start.elapsed() < Duration::from_secs(10), "{left}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(n_left(&notes[0]), 0);
    house.gateway.close().await;
}
