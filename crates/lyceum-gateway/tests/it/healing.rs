//! Upstreams that crash, hang, lie, vanish and come back: only their own tools suffer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lyceum_gateway::{Status, Target, UpstreamConfig};
use lyceum_http::client::{CallOptions, Peer};
use lyceum_server::{Call, NoArguments, tool};
use lyceum_testkit::Server as Running;
use lyceum_wire::{Message, Revision, RevisionSet, encode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::fixture;
use crate::house::{House, Way, fixture_upstream, serve_on, text};
use crate::mirror::{Mirror, Reply, plain};

pub(crate) async fn modern(house: &House) -> Peer {
    house.client_with(Revision::V2026_07_28, (), "{}").await
}

/// Calls a tool and says whether it failed, and with what words.
pub(crate) async fn outcome(peer: &Peer, tool: &str) -> (bool, String) {
    let result = peer.call_tool(tool, r#"{"text":"x"}"#, &CallOptions::new()).await.unwrap();
    let result: Value = serde_json::from_slice(&result).unwrap();
    let said = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    (result["isError"] == true, said)
}

async fn stop(running: Option<Running>) {
    let mut running = running.unwrap();
    running.begin_stop();
    running.stopped().await;
}

pub(crate) async fn status(house: &House, upstream: &str, expected: Status) {
    for _ in 0..1000 {
        let health = house.gateway.health();
        if health.iter().any(|(name, health)| name == upstream && health.status == expected) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{upstream} is not {expected:?}: {:?}", house.gateway.health());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_crashes_is_started_again() {
    for served in [RevisionSet::LEGACY, RevisionSet::MODERN] {
        let house = House::new(Way::Stdio, served).await;
        let peer = modern(&house).await;
        let (failed, said) = outcome(&peer, "up_crash").await;
        assert!(failed, "{said}");
        // The next call waits for the new process, or is made again once it is there.
        let mut answered = false;
        for _ in 0..50 {
            let (failed, said) = outcome(&peer, "up_echo").await;
            answered = !failed && said == "x";
            if answered {
                break;
            }
            assert!(said.contains("up"), "{said}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(answered, "{:?}", house.gateway.health());
        let (_, health) = &house.gateway.health()[0];
        let error = health.last_error.clone().unwrap_or_default();
        assert!(error.contains("exit status: 3"), "{error}");
        house.gateway.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_is_found_again() {
    for served in [RevisionSet::LEGACY, RevisionSet::MODERN] {
        let (config, running) = fixture_upstream(Way::Http, served).await;
        let address = running.as_ref().map(Running::address).unwrap();
        let house = House::with(vec![config], None).await;
        let peer = modern(&house).await;
        assert_eq!(text(&peer, "up_echo", json!({"text": "a"})).await.unwrap(), "a");
        stop(running).await;
        let mut down = (false, String::new());
        for _ in 0..100 {
            down = outcome(&peer, "up_echo").await;
            if down.1.contains("it is tried again in") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(down.0 && down.1.contains("up cannot be reached"), "{down:?}");
        let read = peer.call("resources/read", r#"{"uri":"up+fixture://text"}"#).await.unwrap_err();
        let told = read.rpc().unwrap_or_else(|| panic!("{read}"));
        assert_eq!(told.code.0, -32603, "only tools tell the model");
        assert!(told.message.contains("up cannot be reached"), "{told:?}");
        // What it offered is still shown: it may be back any moment.
        assert!(peer.list_tools().await.unwrap().iter().any(|tool| tool.name == "up_echo"));
        let listener = TcpListener::bind(address).await.unwrap();
        let _again = tokio::spawn(serve_on(
            listener,
            fixture::server(),
            served,
            Box::pin(std::future::pending()),
        ));
        status(&house, "up", Status::Up).await;
        assert_eq!(text(&peer, "up_echo", json!({"text": "b"})).await.unwrap(), "b");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_the_upstream_forgot_is_opened_again() {
    let (config, running) = fixture_upstream(Way::Http, RevisionSet::LEGACY).await;
    let address = running.as_ref().map(Running::address).unwrap();
    let house = House::with(vec![config], None).await;
    let peer = modern(&house).await;
    assert_eq!(text(&peer, "up_echo", json!({"text": "a"})).await.unwrap(), "a");
    stop(running).await;
    // Another key, so the old session id opens nothing; and another tool.
    let listener = TcpListener::bind(address).await.unwrap();
    let server = fixture::server();
    server.add_tool(tool("later", "New.", |_: Call, _: NoArguments| async { Ok("") }));
    let _again = tokio::spawn(serve_on(
        listener,
        server,
        RevisionSet::LEGACY,
        Box::pin(std::future::pending()),
    ));
    let mut said = String::new();
    for _ in 0..100 {
        let (failed, text) = outcome(&peer, "up_echo").await;
        said = text;
        if !failed {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(said, "x");
    let start = Instant::now();
    while !peer.list_tools().await.unwrap().iter().any(|tool| tool.name == "up_later") {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", house.gateway.health());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// An upstream that counts the calls of each tool and hangs up instead of answering the first.
pub(crate) async fn cutter() -> (Running, UpstreamConfig, Arc<[AtomicUsize; 2]>) {
    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let counted = Arc::clone(&counts);
    let running = Running::start(|listener, _| async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                while let Some(body) = crate::mirror::body(&mut stream).await {
                    let Ok(Message::Request(request)) = Message::parse(&body) else {
                        let _ = stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
                        continue;
                    };
                    let result = match request.method.as_str() {
                        "initialize" => r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"c","version":"1"}}"#,
                        "tools/list" => r#"{"tools":[{"name":"act","inputSchema":{"type":"object"}},{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}"#,
                        "tools/call" => {
                            let is_look = body.windows(6).any(|window| window == b"\"look\"");
                            if counted[usize::from(is_look)].fetch_add(1, Ordering::SeqCst) == 0 {
                                return;
                            }
                            r#"{"content":[{"type":"text","text":"done"}]}"#
                        }
                        "ping" => "{}",
                        _ => "",
                    };
                    let answer = match result {
                        "" => encode::error(Some(&request.id), &lyceum_wire::RpcError::method_not_found("it")),
                        result => encode::result(&request.id, result.as_bytes()),
                    };
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", answer.len());
                    let _ = stream.write_all(&[head.as_bytes(), &answer].concat()).await;
                }
            });
        }
    })
    .await;
    let config =
        UpstreamConfig::new("up", Target::Http(format!("http://{}/mcp", running.address())));
    (running, config, counts)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_answer_was_lost_is_repeated_only_if_that_does_no_harm() {
    let (_running, config, counts) = cutter().await;
    let house = House::with(vec![config], None).await;
    let peer = modern(&house).await;
    let (failed, said) = outcome(&peer, "up_act").await;
    assert!(failed && said.contains("up"), "{said}");
    assert_eq!(counts[0].load(Ordering::SeqCst), 1, "what may do harm is done once");
    let (failed, said) = outcome(&peer, "up_look").await;
    assert!(!failed && said == "done", "{said}");
    assert_eq!(counts[1].load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_repeated_once_and_no_more() {
    let upstream = Mirror::answering(|request| match request.method.as_str() {
        "tools/list" => Reply::Result(
            r#"{"tools":[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}"#
                .to_owned(),
        ),
        "tools/call" => Reply::Bytes(Vec::new()),
        "ping" => Reply::Result("{}".to_owned()),
        method => plain(method),
    })
    .await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let peer = modern(&house).await;
    let (failed, said) = outcome(&peer, "up_look").await;
    assert!(failed, "{said}");
    assert_eq!(upstream.n_seen("tools/call"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_got_lost_is_asked_for_again() {
    let n_asked = AtomicUsize::new(0);
    let upstream = Mirror::answering(move |request| match request.method.as_str() {
        "tools/list" if n_asked.fetch_add(1, Ordering::SeqCst) < 2 => Reply::Bytes(Vec::new()),
        "ping" => Reply::Result("{}".to_owned()),
        method => plain(method),
    })
    .await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let peer = modern(&house).await;
    let start = Instant::now();
    while peer.list_tools().await.unwrap().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", house.gateway.health());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!outcome(&peer, "up_mirror").await.0);
}

/// A TCP server that treats every connection like `behave` says.
async fn misbehaving<F, Fut>(behave: F) -> (Running, String)
where
    F: Fn(tokio::net::TcpStream) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let running = Running::start(|listener, _| async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(behave(stream));
        }
    })
    .await;
    let url = format!("http://{}/mcp", running.address());
    (running, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn five_bad_upstreams_cost_the_good_ones_nothing() {
    let hang = misbehaving(|stream| async move {
        let _stream = stream;
        std::future::pending::<()>().await;
    });
    let garbage = misbehaving(|mut stream| async move {
        let _ = stream.write_all(b"\x00\xff no HTTP at all \r\n\r\n").await;
    });
    let endless = misbehaving(|mut stream| async move {
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let _ = stream.write_all(head).await;
        while stream.write_all(&[b'x'; 64 * 1024]).await.is_ok() {}
    });
    let slow = misbehaving(|mut stream| async move {
        let mut head = [0; 1024];
        let _ = stream.read(&mut head).await;
        for byte in b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{}" {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if stream.write_all(&[*byte]).await.is_err() {
                return;
            }
        }
    });
    let (hang, garbage, endless, slow) = tokio::join!(hang, garbage, endless, slow);
    let mut configs = Vec::new();
    for (name, (_, url)) in
        [("hang", &hang), ("garbage", &garbage), ("endless", &endless), ("slow", &slow)]
    {
        let target = Target::Http(url.clone());
        let call_timeout = Duration::from_secs(2);
        configs.push(UpstreamConfig { call_timeout, ..UpstreamConfig::new(name, target) });
    }
    let crash = vec!["/bin/false".to_owned()];
    configs.push(UpstreamConfig::new("crash", Target::Command(crash)));
    let mut good = Vec::new();
    for n in 0..5 {
        let served = if n % 2 == 0 { RevisionSet::LEGACY } else { RevisionSet::MODERN };
        let (config, running) = fixture_upstream(Way::Http, served).await;
        configs.push(UpstreamConfig { name: format!("good{n}"), ..config });
        good.push(running);
    }
    let house = House::unsettled(configs).await;
    for n in 0..5 {
        status(&house, &format!("good{n}"), Status::Up).await;
    }
    let peer = modern(&house).await;
    let started = Instant::now();
    for round in 0..100 {
        for n in 0..5 {
            let said =
                text(&peer, &format!("good{n}_echo"), json!({"text": round.to_string()})).await;
            assert_eq!(said.unwrap(), round.to_string());
        }
    }
    assert!(started.elapsed() < Duration::from_secs(60), "500 calls took {:?}", started.elapsed());
    // Each bad one is told apart from the good ones, with a reason.
    let mut health = Vec::new();
    for _ in 0..600 {
        health = house.gateway.health();
        if health.iter().all(|(_, one)| one.status == Status::Up || one.last_error.is_some()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (name, one) in &health {
        let is_good = name.starts_with("good");
        assert_eq!(one.status == Status::Up, is_good, "{name}: {one:?}");
        assert_eq!(one.last_error.is_some(), !is_good, "{name}: {one:?}");
    }
}
