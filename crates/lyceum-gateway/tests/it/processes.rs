//! Processes that come and go, well-behaved or not (reliability row G5): none of them, and nothing they
//! started, is left behind.

use std::time::Duration;

use lyceum_gateway::process::AllowedCommands;
use lyceum_gateway::{EraChoice, Gateway, Setting, Target, UpstreamConfig};
use tokio::time::Instant;

use crate::census::{children, open_files};
use crate::house::{setting, upstream_program};

/// What is slept for tells our sleepers from everybody else's.
const NAP: &str = "98761";

/// How a process behaves, as a script around the fixture.
const MANNERS: [&str; 6] = [
    // It leaves when its input ends.
    "exec FIXTURE legacy",
    // It would not leave when asked, but does when its input ends.
    "trap '' TERM; exec FIXTURE modern",
    // It is deaf, and stays when its input ends.
    "trap '' TERM HUP INT; FIXTURE legacy; while :; do sleep NAP; done",
    // It has started others, which are deaf.
    "(trap '' TERM HUP; sleep NAP) & (trap '' TERM; sleep NAP) & exec FIXTURE legacy",
    // It floods its standard error.
    "(while :; do echo flood; done) >&2 & FIXTURE legacy; wait",
    // It starts others without end, or so it seems.
    "for n in $(seq 40); do (trap '' TERM; sleep NAP & sleep NAP) & done; exec FIXTURE legacy",
];

fn rude(name: String, manner: &str) -> UpstreamConfig {
    let fixture = upstream_program().to_str().unwrap().to_owned();
    let script = manner.replace("FIXTURE", &fixture).replace("NAP", NAP);
    let command = ["/bin/sh".to_owned(), "-c".to_owned(), script].to_vec();
    let era = if manner.contains("modern") { EraChoice::Modern } else { EraChoice::Legacy };
    UpstreamConfig { era, ..UpstreamConfig::new(name, Target::Command(command)) }
}

/// Processes anywhere that sleep for as long as ours do.
fn sleepers() -> usize {
    let is_sleeper = |entry: &std::fs::DirEntry| {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).eq([b"sleep".as_slice(), NAP.as_bytes(), b""])
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(is_sleeper).count()
}

fn gateway() -> Gateway {
    let allowed_commands = AllowedCommands::default().into();
    Gateway::new(Setting { allowed_commands, ..setting() })
}

#[tokio::test(flavor = "multi_thread")]
async fn release_five_hundred_processes_leave_nothing_behind() {
    const ROUNDS: usize = if cfg!(debug_assertions) { 4 } else { 84 };
    let files = open_files();
    let gateway = gateway();
    for round in 0..ROUNDS {
        let all = MANNERS.iter().enumerate();
        let configs = all.map(|(n, manner)| rude(format!("up-{round}-{n}"), manner)).collect();
        gateway.configure(configs);
        assert!(gateway.settled(Duration::from_secs(20)).await, "{:?}", gateway.health());
        for (name, health) in gateway.health() {
            assert!(health.tools > 0, "{name}: {health:?}");
        }
        // Those of the rounds before have five seconds to be gone, of which each round takes some.
        assert!(children() < 300, "{} processes in round {round}", children());
    }
    assert!(sleepers() > 0, "there was nothing to be left behind");
    gateway.configure(Vec::new());
    let start = Instant::now();
    while children() > 0 || sleepers() > 0 || open_files() > files + 4 {
        let (files, sleepers) = (open_files(), sleepers());
        let left = format!("{} processes, {sleepers} sleepers, {files} files", children());
        assert!(start.elapsed() < Duration::from_secs(6), "{left}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_a_program_and_its_words_and_nothing_else() {
    // Row 19: no shell reads them, so nothing in them is an order.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("made");
    let touch = format!("touch {}", file.display());
    let fixture = upstream_program().to_str().unwrap().to_owned();
    let words = [format!("; {touch}"), format!("$({touch})"), format!("`{touch}`"), "*".to_owned()];
    let legacy = "legacy".to_owned();
    let command = [fixture, legacy].into_iter().chain(words).collect();
    let gateway = gateway();
    gateway.configure(vec![UpstreamConfig::new("up", Target::Command(command))]);
    assert!(gateway.settled(Duration::from_secs(20)).await);
    assert!(gateway.health()[0].1.tools > 0, "{:?}", gateway.health());
    gateway.close().await;
    assert!(!file.exists());
}
