//! Mixed traffic while all periodic work is due every few seconds: no alarm, nothing in the log, and what the process
//! holds stays as it is.
//!
//! `LYCEUM_SOAK_SECONDS` makes it longer or shorter than three minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lyceum_testkit::{Connection, Request, Response};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::keys;
use crate::knowledge::{Client, JSON, SSE};
use crate::lyceum::{Lyceum, run};

const SECONDS: u64 = 180;
/// Documents that are written again and again, so that only the history grows.
const DOCUMENTS: usize = 500;
/// How long a revoked key's stream may go on. Revoking bites within a second; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a run shares.
struct Soak {
    lyceum: Lyceum,
    directory: TempDir,
    key: String,
    end: Instant,
}

/// What the process holds at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    memory_mib: f64,
    files: f64,
    threads: f64,
    tasks: f64,
}

fn seconds() -> u64 {
    let given = std::env::var("LYCEUM_SOAK_SECONDS").ok();
    given.map_or(SECONDS, |given| given.parse().expect("LYCEUM_SOAK_SECONDS is a number"))
}

/// Every interval there is a setting for, and one upstream of each kind.
fn configuration(directory: &Path, behind: &Lyceum) -> String {
    let program = env!("CARGO_BIN_EXE_lyceum");
    let (data, token) = (directory.join("stdio"), directory.join("token"));
    format!(
        r#"
[maintenance]
integrity_first_seconds = 2
integrity_seconds = 3
reindex_seconds = 4
relist_seconds = 3
idempotency_seconds = 5

[limits]
session_idle_seconds = 3
session_lifetime_seconds = 30
keep_alive_seconds = 2
connection_idle_seconds = 5

[stdio]
allowed_commands = [{program:?}]

[[endpoint]]
path = "/mcp"

[[endpoint]]
path = "/gpt/{{token}}/mcp"
token_file = {token:?}

[[upstream]]
name = "child"
command = [{program:?}, "stdio", "--log", "error", "--data", {data:?}]
max_lifetime = 20

[[upstream]]
name = "remote"
url = {:?}
max_lifetime = 15
"#,
        behind.url("/mcp")
    )
}

fn text(n: usize) -> String {
    let words = ["harbour", "lantern", "orchard", "granite", "voyage", "copper", "meadow"];
    let sentence = |m: usize| format!("{} {} {m}. ", words[(n + m) % 7], words[(n * m) % 7]);
    // Some texts are so long that they are indexed in pieces.
    let sentences = if n.is_multiple_of(401) { 20_000 } else { 20 + n % 60 };
    format!("# Write {n}\n\nmarker-{n}\n\n{}", (0..sentences).map(sentence).collect::<String>())
}

fn path(n: usize) -> String {
    format!("soak/{}/{}", n % 7, n % DOCUMENTS)
}

impl Soak {
    async fn client(&self) -> Client {
        Client::with_key(&self.lyceum, "/mcp", &self.key).await
    }

    fn goes_on(&self) -> bool {
        Instant::now() < self.end
    }

    /// Repeats a request until its answer has this status.
    async fn until_answered(&self, request: &Request, status: u16) {
        let patience = Instant::now() + PATIENCE;
        while self.lyceum.call(request).await.status() != status {
            assert!(Instant::now() < patience, "keys are followed within a second");
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn ask(&self, request: Request) -> Response {
        // A slow answer becomes a stream for those who take one.
        self.lyceum.call(&request.set("accept", JSON).header("x-api-key", &self.key)).await
    }
}

/// Twenty uploads a second, and what follows from them.
async fn documents(soak: Arc<Soak>) {
    let mut client = soak.client().await;
    let mut ticks = interval(Duration::from_millis(50));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut n = 0;
    while soak.goes_on() {
        ticks.tick().await;
        client.accept = if n % 2 == 0 { JSON } else { SSE };
        let mut upload = json!({ "path": path(n), "content": text(n), "upsert": true, "tags": ["soak", format!("t{}", n % 9)] });
        if n % 5 == 0 {
            upload["idempotency_key"] = json!(format!("soak-{n}"));
            client.ok("upload_document", upload.clone()).await;
        }
        client.ok("upload_document", upload).await;
        if n % 3 == 0 {
            let query = json!({ "query": format!("lantern {n} orchard"), "tags": ["soak"] });
            client.ok("search_knowledge", query).await;
        }
        if n % 4 == 0 {
            client.ok("get_document", json!({ "document_id": path(n), "outline": true })).await;
        }
        if n % 11 == 0 {
            let update =
                json!({ "path": path(n), "content": text(n + 1), "expected_revision": null });
            client.ok("update_document", update).await;
        } else if n % 13 == 0 {
            let patch =
                json!({ "path": path(n), "old_str": format!("marker-{n}"), "new_str": "patched" });
            client.ok("patch_document", patch).await;
        }
        if n % 17 == 0 {
            client.ok("list_documents", json!({ "prefix": "soak/", "limit": 50 })).await;
            client.ask("resources/list", json!({})).await;
        }
        if n % 19 == 0 {
            let ingest = json!({ "source": text(n), "path": format!("ingested/{}", n % 40) });
            client.ok("ingest_document", ingest).await;
        }
        if n % 23 == 0 {
            client.refused("delete_document", json!({ "path": "nothing" })).await;
        }
        if n % 7 == 0 {
            client.ok("delete_document", json!({ "path": path(n) })).await;
        }
        n += 1;
    }
    eprintln!("{n} uploads");
}

/// Legacy sessions: ended, abandoned, and with a stream of which the client leaves.
async fn sessions(soak: Arc<Soak>) {
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "soak", "version": "1" } });
    let mut n = 0;
    while soak.goes_on() {
        let opened = soak.ask(Request::legacy("/mcp", 1, "initialize", params.clone())).await;
        let session = opened.head.get("mcp-session-id").expect("a session").to_owned();
        let of_session = |request: Request| request.header("mcp-session-id", &session);
        let uri = json!({ "uri": format!("kb:///{}", path(n)) });
        let subscribed =
            soak.ask(of_session(Request::legacy("/mcp", 2, "resources/subscribe", uri))).await;
        assert_eq!(subscribed.status(), 200, "{}", subscribed.text());
        match n % 3 {
            0 => {
                let ended = soak.ask(of_session(Request::new("DELETE", "/mcp"))).await;
                assert!(ended.status() < 300, "{}", ended.text());
            }
            1 => {
                let stream = Request::new("GET", "/mcp").header("accept", SSE);
                let stream = of_session(stream).header("x-api-key", &soak.key);
                let (_, mut events) = soak.lyceum.connect().await.stream(&stream).await;
                let _ = timeout(Duration::from_millis(500), events.next()).await;
            }
            _ => {}
        }
        n += 1;
        sleep(Duration::from_millis(300)).await;
    }
}

