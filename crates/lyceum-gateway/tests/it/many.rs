//! Many clients at once: nothing crosses over shared connections, and nothing is left behind.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lyceum_gateway::{EraChoice, Share, Target, UpstreamConfig};
use lyceum_http::{Endpoint, Limits, ServeOptions, Site, serve};
use lyceum_testkit::{Connection, Request, Server as Running};
use lyceum_wire::RevisionSet;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::census::{children, open_files, resident_kb};
use crate::house::{House, Way, fixture_upstream, own_server, upstream_program};

const CLIENTS: usize = 256;
/// A million where the code is optimized; a taste of it where it is not.
const CALLS: usize = if cfg!(debug_assertions) { 10_240 } else { 1_000_000 };
const REVISIONS: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
/// Every client uses every upstream; each upstream has one connection for all of them.
const UPSTREAMS: [(&str, Way, RevisionSet); 5] = [
    ("lh", Way::Http, RevisionSet::LEGACY),
    ("mh", Way::Http, RevisionSet::MODERN),
    ("sse", Way::HttpSse, RevisionSet::LEGACY),
    ("ls", Way::Stdio, RevisionSet::LEGACY),
    ("ms", Way::Stdio, RevisionSet::MODERN),
];

/// A raw client whose ids and tokens are everybody's ids and tokens.
struct Client {
    calls: Connection,
    revision: &'static str,
    session: Option<String>,
}

impl Client {
    async fn open(address: SocketAddr, revision: &'static str) -> Client {
        let mut calls = Connection::open(address).await;
        let mut session = None;
        if revision != "2026-07-28" {
            let params = json!({"protocolVersion": revision, "capabilities": {},
                "clientInfo": {"name": "many", "version": "1"}});
            let response = calls.call(&Request::legacy("/mcp", 0, "initialize", params)).await;
            session = response.head.get("mcp-session-id").map(str::to_owned);
        }
        Client { calls, revision, session }
    }

