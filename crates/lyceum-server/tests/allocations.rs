//! How often a small call allocates, HTTP included: a budget, because every allocation is paid for by
//! every call of every client.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::net::SocketAddr;
use std::sync::mpsc;

use lyceum_http::{Endpoint, ServeOptions, Site, serve};
use lyceum_server::{Call, Server, ToolError, tool};
use lyceum_testkit::{Connection, Request};
use serde_json::json;

/// Allocations per call, from the first byte read to the last byte written.
const BUDGET: u64 = 25;
const WARM_UP: u64 = 50;
const CALLS: u64 = 500;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

#[test]
fn small_modern_call_as_json() {
    check(|id| Request::modern("/mcp", id, "tools/call", echo()));
}

#[test]
fn small_modern_call_as_events() {
    check(|id| {
        Request::modern("/mcp", id, "tools/call", echo()).set("accept", "text/event-stream")
    });
}

#[test]
fn small_legacy_call_as_json() {
    check(legacy);
}

#[test]
fn small_legacy_call_as_events() {
    check(|id| legacy(id).set("accept", "text/event-stream"));
}

fn echo() -> serde_json::Value {
    json!({"name": "echo", "arguments": {"text": "the quick brown fox jumps over the lazy dog"}})
}

fn legacy(id: u64) -> Request {
    let request = Request::legacy("/mcp", id, "tools/call", echo());
    request.header("mcp-protocol-version", "2025-11-25")
}

#[track_caller]
fn check(request: fn(u64) -> Request) {
    let few = allocations(request, WARM_UP);
    let many = allocations(request, WARM_UP + CALLS);
    let per_call = (many - few) as f64 / CALLS as f64;
    assert!(per_call <= BUDGET as f64, "{per_call} allocations per call, budget {BUDGET}");
    // A count of nothing would mean that the wrong thread was watched.
    assert!(per_call >= 1.0, "{per_call} allocations per call cannot be right");
}

/// Allocations of a server's only thread while it answers `calls` calls on one connection.
fn allocations(request: fn(u64) -> Request, calls: u64) -> u64 {
    let (address, addressed) = mpsc::channel();
    let (done, client_done) = tokio::sync::oneshot::channel();
    let client = std::thread::spawn(move || {
        runtime().block_on(run_client(addressed.recv().unwrap(), request, calls));
        done.send(()).unwrap();
    });
    let runtime = runtime();
    let counted = allocation_counter::measure(|| {
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            address.send(listener.local_addr().unwrap()).unwrap();
            let site = Site::new().endpoint(Endpoint::builder("/mcp", server()).build().unwrap());
            let stop = async { drop(client_done.await) };
            serve(listener, site, ServeOptions::default(), stop).await.unwrap();
        });
    });
    client.join().unwrap();
    counted.count_total
}

async fn run_client(address: SocketAddr, request: fn(u64) -> Request, calls: u64) {
    let mut connection = Connection::open(address).await;
    for id in 0..calls {
        let response = connection.call(&request(id)).await;
        assert!(response.text().contains("quick brown fox"), "{}", response.text());
    }
}

fn server() -> Server {
    let echo = tool("echo", "Repeats the text.", |_: Call, args: Echo| async move {
        Ok::<_, ToolError>(args.text)
    });
    Server::builder("allocations", "1").tool(echo).build()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
