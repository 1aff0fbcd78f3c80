//! Bad upstreams hurt only their own tools (reliability row G1): the others answer, and the bad ones are
//! soon no longer asked. How quick the others are beside them is for the benchmark to say.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lyceum_gateway::{Status, Target, UpstreamConfig};
use lyceum_testkit::{Connection, Request, Server as Running};
use lyceum_wire::RevisionSet;
use serde_json::json;
use tokio::time::Instant;

use crate::healing::status;
use crate::house::{House, Way, fixture_upstream};
use crate::mirror::{Mirror, Reply, plain};

const N_GOOD: usize = 5;
/// How long a call may hear nothing, and how much longer the gateway may take to say so.
const DEADLINE: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_secs(2);
/// The four that answer everything but calls; the fifth is a process that never starts.
const BAD: [&str; 4] = ["hang", "garbage", "endless", "slow"];

fn misbehaves(name: &str) -> Reply {
    let events = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_owned();
    match name {
        "hang" => Reply::Endless(String::new(), Vec::new()),
        "garbage" => Reply::Bytes(b"\x00\xff no HTTP at all \r\n\r\n".to_vec()),
        "endless" => Reply::Endless(events + "data: ", vec![b'x'; 64 << 10]),
        _ => Reply::Slow("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{}"),
    }
}

async fn bad(name: &'static str) -> (Mirror, UpstreamConfig) {
    let upstream = Mirror::answering(move |request| match request.method.as_str() {
        "tools/call" => misbehaves(name),
        "ping" => Reply::Result("{}".to_owned()),
        method => plain(method),
    })
    .await;
    let config = UpstreamConfig { call_timeout: DEADLINE, ..upstream.config(name) };
    (upstream, config)
}

async fn good() -> (Vec<UpstreamConfig>, Vec<Option<Running>>) {
    let (mut configs, mut running) = (Vec::new(), Vec::new());
    for n in 0..N_GOOD {
        let served = if n % 2 == 0 { RevisionSet::LEGACY } else { RevisionSet::MODERN };
        let (config, upstream) = fixture_upstream(Way::Http, served).await;
        configs.push(UpstreamConfig { name: format!("good{n}"), ..config });
        running.push(upstream);
    }
    (configs, running)
}

/// One call, and how long it took.
async fn call(connection: &mut Connection, tool: &str) -> (Duration, bool) {
    let params = json!({"name": tool, "arguments": {"text": "x"}});
    let request = Request::modern("/mcp", 1, "tools/call", params);
    let start = Instant::now();
    let answer = connection.call(&request).await;
    let took = start.elapsed();
    let answer = answer.json();
    assert!(answer.get("result").is_some(), "{tool}: {answer}");
    (took, answer["result"]["isError"] != true)
}

/// Somebody who keeps calling a bad tool: how long the slowest call took.
async fn stubborn(address: SocketAddr, tool: String, done: Arc<AtomicBool>) -> Duration {
    let mut connection = Connection::open(address).await;
    let mut slowest = Duration::ZERO;
    while !done.load(Ordering::Relaxed) {
        let (took, is_good) = call(&mut connection, &tool).await;
        assert!(!is_good, "{tool}");
        slowest = slowest.max(took);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    slowest
}

/// Calls all good tools, each in turn.
async fn call_good_tools(address: SocketAddr) {
    let mut connection = Connection::open(address).await;
    for n in 0..200 {
        let (_, is_good) = call(&mut connection, &format!("good{}_echo", n % N_GOOD)).await;
        assert!(is_good);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_does_not_answer_is_soon_no_longer_asked() {
    let (mut all, _running) = good().await;
    let mut mirrors = Vec::new();
    for name in BAD {
        let (mirror, config) = bad(name).await;
        mirrors.push(mirror);
        all.push(config);
    }
    let crash = Target::Command(vec!["/bin/false".to_owned()]);
    all.push(UpstreamConfig::new("crash", crash));
    let crowded = House::unsettled(all).await;
    for name in ["good0", "good4"].into_iter().chain(BAD) {
        status(&crowded, name, Status::Up).await;
    }
    let done = Arc::new(AtomicBool::new(false));
    let address = crowded.front.address();
    let stubborn: Vec<_> = BAD
        .map(|name| tokio::spawn(stubborn(address, format!("{name}_mirror"), Arc::clone(&done))))
        .into_iter()
        .collect();
    // By then whoever does not answer is known for it.
    tokio::time::sleep(Duration::from_secs(5)).await;
    for (name, health) in crowded.gateway.health() {
        let expected = match name.as_str() {
            "crash" => [Status::Down, Status::Connecting],
            "hang" | "endless" | "slow" | "garbage" => [Status::Failing; 2],
            _ => [Status::Up; 2],
        };
        assert!(expected.contains(&health.status), "{name}: {health:?}");
    }
    call_good_tools(address).await;
    done.store(true, Ordering::Relaxed);
    for slowest in stubborn {
        let slowest = slowest.await.unwrap();
        assert!(slowest < DEADLINE + GRACE, "{slowest:?}");
    }
    // Each was asked a few times in a row, and after that now and then.
    for (name, mirror) in BAD.iter().zip(&mirrors) {
        let n_asked = mirror.n_seen("tools/call");
        assert!((3..=10).contains(&n_asked), "{name} was asked {n_asked} times");
    }
}
