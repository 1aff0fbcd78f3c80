//! An upstream behind the gateway that floods: endless lines, noise, notifications, deep answers.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::abuse::case::{AbuseCase, Attacker};
use crate::abuse::client::{AbusiveClient, Manner};
use crate::abuse::request;
use crate::abuse::server::LyceumServer;
use crate::stopwatch::Stopwatch;

pub(super) const CASES: [AbuseCase; 2] = [
    AbuseCase::new("upstream-floods", "an upstream that floods its output", floods)
        .config(hostile)
        .prepared(upstreams_up)
        .cpu(0.5),
    AbuseCase::new("upstream-at-once", "an upstream that floods before it is asked", |_| {
        Ok(Vec::new())
    })
    .config(hostile_at_once)
    .alone(),
];

fn hostile(program: &Path) -> String {
    upstream(program, "")
}

fn hostile_at_once(program: &Path) -> String {
    upstream(program, ", \"--at-once\"")
}

fn upstream(program: &Path, flags: &str) -> String {
    format!(
        "[[upstream]]\nname = \"up\"\ncommand = [{:?}, \"hostile\"{flags}]\nera = \"legacy\"\n\
         call_timeout = 3\n",
        program.display().to_string()
    )
}

/// Waits until the upstream's tools are there.
fn upstreams_up(server: &LyceumServer) -> Result<()> {
    let watch = Stopwatch::start();
    loop {
        let behave = request::call(&server.keys.preparer, "up_behave", &json!({}));
        let answer = server.ask(&behave)?;
        if answer.is_success() {
            return Ok(());
        }
        anyhow::ensure!(!watch.is_past(Duration::from_secs(20)), "no upstream: {}", answer.text);
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn floods(attacker: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let call = |tool: &str| request::call(attacker.key, tool, &json!({}));
    let tools = ["up_deep_64", "up_deep_1000000", "up_notify", "up_line", "up_noise", "up_errors"];
    let client = AbusiveClient::patient(tools.map(call).to_vec()).pause(100);
    let hanging_up = client.clone().manner(Manner::HangUp(Duration::from_millis(100)));
    Ok(vec![client, hanging_up])
}