    /// Calls a tool and checks that everything that comes back is for this call. Returns how many
    /// messages came.
    async fn call(&mut self, tool: &str, id: usize, nonce: &str) -> usize {
        let meta = json!({"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"});
        let params = json!({"name": tool, "arguments": {"text": nonce}, "_meta": meta});
        let request = match &self.session {
            None => Request::modern("/mcp", id, "tools/call", params),
            Some(session) => Request::legacy("/mcp", id, "tools/call", params)
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", self.revision),
        };
        let response = self.calls.call(&request).await;
        let is_stream =
            response.head.get("content-type").is_some_and(|kind| kind.starts_with("text/event"));
        let messages: Vec<Value> = match is_stream {
            true => {
                let events = response.events();
                events
                    .iter()
                    .filter(|event| !event.data.is_empty())
                    .map(|event| event.json())
                    .collect()
            }
            false => vec![response.json()],
        };
        let (result, ahead) = messages.split_last().expect("an answer");
        assert_eq!(result["id"], id, "{result}");
        assert_eq!(result["result"]["content"][0]["text"], nonce, "{result}");
        for told in ahead {
            let params = &told["params"];
            let (said, token) = (&params["message"], &params["progressToken"]);
            let is_progress =
                told["method"] == "notifications/progress" && said == nonce && token == 1;
            let is_log = told["method"] == "notifications/message" && params["data"] == nonce;
            assert!(is_progress || is_log, "not for {nonce}: {told}");
        }
        messages.len()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_nothing_crosses_over_shared_connections() {
    let mut configs = Vec::new();
    let mut running: Vec<Option<Running>> = Vec::new();
    for (name, way, served) in UPSTREAMS {
        let (config, upstream) = fixture_upstream(way, served).await;
        configs.push(UpstreamConfig { name: name.to_owned(), ..config });
        running.push(upstream);
    }
    let house = House::with(configs, None).await;
    let address = house.front.address();
    let clients: Vec<_> = (0..CLIENTS).map(|number| tokio::spawn(run(address, number))).collect();
    let mut told = 0;
    for client in clients {
        told += client.await.unwrap();
    }
    // Every call is one answer, and progress of `tell` always finds its call.
    assert!(told >= CALLS, "{told} messages for {CALLS} calls");
    house.gateway.close().await;
}

async fn run(address: SocketAddr, number: usize) -> usize {
    let mut client = Client::open(address, REVISIONS[number % REVISIONS.len()]).await;
    let mut told = 0;
    for id in 0..CALLS / CLIENTS {
        let (upstream, ..) = UPSTREAMS[(number / REVISIONS.len() + id) % UPSTREAMS.len()];
        let nonce = format!("client-{number}-call-{id}");
        let tool = if id % 16 == 7 { "tell" } else { "echo" };
        told += client.call(&format!("{upstream}_{tool}"), id, &nonce).await;
    }
    told
}

/// How many clients hang up while a process of their own runs, and how many at once.
const HANG_UPS: usize = if cfg!(debug_assertions) { 192 } else { 10_000 };
const AT_ONCE: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_clients_that_hang_up_leave_no_process_behind() {
    let directory = tempfile::tempdir().unwrap();
    let starts = directory.path().join("starts");
    let house = House::with(vec![counted(&starts)], None).await;
    let front = forgetful(&house).await;
    let address = front.address();
    let n_started = || std::fs::metadata(&starts).unwrap().len() as usize;
    // One process lists for everybody; it is there before and after.
    let (processes, files) = (children(), open_files());
    assert_eq!((processes, n_started()), (1, 1));
    batches(HANG_UPS / 8, |number| hang_up(address, number)).await;
    let memory = resident_kb();
    batches(HANG_UPS - HANG_UPS / 8, |number| hang_up(address, number)).await;
    assert!(n_started() > HANG_UPS, "{} processes for {HANG_UPS} clients", n_started());
    // Those who are gone before anything was done for them.
    batches(HANG_UPS / 8, |number| leave_early(address, number)).await;
    let start = Instant::now();
    while children() > processes || open_files() > files + 8 {
        let (processes, files) = (children(), open_files());
        assert!(start.elapsed() < Duration::from_secs(15), "{processes} processes, {files} files");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Session ids that were opened are remembered, up to a number; nothing else is.
    let grown = resident_kb().saturating_sub(memory);
    assert!(grown < 12 << 10, "{memory} KiB grew by {grown}");
    house.gateway.close().await;
    assert_eq!(children(), 0);
}

/// An endpoint of the gateway that keeps nothing for clients that might come back.
async fn forgetful(house: &House) -> Running {
    let door = house.gateway.door(own_server(), Arc::new(|_: &str| true));
    let limits = Limits { session_idle: Duration::from_secs(1), ..Limits::default() };
    let endpoint = Endpoint::builder("/mcp", door).limits(limits).build().unwrap();
    Running::start(|listener, shutdown| async move {
        let site = Site::new().endpoint(endpoint);
        serve(listener, site, ServeOptions::default(), shutdown).await.unwrap();
    })
    .await
}

/// The fixture as a process for each session, which notes that it was started.
fn counted(starts: &Path) -> UpstreamConfig {
    let program = upstream_program();
    let command = [program.as_path(), "legacy".as_ref(), "--starts".as_ref(), starts];
    let command = command.map(|word| word.to_str().unwrap().to_owned()).to_vec();
    UpstreamConfig {
        era: EraChoice::Legacy,
        share: Share::PerSession,
        call_timeout: Duration::from_secs(2),
        idle_timeout: Some(Duration::from_secs(1)),
        max_connections: 64,
        ..UpstreamConfig::new("up", Target::Command(command))
    }
}

/// Runs so many clients, a few at once.
async fn batches<F: Future<Output = ()> + Send + 'static>(
    n_clients: usize,
    client: impl Fn(usize) -> F,
) {
    let mut running = tokio::task::JoinSet::new();
    for number in 0..n_clients {
        if running.len() == AT_ONCE {
            running.join_next().await.unwrap().unwrap();
        }
        running.spawn(client(number));
        assert!(children() <= 256, "{} processes after {number} clients", children());
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
}

/// A legacy client that will not say goodbye.
struct Rude {
    connection: Connection,
    session: String,
}

impl Rude {
    async fn open(address: SocketAddr) -> Rude {
        let mut connection = Connection::open(address).await;
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "many", "version": "1"}});
        let response = connection.call(&Request::legacy("/mcp", 0, "initialize", params)).await;
        let session = response.head.get("mcp-session-id").expect("a session").to_owned();
        Rude { connection, session }
    }

    fn request(&self, tool: &str) -> Request {
        let params =
            json!({"name": tool, "arguments": {"text": "x"}, "_meta": {"progressToken": 1}});
        Request::legacy("/mcp", 1, "tools/call", params)
            .header("mcp-session-id", &self.session)
            .header("mcp-protocol-version", "2025-11-25")
    }

    /// Waits until a process of its own has answered, however long it takes until there may be one.
    async fn served(&mut self) {
        let call = self.request("up_echo");
        for _ in 0..500 {
            let answer = self.connection.call(&call).await.json();
            if answer["result"]["content"][0]["text"] == "x" {
                return;
            }
            let told = answer.to_string();
            assert!(told.contains("as many connections as it may have"), "{told}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("never served");
    }
}

/// Leaves without a word once a process of its own runs: idle, at work, in the middle of an answer or
/// of a request.
async fn hang_up(address: SocketAddr, number: usize) {
    let mut client = Rude::open(address).await;
    client.served().await;
    match number % 16 {
        0 => client.connection.send(client.request("up_wait").to_bytes()).await,
        1..=5 => {
            client.connection.send(client.request("up_tell").to_bytes()).await;
            client.connection.raw(number % 64).await;
        }
        6..=10 => {
            let bytes = client.request("up_echo").to_bytes();
            client.connection.send(&bytes[..number % bytes.len()]).await;
        }
        _ => {}
    }
    client.connection.reset();
}

/// Leaves while its process is being started, or before.
async fn leave_early(address: SocketAddr, number: usize) {
    let mut client = Rude::open(address).await;
    client.connection.send(client.request("up_echo").to_bytes()).await;
    tokio::time::sleep(Duration::from_millis((number % 20) as u64)).await;
    client.connection.reset();
}
