//! What cannot be used changes nothing, and the configuration changes again and again while calls
//! are made (reliability row G7).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lyceum_testkit::{Connection, Request};
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use super::{Setup, becomes, health, tools};
use crate::lyceum::Lyceum;

/// Configurations nobody can use, for one reason or another.
const BAD: [&str; 5] = [
    "[[upstream]]\nname = \"Bad\"\n",
    "[[upstream]\n",
    "[[upstream]]\nname = \"two\"\nurl = \"ftp://h\"\n",
    "[[upstream]]\nname = \"two\"\nurl = \"http://h\"\nnonsense = 1\n",
    "\u{0}\u{ff}",
];

/// Somebody who calls one tool all the time.
async fn caller(address: std::net::SocketAddr, modern: bool, done: Arc<AtomicBool>) -> usize {
    let mut connection = Connection::open(address).await;
    let call = json!({ "name": "one_greet", "arguments": {} });
    let mut n_calls = 0;
    while !done.load(Ordering::Relaxed) {
        let request = match modern {
            true => Request::modern("/mcp", n_calls, "tools/call", call.clone()),
            false => Request::legacy("/mcp", n_calls, "tools/call", call.clone()),
        };
        let answer = connection.call(&request).await.json();
        assert_eq!(answer["result"]["content"][0]["text"], "hello", "call {n_calls}: {answer}");
        n_calls += 1;
    }
    n_calls
}

/// A server that has its tool, and its log.
async fn start(setup: &Setup) -> (Lyceum, PathBuf) {
    let (log, [flag, file]) = (setup.path("log"), setup.flags());
    let lyceum = Lyceum::start_logging("info", &setup.path("data"), &[&flag, &file], &log).await;
    becomes(&lyceum, "one_greet", true).await;
    (lyceum, log)
}

/// How often the log says that a configuration was refused, or read.
fn said(log: &Path, what: &str) -> usize {
    std::fs::read_to_string(log).unwrap_or_default().matches(what).count()
}

async fn until(log: &Path, what: &str, times: usize) {
    let start = Instant::now();
    while said(log, what) < times {
        assert!(start.elapsed() < Duration::from_secs(10), "{what:?} was not said {times} times");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn configuration_with_a_lockfile_nobody_can_use_changes_nothing() {
    let setup = Setup::new();
    let endpoint = "[[endpoint]]\npath = \"/mcp\"\n";
    setup.configure_with(&format!("{endpoint}tools = [\"one_*\"]"), &["one"]);
    let (lyceum, log) = start(&setup).await;
    let lockfile = setup.path("other.lock");
    let wide = format!("lockfile = {lockfile:?}\n{endpoint}");
    std::fs::write(&lockfile, "no lock").unwrap();
    setup.configure_with(&wide, &["one", "two"]);
    until(&log, "the old one counts", 1).await;
    assert_eq!(said(&log, "cannot use the lockfile"), 1);
    assert_eq!(tools(&lyceum).await, ["one_greet"]);
    assert!(health(&lyceum).await["two"].is_null());
    // One that approves of nothing holds back what comes with it.
    let nothing = json!({ "tools": {}, "prompts": {} });
    let nothing = json!({ "version": 1, "upstreams": { "one": nothing, "two": nothing } });
    // It is read as soon as it can be used.
    std::fs::write(&lockfile, nothing.to_string()).unwrap();
    becomes(&lyceum, "search_knowledge", true).await;
    let start = Instant::now();
    while health(&lyceum).await["two"]["status"] != "up" {
        assert!(start.elapsed() < Duration::from_secs(10), "{}", health(&lyceum).await);
        sleep(Duration::from_millis(50)).await;
    }
    assert!(!tools(&lyceum).await.iter().any(|name| name.ends_with("_greet")));
}

#[tokio::test]
async fn a_signal_alone_has_the_configuration_read_again() {
    let setup = Setup::new();
    setup.configure(&["one"]);
    let (lyceum, log) = start(&setup).await;
    for n in 1..3 {
        assert_eq!(said(&log, "was read again"), n - 1);
        lyceum.hang_up().await;
        until(&log, "was read again", n).await;
    }
    assert!(tools(&lyceum).await.iter().any(|name| name == "one_greet"));
}

#[tokio::test]
async fn release_a_hundred_reloads_cost_no_call() {
    const RELOADS: usize = if cfg!(debug_assertions) { 20 } else { 100 };
    let setup = Setup::new();
    setup.configure(&["one"]);
    let (lyceum, log) = start(&setup).await;
    let done = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = [true, false, true, false]
        .map(|modern| tokio::spawn(caller(lyceum.address, modern, Arc::clone(&done))))
        .into_iter()
        .collect();
    let (n_refused, n_read) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut shown = vec!["one"];
    for round in 0..RELOADS {
        let is_bad = round % 2 == 0;
        if is_bad {
            setup.write(BAD[round / 2 % BAD.len()]);
        } else {
            shown = if round % 4 == 1 { vec!["one", "two"] } else { vec!["one"] };
            setup.configure(&shown);
        }
        lyceum.hang_up().await;
        match is_bad {
            true => {
                until(&log, "the old one counts", n_refused.fetch_add(1, Ordering::Relaxed) + 1)
                    .await
            }
            false => {
                until(&log, "was read again", n_read.fetch_add(1, Ordering::Relaxed) + 1).await
            }
        }
        // What was there before a bad one is there after it.
        becomes(&lyceum, "two_greet", shown.contains(&"two")).await;
        assert!(tools(&lyceum).await.iter().any(|name| name == "one_greet"), "round {round}");
    }
    done.store(true, Ordering::Relaxed);
    let mut n_calls = 0;
    for caller in callers {
        n_calls += caller.await.unwrap();
    }
    assert!(n_calls > RELOADS, "{n_calls} calls were made meanwhile");
}
