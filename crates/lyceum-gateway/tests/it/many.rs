//! Many clients at once: nothing crosses over shared connections, and nothing is left behind.

use std::net::SocketAddr;
use std::time::Duration;

use lyceum_gateway::{Share, UpstreamConfig};
use lyceum_testkit::{Connection, Request, Server as Running};
use lyceum_wire::RevisionSet;
use serde_json::{Value, json};

use crate::house::{House, Way, fixture_upstream};

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

/// Child processes of this one, zombies included.
fn children() -> usize {
    let own = std::process::id().to_string();
    let is_child = |entry: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        after_name.split_whitespace().nth(1) == Some(own.as_str())
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(is_child).count()
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_clients_that_hang_up_leave_no_process_behind() {
    const HANG_UPS: usize = if cfg!(debug_assertions) { 200 } else { 10_000 };
    let (config, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
    let config = UpstreamConfig {
        share: Share::PerSession,
        call_timeout: Duration::from_secs(2),
        idle_timeout: Some(Duration::from_secs(1)),
        max_connections: 32,
        ..config
    };
    let house = House::with(vec![config], None).await;
    let address = house.front.address();
    // One process lists for everybody; it is there before and after.
    let (processes, files) = (children(), open_files());
    assert_eq!(processes, 1);
    let mut hung_up = 0;
    while hung_up < HANG_UPS {
        let batch: Vec<_> = (0..16).map(|n| tokio::spawn(hang_up(address, hung_up + n))).collect();
        for client in batch {
            client.await.unwrap();
        }
        hung_up += 16;
        assert!(children() <= 128, "{} processes after {hung_up} clients", children());
    }
    for _ in 0..200 {
        if children() == processes && open_files() <= files + 8 {
            house.gateway.close().await;
            assert_eq!(children(), 0);
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{} processes and {} files, not {processes} and {files}", children(), open_files());
}

/// Opens a session, starts something in it and leaves without a word, each time a bit earlier or
/// later.
async fn hang_up(address: SocketAddr, number: usize) {
    let mut connection = Connection::open(address).await;
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "many", "version": "1"}});
    let response = connection.call(&Request::legacy("/mcp", 0, "initialize", params)).await;
    let session = response.head.get("mcp-session-id").expect("a session").to_owned();
    let tool = if number.is_multiple_of(8) { "up_wait" } else { "up_echo" };
    let params = json!({"name": tool, "arguments": {"text": "x"}});
    let call = Request::legacy("/mcp", 1, "tools/call", params)
        .header("mcp-session-id", &session)
        .header("mcp-protocol-version", "2025-11-25");
    connection.send(call.to_bytes()).await;
    tokio::time::sleep(Duration::from_millis((number % 20) as u64)).await;
    connection.reset();
}
