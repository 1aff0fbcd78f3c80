//! A `lyceum` with the preset, and servers behind it.

use std::path::Path;
use std::process::Stdio;

use lyceum_testkit::{Event, Events, Head, Request, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Duration, Instant, sleep};

use crate::lyceum::Lyceum;

pub(crate) const BASE: &str = "/gateway/sandbox/mcp/v1";
pub(crate) const JSON: &str = "application/json";
pub(crate) const SSE: &str = "text/event-stream";
pub(crate) const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/knox/upstream.py");
const PATIENCE: Duration = Duration::from_secs(20);

/// The server under test.
pub(crate) struct House {
    pub(crate) lyceum: Lyceum,
    /// Kept as long as the server needs it.
    pub(crate) _data: TempDir,
}

/// A server behind it that runs by itself. Dropping it kills it.
pub(crate) struct Upstream {
    pub(crate) port: u16,
    pub(crate) child: Child,
}

/// The interpreter itself: the server under test starts programs without our environment.
pub(crate) async fn python() -> String {
    let ask = "import sys; print(sys.executable)";
    let output = Command::new("python3").args(["-c", ask]).output().await.expect("python3");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// An `[[upstream]]` that is a process.
pub(crate) async fn stdio(name: &str, flags: &[&str]) -> String {
    let python = python().await;
    let command: Vec<&str> =
        [python.as_str(), SCRIPT, "stdio"].iter().chain(flags).copied().collect();
    format!("[[upstream]]\nname = {name:?}\ncommand = {command:?}\n")
}

/// An `[[upstream]]` at a URL.
pub(crate) fn at(name: &str, url: &str) -> String {
    format!("[[upstream]]\nname = {name:?}\nurl = {url:?}\n")
}

impl Upstream {
    /// Starts the script as an HTTP server: `plain`, `sse` or `custom`.
    pub(crate) async fn start(mode: &str) -> Self {
        Self::start_at(mode, 0).await
    }

    /// The same at a port that was another's.
    pub(crate) async fn start_at(mode: &str, port: u16) -> Self {
        let mut child = Command::new(python().await)
            .args([SCRIPT, mode, &port.to_string()])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next_line().await.unwrap().unwrap().parse().unwrap();
        Self { port, child }
    }
}

impl House {
    /// A server with one process, `files`, behind it.
    pub(crate) async fn new() -> Self {
        Self::with(&stdio("files", &[]).await).await
    }

    /// A server with this configuration, all of whose upstreams can be reached.
    pub(crate) async fn with(file: &str) -> Self {
        let house = Self::unsettled(file).await;
        house.settled(file.matches("[[upstream]]").count()).await;
        house
    }

    pub(crate) async fn unsettled(file: &str) -> Self {
        let data = tempfile::tempdir().unwrap();
        let file = configuration(data.path(), file);
        let lyceum = Lyceum::start(data.path(), &["--preset", "knox", "--config", &file]).await;
        Self { lyceum, _data: data }
    }

    /// Waits until so many upstreams show tools.
    pub(crate) async fn settled(&self, n_upstreams: usize) {
        let start = Instant::now();
        let is_up = |server: &Value| server["status"] == "up" && server["tools"] != 0;
        loop {
            let health = self.get("/health?detail=1").await.json();
            let servers = health["servers"].as_object().unwrap();
            if servers.values().filter(|server| is_up(server)).count() >= n_upstreams {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{health}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// A GET below the base, by somebody who says nothing about formats.
    pub(crate) async fn get(&self, below: &str) -> Response {
        self.send(&Request::new("GET", &format!("{BASE}{below}"))).await
    }

    pub(crate) async fn send(&self, request: &Request) -> Response {
        self.lyceum.call(request).await
    }

    /// The answer to a JSON-RPC request.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        let response = self.send(&rpc("", 1, method, params)).await;
        assert_eq!(response.status(), 200, "{}", response.text());
        response.json()
    }

    /// The text a tool answers with, which is JSON in our script.
    pub(crate) async fn told(&self, tool: &str) -> Value {
        said(&self.ask("tools/call", json!({ "name": tool })).await)
    }

    /// The same, once the tool can be reached again.
    pub(crate) async fn told_again(&self, tool: &str) -> Value {
        let start = Instant::now();
        loop {
            let answer = self.ask("tools/call", json!({ "name": tool })).await;
            if answer["result"]["isError"] != true {
                return said(&answer);
            }
            assert!(start.elapsed() < PATIENCE, "{answer}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Opens a stream; returns its head, its events and its id.
    pub(crate) async fn open(&self, below: &str) -> (Head, Events, String) {
        let request = Request::new("GET", &format!("{BASE}{below}")).header("accept", SSE);
        let (head, mut events) = self.lyceum.connect().await.stream(&request).await;
        let connected = events.next().await.unwrap();
        assert_eq!(connected.name, "connected");
        let endpoint = events.next().await.unwrap();
        let address = format!("{BASE}/message?session={}", connected.data);
        assert_eq!((&*endpoint.name, &*endpoint.data), ("endpoint", &*address));
        (head, events, connected.data)
    }

    /// Opens a stream and shakes hands on it.
    pub(crate) async fn conversation(&self) -> (Events, String) {
        let (_, mut events, id) = self.open("").await;
        let hello = rpc("", 0, "initialize", handshake()).set("accept", SSE);
        let accepted = self.send(&hello.header("x-session-id", &id)).await;
        assert_eq!(accepted.status(), 202, "{}", accepted.text());
        assert_eq!(answer(&mut events).await.json()["id"], 0);
        (events, id)
    }
}

/// The JSON in the text of a tool's answer.
fn said(answer: &Value) -> Value {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| panic!("{answer}"))
}

/// The next answer on a stream; notifications may come before it.
pub(crate) async fn answer(events: &mut Events) -> Event {
    loop {
        let event = events.next().await.unwrap();
        if !event.json()["id"].is_null() {
            return event;
        }
    }
}

/// A request of a client that takes JSON.
pub(crate) fn rpc(below: &str, id: u64, method: &str, params: Value) -> Request {
    Request::legacy(&format!("{BASE}{below}"), id, method, params).set("accept", JSON)
}

pub(crate) fn handshake() -> Value {
    json!({
        "protocolVersion": "2024-11-05",
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    })
}

/// Writes a configuration and returns its path.
pub(crate) fn configuration(directory: &Path, text: &str) -> String {
    let path = directory.join("lyceum.toml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}
