//! The product as a gateway: `lyceum serve` with upstreams, on a free port, with a folder of its own.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::everything::{DataDir, address_of, url_in};
use crate::process::Guarded;
use crate::stopwatch::Stopwatch;
use crate::workspace::Workspace;

const START_LIMIT: Duration = Duration::from_secs(30);

/// A gateway whose upstreams are up; stopped, and its folder removed, when dropped.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) url: String,
    // Fields are dropped in order: the process is gone before its data goes.
    process: Guarded,
    _data: DataDir,
}

impl Front {
    /// Starts `lyceum` with this configuration and waits until its upstreams are up.
    pub(super) fn start(workspace: &Workspace, program: &Path, config: &str) -> Result<Self> {
        let data = DataDir::create(workspace)?;
        let file = data.path().join("lyceum.toml");
        fs::write(&file, config).with_context(|| format!("writing {}", file.display()))?;
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&file);
        command.arg("--data").arg(data.path().join("data"));
        let process = Guarded::spawn(&mut command)?;
        let url = process.wait_for(START_LIMIT, url_in)?;
        let mut front = Self { url, process, _data: data };
        front.wait_for_upstreams()?;
        Ok(front)
    }

    /// Fails when it has ended, with what it wrote.
    pub(super) fn ensure_alive(&mut self) -> Result<()> {
        self.process.ensure_alive()
    }

    /// It serves before its upstreams are there, so that they cannot hold it up.
    fn wait_for_upstreams(&mut self) -> Result<()> {
        let watch = Stopwatch::start();
        loop {
            let health = health(&self.url)?;
            let upstreams = health["upstreams"].as_object().context("/health has no upstreams")?;
            if upstreams.values().all(|one| one["status"] == "up") {
                return Ok(());
            }
            if watch.is_past(START_LIMIT) {
                bail!("an upstream is not up: {health}\n{}", self.process.written());
            }
            self.ensure_alive()?;
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// What `/health` says beside an MCP endpoint.
fn health(url: &str) -> Result<Value> {
    let address = address_of(url)?;
    let mut stream = TcpStream::connect(address).context("connecting to the gateway")?;
    stream.set_read_timeout(Some(START_LIMIT))?;
    write!(stream, "GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text).context("reading /health")?;
    let (head, body) = text.split_once("\r\n\r\n").context("/health is no HTTP")?;
    ensure!(head.starts_with("HTTP/1.1 "), "/health is no HTTP: {head}");
    serde_json::from_str(body).with_context(|| format!("/health is no JSON: {text}"))
}