/// A modern client that listens for a while, again and again.
async fn listeners(soak: Arc<Soak>) {
    while soak.goes_on() {
        let uris: Vec<String> = (0..20).map(|n| format!("kb:///{}", path(n))).collect();
        let wanted = json!({ "notifications": { "resourceSubscriptions": uris, "resourcesListChanged": true, "toolsListChanged": true } });
        let listen = Request::modern("/mcp", 9, "subscriptions/listen", wanted);
        let listen = listen.header("x-api-key", &soak.key);
        let (_, mut events) = soak.lyceum.connect().await.stream(&listen).await;
        let until = Instant::now() + Duration::from_secs(4);
        while Instant::now() < until {
            let _ = timeout(Duration::from_millis(500), events.next()).await;
        }
    }
}

/// Calls that go through the gateway.
async fn relayed(soak: Arc<Soak>) {
    let mut connection = Connection::open(soak.lyceum.address).await;
    let mut n = 0;
    while soak.goes_on() {
        let upstream = ["child", "remote"][n % 2];
        let (tool, arguments) = match n / 2 % 3 {
            0 => (
                "upload_document",
                json!({ "path": path(n % 50), "content": text(n), "upsert": true }),
            ),
            1 => ("list_documents", json!({ "limit": 5 })),
            _ => ("search_knowledge", json!({ "query": "granite voyage" })),
        };
        let params = json!({ "name": format!("{upstream}_{tool}"), "arguments": arguments });
        let call = Request::modern("/mcp", 1, "tools/call", params).header("x-api-key", &soak.key);
        let answer = connection.call(&call.set("accept", JSON)).await.json();
        assert!(answer["result"].is_object(), "{upstream} {tool}: {answer}");
        assert!(answer["result"]["isError"].is_null(), "{upstream} {tool}: {answer}");
        n += 1;
        sleep(Duration::from_millis(100)).await;
    }
}

/// Keys that are made, used and revoked by another process.
async fn revocations(soak: Arc<Soak>) {
    let data = soak.directory.path().join("data");
    let mut n = 0;
    while soak.goes_on() {
        let name = format!("guest-{n}");
        let key = keys::create(&data, &name).await;
        let list = Request::modern("/mcp", 1, "tools/list", json!({})).header("x-api-key", &key);
        soak.until_answered(&list, 200).await;
        let wanted = json!({ "notifications": { "toolsListChanged": true } });
        let listen = Request::modern("/mcp", 9, "subscriptions/listen", wanted);
        let listen = listen.header("x-api-key", &key);
        let (_, mut events) = soak.lyceum.connect().await.stream(&listen).await;
        let revoked = run(&["keys", "revoke", &name, "--data", data.to_str().unwrap()]).await;
        assert!(revoked.status.success(), "{}", String::from_utf8_lossy(&revoked.stderr));
        soak.until_answered(&list, 401).await;
        timeout(PATIENCE, events.rest()).await.expect("a revoked key's stream ends");
        n += 1;
        sleep(Duration::from_secs(2)).await;
    }
}

