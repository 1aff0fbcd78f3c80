//! Upstreams that stop answering are left alone for a while, and tried again by one call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lyceum_gateway::{Share, Status, Target, UpstreamConfig};
use lyceum_http::client::{CallOptions, Peer};
use lyceum_testkit::Server as Running;
use lyceum_wire::{Message, Revision, RevisionSet, RpcError, encode};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::house::{House, Way, fixture_upstream};
use crate::mirror::{Mirror, Reply, plain};

const CAPABLE: &str = r#"{"elicitation":{}}"#;

async fn call(peer: &Peer, params: Value) -> Value {
    let options = CallOptions::new().capabilities(CAPABLE).hand_back_input_requests();
    let result = peer.call_with("tools/call", params.to_string(), &options).await.unwrap();
    serde_json::from_slice(&result).unwrap()
}

fn status(house: &House) -> Status {
    house.gateway.health()[0].1.status
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_were_held_count_like_all_others() {
    let (config, _running) = fixture_upstream(Way::Http, RevisionSet::LEGACY).await;
    let config = UpstreamConfig { call_timeout: Duration::from_millis(300), ..config };
    let house = House::with(vec![config], None).await;
    let peer = house.client_with(Revision::V2026_07_28, (), CAPABLE).await;
    let mut states = Vec::new();
    for _ in 0..3 {
        let asked = call(&peer, json!({"name": "up_ask_and_wait"})).await;
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        states.push(asked["requestState"].clone());
    }
    let answers = json!({"elicitation-1": {"action": "accept", "content": {"name": "Ada"}}});
    for state in states {
        assert_eq!(status(&house), Status::Up);
        let retry =
            json!({"name": "up_ask_and_wait", "requestState": state, "inputResponses": answers});
        let ended = call(&peer, retry).await;
        let told = ended["content"][0]["text"].as_str().unwrap_or_default();
        assert!(told.contains("did not answer within"), "{ended}");
    }
    assert_eq!(status(&house), Status::Failing);
}

/// An upstream with a prompt and without completions that leaves the first calls unanswered.
async fn forgetful(unanswered: usize) -> (Running, UpstreamConfig) {
    let calls = Arc::new(AtomicUsize::new(0));
    let running = Running::start(|listener, _| async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&calls), unanswered));
        }
    })
    .await;
    let target = Target::Http(format!("http://{}/mcp", running.address()));
    let call_timeout = Duration::from_millis(300);
    (running, UpstreamConfig { call_timeout, ..UpstreamConfig::new("up", target) })
}

