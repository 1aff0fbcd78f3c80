//! Connections of sessions while their upstream cannot be reached any more.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lyceum_gateway::process::AllowedCommands;
use lyceum_gateway::{Gateway, Setting, Share, Status, Target, UpstreamConfig};
use lyceum_wire::{Revision, RevisionSet};
use serde_json::json;

use crate::house::{House, own_server, serve_handler, setting, text, upstream_program};

/// The processes that run this program.
fn running(program: &Path) -> Vec<u32> {
    let is_it = |process: &u32| {
        let command = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).next() == Some(program.as_os_str().as_encoded_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(is_it).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_connections_grow_old_while_their_upstream_is_down() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("upstream-that-vanishes");
    std::fs::copy(upstream_program(), &program).unwrap();
    let allowed_commands = Arc::new(AllowedCommands::new([program.to_str().unwrap()]));
    let gateway = Gateway::new(Setting { allowed_commands, ..setting() });
    let command = vec![program.to_str().unwrap().to_owned(), "legacy".to_owned()];
    gateway.configure(vec![UpstreamConfig {
        share: Share::PerSession,
        idle_timeout: Some(Duration::from_secs(2)),
        ..UpstreamConfig::new("up", Target::Command(command))
    }]);
    assert!(gateway.settled(Duration::from_secs(20)).await);
    let lister = running(&program);
    assert_eq!(lister.len(), 1);
    let door = gateway.door(own_server(), Arc::new(|_: &str| true));
    let front = serve_handler(door, RevisionSet::ALL).await;
    let house = House::around(gateway, front);
    let (peer, _) = house.client(Revision::V2025_11_25).await;
    assert_eq!(text(&peer, "up_echo", json!({"text": "a"})).await.unwrap(), "a");
    assert_eq!(running(&program).len(), 2, "one lists, one is the session's");
    // Nothing can be started any more, and who lists is gone.
    std::fs::remove_file(&program).unwrap();
    let killed = std::process::Command::new("kill").args(["-9", &lister[0].to_string()]).status();
    assert!(killed.unwrap().success());
    for _ in 0..1000 {
        if running(&program).is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(running(&program), [0; 0], "the session's process is still there");
    assert_eq!(house.gateway.health()[0].1.status, Status::Down);
}
