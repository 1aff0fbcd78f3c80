//! The production gate's stress: all tools at once by five and by ten clients. No call fails, no answer is cut short, and
//! the server does not grow.

use lyceum_testkit::Request;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

use crate::knowledge::{Client, JSON, PROFILES, REVISIONS, SSE};
use crate::lyceum::Lyceum;

const TIME: Duration = Duration::from_secs(30);
/// Documents all clients read and write.
const SHARED: usize = 100;
/// What the server may grow by, in MiB. Its five connections to the store keep 16 MiB of pages each, which a minute of
/// writes fills; after that it stays as it is. A kilobyte lost in each of the calls would be more than is left.
const GROWTH: u64 = 112;

/// A document's text; the length differs from document to document.
fn text(n: usize) -> String {
    format!("# Document {n}\n\n{}", format!("harbour lantern {n} orchard. ").repeat(5 + n % 90))
}

/// One client's next call: mostly reading, as agents do. Writes go to documents of its own.
fn call(client: usize, n: usize) -> (&'static str, Value) {
    let shared = format!("shared/{}", (n * 7 + client) % SHARED);
    let own = format!("own/{client}/{}", n / 20 % 10);
    match n % 20 {
        0 => ("upload_document", json!({ "path": own, "content": text(n), "upsert": true })),
        1 => ("get_document_for_rewrite", json!({ "path": own })),
        2 => ("update_document", json!({ "path": own, "content": format!("{} old", text(n)) })),
        3 => ("patch_document", json!({ "path": own, "old_str": " old", "new_str": " new" })),
        4 => ("ingest_document", json!({ "source": text(n), "path": format!("{own}/in") })),
        5 => ("delete_document", json!({ "path": format!("{own}/in") })),
        6..10 => ("search_knowledge", json!({ "query": format!("lantern {n}"), "limit": 5 })),
        10..13 => ("list_documents", json!({ "prefix": "shared/", "limit": 50, "offset": n % 60 })),
        13..15 => {
            ("batch_read", json!({ "paths": [shared, "shared/1", "shared/2"], "full": true }))
        }
        _ => ("get_document", json!({ "document_id": shared })),
    }
}

/// Calls until `end`; the first call that fails fails the test. How many there were.
async fn work(mut client: Client, number: usize, end: Instant) -> usize {
    let mut n = 0;
    // Rounds are finished, so that what is written is deleted again.
    while n % 20 != 0 || Instant::now() < end {
        let (tool, arguments) = call(number, n);
        client.accept = if n % 2 == 0 { JSON } else { SSE };
        client.ok(tool, arguments).await;
        n += 1;
    }
    n
}

/// `n` clients for a while, all profiles that can write, all revisions; how many calls they made.
async fn stress(lyceum: &Lyceum, n: usize, time: Duration) -> usize {
    let end = Instant::now() + time;
    let mut working = JoinSet::new();
    for number in 0..n {
        let profile = [PROFILES[0], PROFILES[3]][number % 2];
        let mut client = Client::of(lyceum, profile).await;
        client.revision = REVISIONS[number % REVISIONS.len()];
        working.spawn(work(client, number, end));
    }
    working.join_all().await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_mixed_calls_of_five_and_ten_clients_all_succeed() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let mut first = Client::of(&lyceum, "/mcp").await;
    for n in 0..SHARED {
        let document = json!({ "path": format!("shared/{n}"), "content": text(n) });
        first.ok("upload_document", document).await;
    }
    // Ten clients at once first, so that what grows with clients has grown.
    stress(&lyceum, 10, TIME / 6).await;
    let before = lyceum.resident_mib();
    for n in [5, 10] {
        let calls = stress(&lyceum, n, TIME).await;
        eprintln!("{n} clients: {calls} calls, {} MiB (before {before})", lyceum.resident_mib());
        assert!(calls > 1000, "{calls} calls");
    }
    let after = lyceum.resident_mib();
    assert!(after < before + GROWTH, "{before} MiB before, {after} after");
    let metrics = lyceum.call(&Request::new("GET", "/metrics")).await;
    let panics = metrics
        .text()
        .lines()
        .filter(|line| line.starts_with("lyceum_handler_panics_total") && !line.ends_with(" 0"));
    assert_eq!(panics.count(), 0, "{}", metrics.text());
}
