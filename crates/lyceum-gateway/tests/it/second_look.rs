//! What failed once is tried again: lists, subscriptions, credentials; and nobody is cut off on the way.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use lyceum_gateway::oauth::OAuthConfig;
use lyceum_gateway::{HeaderSource, Status, UpstreamConfig};
use lyceum_http::client::{CallOptions, ClientHandler, ServerRequest};
use lyceum_wire::{Revision, RevisionSet, RpcError};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::census::{child_numbers, children};
use crate::healing::{modern, outcome, status};
use crate::house::{House, Way, counts, fixture_upstream, text, until};
use crate::mirror::{Mirror, Reply, plain};

const PATIENCE: Duration = Duration::from_secs(30);
/// The greeting of a server that says it has prompts.
const WITH_PROMPTS: &str = r#"{"protocolVersion":"2025-03-26","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"m","version":"1"}}"#;
const FORBIDDEN: &[u8] = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";
const UNAUTHORIZED: &[u8] = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";

/// A file for its owner only, which is there whole or not at all.
fn write_secret(path: &Path, text: &str) {
    let draft = tempfile::NamedTempFile::new_in(path.parent().unwrap()).unwrap();
    std::fs::write(draft.path(), text).unwrap();
    draft.persist(path).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_was_refused_is_asked_for_again_unless_there_is_none() {
    for (code, is_asked_again) in [(-32603, true), (-32601, false)] {
        let n_asked = AtomicUsize::new(0);
        let upstream = Mirror::answering(move |request| match request.method.as_str() {
            "tools/list" if n_asked.fetch_add(1, Ordering::SeqCst) < 2 => Reply::Error(code),
            "ping" => Reply::Result("{}".to_owned()),
            method => plain(method),
        })
        .await;
        let house = House::with(vec![upstream.config("up")], None).await;
        if is_asked_again {
            until("it has no tools", || house.gateway.health()[0].1.tools == 1).await;
        } else {
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert_eq!(upstream.n_seen("tools/list"), 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_that_was_refused_is_asked_for_again_and_holds_up_no_other() {
    let upstream = Mirror::answering(move |request| match request.method.as_str() {
        "initialize" => Reply::Result(
            r#"{"protocolVersion":"2025-03-26","capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"m","version":"1"}}"#
                .to_owned(),
        ),
        "resources/list" => {
            Reply::Result(r#"{"resources":[{"uri":"a:1","name":"a"},{"uri":"a:2","name":"b"}]}"#.to_owned())
        }
        "resources/subscribe" => match request.params.raw() {
            Some(raw) if raw.ends_with(br#""a:1"}"#) => Reply::Error(-32603),
            _ => Reply::Result("{}".to_owned()),
        },
        "ping" => Reply::Result("{}".to_owned()),
        method => plain(method),
    })
    .await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let peer = modern(&house).await;
    let asked = |uri: &str| {
        let bodies = upstream.bodies("resources/subscribe");
        bodies.iter().filter(|body| body.contains(uri)).count()
    };
    let _one = peer.listen(r#"{"resourceSubscriptions":["up+a:1"]}"#).await.unwrap();
    until("it is not asked again", || asked("a:1") >= 3).await;
    let _other = peer.listen(r#"{"resourceSubscriptions":["up+a:2"]}"#).await.unwrap();
    until("it is not asked for the other", || asked("a:2") == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_turned_away_comes_back_with_what_the_file_says_now() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    write_secret(&path, "one");
    let is_other = Arc::new(AtomicBool::new(false));
    let locked = Arc::clone(&is_other);
    let upstream = Mirror::answering(move |request| match request.method.as_str() {
        "initialize" => {
            locked.store(false, Ordering::SeqCst);
            plain("initialize")
        }
        "tools/call" if locked.load(Ordering::SeqCst) => Reply::Bytes(UNAUTHORIZED.to_vec()),
        "ping" => Reply::Result("{}".to_owned()),
        method => plain(method),
    })
    .await;
    let headers = vec![("x-key".to_owned(), HeaderSource::File(path.clone()))];
    let house = House::with(vec![UpstreamConfig { headers, ..upstream.config("up") }], None).await;
    let peer = modern(&house).await;
    assert!(!outcome(&peer, "up_mirror").await.0);
    write_secret(&path, "two");
    is_other.store(true, Ordering::SeqCst);
    let start = Instant::now();
    while outcome(&peer, "up_mirror").await.0 {
        assert!(start.elapsed() < PATIENCE, "{:?}", house.gateway.health());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    until("the old key is used", || upstream.last().contains("x-key: two")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_always_turned_away_does_not_come_back_each_time() {
    let upstream = Mirror::answering(|request| match request.method.as_str() {
        "tools/call" => Reply::Bytes(UNAUTHORIZED.to_vec()),
        "ping" => Reply::Result("{}".to_owned()),
        method => plain(method),
    })
    .await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let peer = modern(&house).await;
    for _ in 0..200 {
        assert!(outcome(&peer, "up_mirror").await.0);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let n_connections = upstream.n_seen("initialize");
    assert!((2..20).contains(&n_connections), "{n_connections} connections");
    assert_eq!(upstream.n_seen("tools/call"), 200, "it is there, and says so");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_appears_later_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secret");
    let upstream = Mirror::start().await;
    let oauth = OAuthConfig {
        client_id: Some("lyceum".to_owned()),
        client_secret: Some(HeaderSource::File(path.clone())),
        ..OAuthConfig::default()
    };
    let config = UpstreamConfig { oauth: Some(oauth), ..upstream.config("up") };
    let house = House::unsettled(vec![config]).await;
    status(&house, "up", Status::Down).await;
    write_secret(&path, "hush");
    status(&house, "up", Status::Up).await;
}

/// Answers when it may.
#[derive(Debug)]
struct Hesitant(watch::Receiver<bool>);

impl ClientHandler for Hesitant {
    async fn request(&self, _: ServerRequest) -> Result<Bytes, RpcError> {
        self.0.clone().wait_for(|may| *may).await.unwrap();
        Ok(json!({"action": "accept", "content": {"name": "Ada"}}).to_string().into())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_under_way_outlive_the_connection_that_grew_too_old() {
    let (config, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
    let config = UpstreamConfig { max_lifetime: Some(Duration::from_secs(3)), ..config };
    let house = House::with(vec![config], None).await;
    let (may, answer) = watch::channel(false);
    let capabilities = r#"{"elicitation":{}}"#;
    let peer = house.client_with(Revision::V2025_11_25, Hesitant(answer), capabilities).await;
    let asking = tokio::spawn({
        let peer = peer.clone();
        async move { text(&peer, "up_ask", json!({})).await }
    });
    until("there is no other process", || children() == 2).await;
    // The other one is idle, and gives way to a third.
    let processes = child_numbers();
    until("the other does not grow old", || children() == 2 && child_numbers() != processes).await;
    assert_eq!(text(&peer, "up_echo", json!({"text": "a"})).await.unwrap(), "a");
    may.send_replace(true);
    assert_eq!(asking.await.unwrap().unwrap(), "Hello, Ada!");
    until("the old process stays", || children() == 1).await;
    house.gateway.close().await;
    assert_eq!(children(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_under_way_on_a_replaced_connection_outlive_a_change_of_settings() {
    let (config, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
    let max_lifetime = Some(Duration::from_secs(3));
    let house = House::with(vec![UpstreamConfig { max_lifetime, ..config.clone() }], None).await;
    let (may, answer) = watch::channel(false);
    let capabilities = r#"{"elicitation":{}}"#;
    let peer = house.client_with(Revision::V2025_11_25, Hesitant(answer), capabilities).await;
    let asking = tokio::spawn({
        let peer = peer.clone();
        async move { text(&peer, "up_ask", json!({})).await }
    });
    // Which is when the handler has a receiver for its answer; on one stream, a question that comes
    // later could be taken for another call's.
    until("it was not asked", || may.receiver_count() == 2).await;
    let waiting = tokio::spawn({
        let peer = peer.clone();
        async move { text(&peer, "up_wait", json!({})).await }
    });
    counts(&peer, "1 waiting, 0 cancelled", "the old one").await;
    until("there is no other process", || children() == 2).await;
    counts(&peer, "0 waiting, 0 cancelled", "the other one").await;
    let before = child_numbers();
    house.gateway.configure(vec![config]);
    until("no process is started", || !child_numbers().is_subset(&before)).await;
    // What nobody waits for is closed by then.
    tokio::time::sleep(Duration::from_secs(2)).await;
    may.send_replace(true);
    assert_eq!(asking.await.unwrap().unwrap(), "Hello, Ada!");
    waiting.abort();
    until("an old process stays", || child_numbers().is_disjoint(&before)).await;
    house.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_knows_no_ping_is_asked_for_its_tools() {
    for code in [-32601, -32600, -32000, -32603] {
        let upstream = Mirror::answering(move |request| match request.method.as_str() {
            "tools/call" => Reply::Error(-32602),
            "ping" => Reply::Error(code),
            method => plain(method),
        })
        .await;
        let house = House::with(vec![upstream.config("up")], None).await;
        let peer = modern(&house).await;
        peer.call_tool("up_mirror", "{}", &CallOptions::new()).await.unwrap_err();
        until("nobody has looked", || upstream.n_seen("tools/list") == 2).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let n_seen = ["initialize", "ping"].map(|method| upstream.n_seen(method));
        assert_eq!(n_seen, [1, 1], "{code}");
        assert_eq!(house.gateway.health()[0].1.status, Status::Up, "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_forbidden_changes_nothing_for_others() {
    let upstream = Mirror::answering(|request| match request.method.as_str() {
        "tools/call" => Reply::Bytes(FORBIDDEN.to_vec()),
        "ping" => Reply::Result("{}".to_owned()),
        method => plain(method),
    })
    .await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let peer = modern(&house).await;
    assert!(outcome(&peer, "up_mirror").await.0);
    until("nobody has looked whether it is more than the call", || upstream.n_seen("ping") == 1)
        .await;
    for _ in 0..50 {
        assert!(outcome(&peer, "up_mirror").await.0);
    }
    assert_eq!(upstream.n_seen("initialize"), 1);
    assert_eq!(house.gateway.health()[0].1.status, Status::Up);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_refuses_a_call_and_is_busy_then_is_not_given_up() {
    let upstream = Mirror::answering(|request| match request.method.as_str() {
        "tools/call" => Reply::Error(-32602),
        "ping" => Reply::Endless(String::new(), Vec::new()),
        method => plain(method),
    })
    .await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let peer = modern(&house).await;
    peer.call_tool("up_mirror", "{}", &CallOptions::new()).await.unwrap_err();
    until("nobody has looked", || upstream.n_seen("ping") == 1).await;
    // Longer than it is waited for.
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(upstream.n_seen("initialize"), 1);
    assert_eq!(house.gateway.health()[0].1.status, Status::Up);
}

/// Makes time pass for whoever waits, and lets whoever is late catch up.
async fn minutes_later(n_minutes: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(60 * n_minutes)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn what_an_upstream_does_not_tell_is_found_out_now_and_then() {
    let name = Arc::new(std::sync::Mutex::new("old"));
    let named = Arc::clone(&name);
    let upstream = Mirror::answering(move |request| match request.method.as_str() {
        "initialize" => Reply::Result(WITH_PROMPTS.to_owned()),
        "tools/list" => {
            let name = *named.lock().unwrap();
            let tool = json!({"name": name, "inputSchema": {"type": "object"}});
            Reply::Result(json!({"tools": [tool]}).to_string())
        }
        "ping" => Reply::Result("{}".to_owned()),
        method => plain(method),
    })
    .await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let peer = modern(&house).await;
    let shown = async || peer.list_tools().await.unwrap().remove(0).name;
    assert_eq!(shown().await, "up_old");
    *name.lock().unwrap() = "new";
    minutes_later(4).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(shown().await, "up_old", "not all the time");
    minutes_later(2).await;
    let start = Instant::now();
    while shown().await != "up_new" {
        assert!(start.elapsed() < PATIENCE, "{} lists", upstream.n_seen("tools/list"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(upstream.n_seen("prompts/list"), 1, "it said that there are none");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_hangs_holds_up_no_other_for_long() {
    let upstream = Mirror::answering(move |request| match request.method.as_str() {
        "initialize" => Reply::Result(WITH_PROMPTS.to_owned()),
        "prompts/list" => Reply::Slow("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"),
        "ping" => Reply::Result("{}".to_owned()),
        method => plain(method),
    })
    .await;
    let start = Instant::now();
    let house = House::with(vec![upstream.config("up")], None).await;
    status(&house, "up", Status::Up).await;
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    assert!(!outcome(&modern(&house).await, "up_mirror").await.0);
}
