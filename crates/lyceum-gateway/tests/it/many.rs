//! Many clients at once: nothing crosses over shared connections, and nothing is left behind.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lyceum_gateway::{EraChoice, Share, Target, UpstreamConfig};
use lyceum_http::{Endpoint, Limits, ServeOptions, Site, serve};
use lyceum_testkit::{Connection, Request, Server as Running};
use lyceum_wire::RevisionSet;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::census::{children, open_files, resident_kb};
use crate::house::{House, Way, fixture_upstream, own_server, upstream_program};
use crate::raw::{Client, REVISIONS};

const CLIENTS: usize = 256;
/// A million for the busiest connection where the code is optimized; a taste of it where it is not.
const CALLS: usize = if cfg!(debug_assertions) { 10_240 } else { 1_250_000 };
/// Four calls of five go to one of the upstreams, whose process has one pipe for everybody.
const BUSIEST: &str = "ls";
/// Every client uses every upstream; each upstream has one connection for all of them.
const UPSTREAMS: [(&str, Way, RevisionSet); 5] = [
    ("lh", Way::Http, RevisionSet::LEGACY),
    ("mh", Way::Http, RevisionSet::MODERN),
    ("sse", Way::HttpSse, RevisionSet::LEGACY),
    ("ls", Way::Stdio, RevisionSet::LEGACY),
    ("ms", Way::Stdio, RevisionSet::MODERN),
];

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
    let is_over = Arc::new(AtomicBool::new(false));
    let subscribers = subscribers(address, &is_over);
    let clients: Vec<_> = (0..CLIENTS).map(|number| tokio::spawn(run(address, number))).collect();
    let (mut n_calls, mut n_busiest) = (0, 0);
    for client in clients {
        let (all, busiest) = client.await.unwrap();
        n_calls += all;
        n_busiest += busiest;
    }
    assert_eq!(n_calls, CALLS);
    assert!(n_busiest >= CALLS / 5 * 4, "{n_busiest} over one connection");
    is_over.store(true, Ordering::Relaxed);
    for subscriber in subscribers {
        subscriber.await.unwrap();
    }
    house.gateway.close().await;
}

/// Makes one client's share of the calls; returns how many that is, and of the busiest upstream.
async fn run(address: SocketAddr, number: usize) -> (usize, usize) {
    let mut client = Client::open(address, REVISIONS[number % REVISIONS.len()]).await;
    // What does not go round is made by the first.
    let n_calls = CALLS / CLIENTS + if number == 0 { CALLS % CLIENTS } else { 0 };
    let mut n_busiest = 0;
    for id in 0..n_calls {
        let upstream = match id % 5 {
            4 => UPSTREAMS[(number / REVISIONS.len() + id / 5) % UPSTREAMS.len()].0,
            _ => BUSIEST,
        };
        n_busiest += usize::from(upstream == BUSIEST);
        let nonce = format!("client-{number}-call-{id}");
        let tells = id % 16 == 7;
        let tool = if tells { "tell" } else { "echo" };
        let n_progress = client.call(&format!("{upstream}_{tool}"), id, &nonce).await;
        assert_eq!(n_progress, usize::from(tells), "progress of {nonce}");
    }
    (n_calls, n_busiest)
}

/// Two clients of every revision that each subscribe to another resource of every upstream.
fn subscribers(address: SocketAddr, is_over: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    let all = UPSTREAMS.iter().flat_map(|(upstream, ..)| {
        let clients = REVISIONS.iter().chain(&REVISIONS).enumerate();
        clients.map(move |(number, revision)| (*upstream, number, *revision))
    });
    all.map(|(upstream, number, revision)| {
        tokio::spawn(follow(address, upstream, number, revision, Arc::clone(is_over)))
    })
    .collect()
}

/// Changes a resource again and again, and hears of this one and of no other.
async fn follow(
    address: SocketAddr,
    upstream: &'static str,
    number: usize,
    revision: &'static str,
    is_over: Arc<AtomicBool>,
) {
    let own = format!("fixture://item/{number}");
    let client = Client::open(address, revision).await;
    let mut subscription = client.subscribe(address, &format!("{upstream}+{own}")).await;
    let mut changing = Client::open(address, "2026-07-28").await;
    for round in 0.. {
        if round >= 3 && is_over.load(Ordering::Relaxed) {
            return;
        }
        let mut is_heard = false;
        // The upstream may have been told of the subscription only after the first change.
        for _ in 0..60 {
            changing.call(&format!("{upstream}_change"), round, &own).await;
            is_heard = timeout(Duration::from_secs(1), subscription.hear()).await.is_ok();
            if is_heard {
                break;
            }
        }
        assert!(is_heard, "{revision} of {upstream} heard nothing in round {round}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// How many clients hang up while a process of their own runs, and how many at once.
const HANG_UPS: usize = if cfg!(debug_assertions) { 192 } else { 10_000 };
const AT_ONCE: usize = 16;
/// How many of them there are before memory is looked at for the first time.
const WARM_UP: usize = if cfg!(debug_assertions) { 64 } else { 1_024 };

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
    batches(WARM_UP, |number| hang_up(address, number)).await;
    let memory = resident_kb();
    batches(HANG_UPS - WARM_UP, |number| hang_up(address, number)).await;
    assert!(n_started() > HANG_UPS, "{} processes for {HANG_UPS} clients", n_started());
    // Those who are gone before anything was done for them.
    batches(HANG_UPS / 8, |number| leave_early(address, number)).await;
    let start = Instant::now();
    while children() > processes || open_files() > files + 8 {
        let (processes, files) = (children(), open_files());
        assert!(start.elapsed() < Duration::from_secs(15), "{processes} processes, {files} files");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Session ids that were opened are remembered, up to a number, in less than 3 MiB; nothing else is.
    let grown = resident_kb().saturating_sub(memory);
    assert!(grown < 6 << 10, "{memory} KiB grew by {grown}");
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