async fn serve(mut stream: TcpStream, calls: Arc<AtomicUsize>, unanswered: usize) {
    while let Some(body) = crate::mirror::body(&mut stream).await {
        let Ok(Message::Request(request)) = Message::parse(&body) else {
            let _ = stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
            continue;
        };
        let result = match request.method.as_str() {
            "initialize" => {
                r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"f","version":"1"}}"#
            }
            "tools/list" => r#"{"tools":[{"name":"act","inputSchema":{"type":"object"}}]}"#,
            "prompts/list" => r#"{"prompts":[{"name":"p"}]}"#,
            "tools/call" if calls.fetch_add(1, Ordering::SeqCst) < unanswered => {
                std::future::pending::<()>().await;
                return;
            }
            "tools/call" => r#"{"content":[{"type":"text","text":"done"}]}"#,
            _ => "",
        };
        let answer = match result {
            "" => encode::error(Some(&request.id), &RpcError::method_not_found("it")),
            result => encode::result(&request.id, result.as_bytes()),
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        let _ = stream.write_all(&[head.as_bytes(), &answer].concat()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_for_completions_does_not_use_up_the_one_call_that_may_try() {
    let (_running, config) = forgetful(3).await;
    let house = House::with(vec![config], None).await;
    let peer = house.client_with(Revision::V2026_07_28, (), CAPABLE).await;
    let before = house.gateway.health()[0].1.since;
    // Seconds are counted.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    for _ in 0..3 {
        let ended = call(&peer, json!({"name": "up_act"})).await;
        assert_eq!(ended["isError"], true, "{ended}");
    }
    assert_eq!(status(&house), Status::Failing);
    let health = house.gateway.health().remove(0).1;
    assert!(health.since > before, "{health:?}");
    assert!(health.last_error.is_some_and(|why| why.contains("silent")), "it says why");
    let refused = call(&peer, json!({"name": "up_act"})).await;
    let told = refused["content"][0]["text"].as_str().unwrap_or_default();
    assert!(told.contains("failed several calls in a row"), "{refused}");
    while status(&house) == Status::Failing {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let params = json!({
        "ref": {"type": "ref/prompt", "name": "up_p"}, "argument": {"name": "a", "value": "b"},
    });
    let completed = peer.call("completion/complete", params.to_string()).await.unwrap();
    let completed: Value = serde_json::from_slice(&completed).unwrap();
    assert_eq!(completed["completion"]["values"], json!([]), "{completed}");
    let ended = call(&peer, json!({"name": "up_act"})).await;
    assert_eq!(ended["content"][0]["text"], "done", "{ended}");
}

/// Calls until the upstream is left alone; how often it was called.
async fn failures(config: UpstreamConfig) -> usize {
    let house = House::with(vec![config], None).await;
    let peer = house.client_with(Revision::V2026_07_28, (), CAPABLE).await;
    for n in 0..200 {
        let ended = call(&peer, json!({"name": "up_mirror"})).await;
        assert_eq!(ended["isError"], true, "{ended}");
        let told = ended["content"][0]["text"].as_str().unwrap_or_default();
        if told.contains("failed several calls in a row") {
            assert_eq!(status(&house), Status::Failing);
            return n;
        }
        // A call that breaks is looked into before the next one counts.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it is called and called: {:?}", house.gateway.health());
}

/// An answer with this status and a JSON-RPC error.
fn with_error(status: u16, code: i32, message: &str) -> String {
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    let error = error.to_string();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{error}",
        error.len()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn who_answers_in_the_place_of_an_upstream_is_quoted_and_who_forbids_has_answered() {
    let n_calls = AtomicUsize::new(0);
    let upstream = Mirror::answering(move |request| match request.method.as_str() {
        "tools/call" if n_calls.fetch_add(1, Ordering::SeqCst) > 0 => {
            Reply::Bytes(with_error(403, -32001, "not you").into_bytes())
        }
        "tools/call" => Reply::Bytes(with_error(503, -32000, "nobody home").into_bytes()),
        "ping" => Reply::Result("{}".to_owned()),
        method => plain(method),
    })
    .await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let peer = house.client_with(Revision::V2026_07_28, (), CAPABLE).await;
    let ended = call(&peer, json!({"name": "up_mirror"})).await;
    let told = ended["content"][0]["text"].as_str().unwrap_or_default();
    assert_eq!(told, "up: the server answered HTTP 503 Service Unavailable: nobody home");
    for _ in 0..5 {
        let params = json!({"name": "up_mirror"});
        let refused = peer.call("tools/call", params.to_string()).await.unwrap_err();
        let error = refused.rpc().unwrap_or_else(|| panic!("{refused}"));
        assert_eq!((error.code.0, &*error.message), (-32001, "not you"));
    }
    assert_eq!(status(&house), Status::Up);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_only_answers_pings_is_left_alone() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
    let foreign = r#"{"jsonrpc":"2.0","id":"of another","result":{}}"#;
    for (name, answer) in [
        ("protocol", format!("{head}{}\r\n\r\n{foreign}", foreign.len())),
        ("garbage", "\u{0} this is no HTTP\r\n\r\n".to_owned()),
        ("hang-up", String::new()),
        ("gateway", "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n".to_owned()),
        ("proxy", with_error(504, -32000, "nobody home")),
    ] {
        let upstream = Mirror::answering(move |request| match request.method.as_str() {
            "tools/call" => Reply::Bytes(answer.clone().into_bytes()),
            "ping" => Reply::Result("{}".to_owned()),
            method => plain(method),
        })
        .await;
        let n_failures = failures(upstream.config("up")).await;
        assert!(n_failures >= 3, "{name}: {n_failures}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_break_together_are_one_failure() {
    let (config, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
    let house = House::with(vec![config], None).await;
    let peer = house.client_with(Revision::V2026_07_28, (), CAPABLE).await;
    let waiting = (0..5).map(|_| {
        let peer = peer.clone();
        tokio::spawn(async move { call(&peer, json!({"name": "up_wait"})).await })
    });
    let waiting: Vec<_> = waiting.collect();
    crate::house::counts(&peer, "5 waiting, 0 cancelled", "").await;
    call(&peer, json!({"name": "up_crash"})).await;
    for call in waiting {
        assert_eq!(call.await.unwrap()["isError"], true);
    }
    let echo = json!({"name": "up_echo", "arguments": {"text": "a"}});
    for _ in 0..1000 {
        let answered = call(&peer, echo.clone()).await;
        let told = answered["content"][0]["text"].as_str().unwrap_or_default();
        assert!(!told.contains("failed several calls in a row"), "{answered}");
        if told == "a" {
            return house.gateway.close().await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it is not started again: {:?}", house.gateway.health());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_hangs_is_left_alone_by_its_own_session_only() {
    let (config, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
    let call_timeout = Duration::from_millis(300);
    let config = UpstreamConfig { share: Share::PerSession, call_timeout, ..config };
    let house = House::with(vec![config], None).await;
    let (hangs, _) = house.client(Revision::V2025_06_18).await;
    let (works, _) = house.client(Revision::V2025_06_18).await;
    for _ in 0..3 {
        let ended = call(&hangs, json!({"name": "up_wait"})).await;
        assert_eq!(ended["isError"], true, "{ended}");
    }
    let echo = json!({"name": "up_echo", "arguments": {"text": "a"}});
    let refused = call(&hangs, echo.clone()).await;
    let told = refused["content"][0]["text"].as_str().unwrap_or_default();
    assert!(told.contains("failed several calls in a row"), "{refused}");
    assert_eq!(call(&works, echo.clone()).await["content"][0]["text"], "a");
    assert_eq!(status(&house), Status::Up);
    let start = tokio::time::Instant::now();
    while call(&hangs, echo.clone()).await["content"][0]["text"] != "a" {
        assert!(start.elapsed() < Duration::from_secs(20), "it is tried again after a while");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    house.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_crashes_with_every_call_is_not_started_for_ever() {
    let (config, _) = fixture_upstream(Way::Stdio, RevisionSet::LEGACY).await;
    let config = UpstreamConfig { share: Share::PerSession, ..config };
    let house = House::with(vec![config], None).await;
    let (peer, _) = house.client(Revision::V2025_06_18).await;
    for n in 0..3 {
        let ended = call(&peer, json!({"name": "up_crash"})).await;
        assert_eq!(ended["isError"], true, "{n}: {ended}");
    }
    let refused = call(&peer, json!({"name": "up_crash"})).await;
    let told = refused["content"][0]["text"].as_str().unwrap_or_default();
    assert!(told.contains("failed several calls in a row"), "{refused}");
    house.gateway.close().await;
}