/// The configuration is written again, as it is.
async fn reloads(soak: Arc<Soak>) {
    let file = soak.directory.path().join("lyceum.toml");
    while soak.goes_on() {
        sleep(Duration::from_secs(7)).await;
        let staged = file.with_extension("new");
        fs::copy(&file, &staged).unwrap();
        fs::rename(&staged, &file).unwrap();
    }
}

/// Looks at `/health` and `/metrics` every second.
async fn watch(soak: Arc<Soak>) -> Vec<Held> {
    let mut held = Vec::new();
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while soak.goes_on() {
        ticks.tick().await;
        let health = soak.ask(Request::new("GET", "/health")).await;
        let told: Value = health.json();
        assert!(health.status() == 200 && told["integrity"]["status"] == "ok", "{told}");
        assert_eq!(told["status"], "ok", "{told}");
        let metrics = soak.ask(Request::new("GET", "/metrics")).await;
        let number = |name: &str| {
            let line = metrics.text().lines().find_map(|line| line.strip_prefix(name));
            let line = line.unwrap_or_else(|| panic!("no {name} in {}", metrics.text()));
            line.trim().parse::<f64>().unwrap()
        };
        held.push(Held {
            memory_mib: number("process_resident_memory_bytes ") / 1024.0 / 1024.0,
            files: number("process_open_fds "),
            threads: number("process_threads "),
            tasks: number("lyceum_tasks_alive "),
        });
        let panics = metrics.text().lines().filter(|line| {
            line.starts_with("lyceum_handler_panics_total") && !line.ends_with(" 0")
        });
        assert_eq!(panics.count(), 0);
    }
    held
}

/// Some work that measures nothing.
async fn held_nothing(work: impl Future<Output = ()>) -> Vec<Held> {
    work.await;
    Vec::new()
}

/// The middle of each number in some part of a run.
fn middle(held: &[Held]) -> Held {
    let of = |number: fn(&Held) -> f64| {
        let mut numbers: Vec<f64> = held.iter().map(number).collect();
        numbers.sort_by(f64::total_cmp);
        numbers[numbers.len() / 2]
    };
    Held {
        memory_mib: of(|held| held.memory_mib),
        files: of(|held| held.files),
        threads: of(|held| held.threads),
        tasks: of(|held| held.tasks),
    }
}

/// The end of a run compared with its middle: by then everything that fills up is full.
fn assert_flat(held: &[Held]) {
    assert!(held.len() >= 10, "{} looks", held.len());
    let part =
        |from: usize, to: usize| middle(&held[held.len() * from / 100..held.len() * to / 100]);
    let (before, after) = (part(40, 65), part(80, 100));
    eprintln!("before {before:?}\nafter  {after:?}");
    assert!(after.memory_mib < before.memory_mib * 1.2 + 32.0, "{before:?} {after:?}");
    assert!(after.files < before.files + 16.0, "{before:?} {after:?}");
    // Pools start threads when work comes together, and end them ten seconds later.
    assert!(after.threads < before.threads + 16.0, "{before:?} {after:?}");
    assert!(after.tasks < before.tasks * 1.25 + 16.0, "{before:?} {after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_soak_raises_no_alarm_and_holds_no_more_at_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| -> PathBuf { directory.path().join(name) };
    let behind = Lyceum::start(&at("behind"), &[]).await;
    let file = at("lyceum.toml");
    fs::write(&file, configuration(directory.path(), &behind)).unwrap();
    keys::secret(&at("token"), "a-token-for-the-path-0123456789");
    let data = at("data");
    let key = keys::create(&data, "soak").await;
    let flags = ["--config", file.to_str().unwrap()];
    let lyceum = Lyceum::start_logging("warn", &data, &flags, &at("log")).await;
    let end = Instant::now() + Duration::from_secs(seconds());
    let soak = Arc::new(Soak { lyceum, directory, key, end });
    let mut working = JoinSet::new();
    working.spawn(watch(Arc::clone(&soak)));
    working.spawn(held_nothing(documents(Arc::clone(&soak))));
    working.spawn(held_nothing(sessions(Arc::clone(&soak))));
    working.spawn(held_nothing(listeners(Arc::clone(&soak))));
    working.spawn(held_nothing(relayed(Arc::clone(&soak))));
    working.spawn(held_nothing(revocations(Arc::clone(&soak))));
    working.spawn(held_nothing(reloads(Arc::clone(&soak))));
    // The first that fails fails the test.
    let held = working.join_all().await.concat();
    let Ok(Soak { mut lyceum, directory, .. }) = Arc::try_unwrap(soak) else {
        panic!("all have ended");
    };
    lyceum.terminate().await;
    assert_eq!(lyceum.ended().await, Some(0));
    let log = fs::read_to_string(directory.path().join("log")).unwrap();
    assert_eq!(log, "", "nothing is worth a warning");
    let checked = run(&["check", "--data", data.to_str().unwrap()]).await;
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    assert_flat(&held);
}
