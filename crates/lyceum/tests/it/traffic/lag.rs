//! C6: ten writes a second, and how long each waits for its vectors.

use std::net::SocketAddr;

use lyceum_testkit::{Connection, Request};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, MissedTickBehavior, interval, sleep};

use crate::lyceum::Lyceum;

const PERIOD: Duration = Duration::from_millis(100);
const WRITES: usize = 600;
/// Documents that are written again and again.
const DOCUMENTS: usize = 150;
/// How often a waiting document is looked at; the error of what is measured.
const GLANCE: Duration = Duration::from_millis(20);

/// What is promised for search by meaning; C6 would be content with five seconds.
const P95: Duration = Duration::from_secs(2);
const P99: Duration = Duration::from_secs(15);

/// Some pages of text that nobody wrote before.
fn text(n: usize) -> String {
    let words = ["harbour", "lantern", "orchard", "granite", "voyage", "copper", "meadow"];
    let sentence = |m: usize| format!("{} {} {m}. ", words[(n + m) % 7], words[(n * m) % 7]);
    format!("# Write {n}\n\n{}", (0..200).map(sentence).collect::<String>())
}

async fn ask(connection: &mut Connection, request: &Request) -> Value {
    let response = connection.call(request).await;
    assert!(response.status() < 300, "{}", response.text());
    response.json()
}

/// Writes a document; how long it then takes until its vectors are those of this text or a newer one.
async fn write(address: SocketAddr, n: usize) -> Duration {
    let mut connection = Connection::open(address).await;
    let path = format!("lag/{}", n % DOCUMENTS);
    let body = json!({ "path": path, "content": text(n), "upsert": true });
    let written = ask(&mut connection, &Request::post("/documents", body.to_string())).await;
    let since = Instant::now();
    loop {
        let read = Request::new("GET", &format!("/documents/{path}"));
        let document = ask(&mut connection, &read).await;
        assert!(document["revision"].as_i64() >= written["revision"].as_i64(), "{document}");
        match document["vector_status"].as_str() {
            Some("ready") => return since.elapsed(),
            Some("pending") => sleep(GLANCE).await,
            other => panic!("{other:?}"),
        }
    }
}

/// What the server itself says.
async fn told(lyceum: &Lyceum) -> f64 {
    let metrics = lyceum.call(&Request::new("GET", "/metrics")).await;
    let line =
        metrics.text().lines().find_map(|line| line.strip_prefix("vector_sync_lag_seconds "));
    line.expect("the metric is there").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_c6_ten_writes_a_second_wait_little_for_their_vectors() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut writes = JoinSet::new();
    let mut worst_told = 0.0_f64;
    for n in 0..WRITES {
        ticks.tick().await;
        writes.spawn(write(lyceum.address, n));
        if n % 10 == 9 {
            worst_told = worst_told.max(told(&lyceum).await);
        }
    }
    let mut lags = writes.join_all().await;
    lags.sort_unstable();
    let (p95, p99) = (lags[WRITES * 95 / 100], lags[WRITES * 99 / 100]);
    eprintln!("{WRITES} writes: p95 {p95:?}, p99 {p99:?}, the metric at most {worst_told} s");
    assert!(p95 < P95 && p99 < P99, "p95 {p95:?}, p99 {p99:?}");
    assert!(worst_told < P99.as_secs_f64(), "{worst_told}");
    assert!(told(&lyceum).await < 1.0, "nothing is left waiting");
}
