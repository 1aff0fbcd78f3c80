//! What is listed of upstreams: beside the server's own tools, after listings that failed, and of
//! servers that know only half of what they say they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lyceum_gateway::glob::{Filter, Rule};
use lyceum_gateway::lock::Lock;
use lyceum_gateway::{Gateway, Reserved, Status, Target, UpstreamConfig};
use lyceum_http::client::{CallOptions, Peer};
use lyceum_server::{Call, NoArguments, Server, tool};
use lyceum_wire::{Object, Revision, RevisionSet, encode};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::healing::{modern, outcome, status};
use crate::house::{House, Way, fixture_upstream, own_server, serve_handler, setting, text};
use crate::mirror::{Mirror, Reply, plain};

#[tokio::test(flavor = "multi_thread")]
async fn a_name_the_server_has_itself_stays_its_own_and_the_collision_is_told() {
    let (config, _running) = fixture_upstream(Way::Http, RevisionSet::LEGACY).await;
    let gateway = Gateway::new(setting());
    gateway.configure(vec![UpstreamConfig { prefix: Some(String::new()), ..config }]);
    assert!(gateway.settled(Duration::from_secs(20)).await);
    assert_eq!(gateway.health()[0].1.collisions, [""; 0]);
    let echo = tool("echo", "Ours.", |_: Call, _: NoArguments| async { Ok("our own") });
    let server = Server::builder("front", "1").tool(echo).build();
    let door = gateway.door(server, Arc::new(|_: &str| true));
    // Nobody shows it, but it is the server's all the same.
    gateway.reserve(Reserved { tools: vec!["fail".to_owned()], ..Reserved::default() });
    let collisions = gateway.health()[0].1.collisions.clone();
    let [echo, fail] = ["echo", "fail"].map(|name| {
        let taken = format!("{name} is taken by this server, shown as ");
        let renamed = collisions.iter().find_map(|told| told.strip_prefix(&taken));
        renamed.unwrap_or_else(|| panic!("{name}: {collisions:?}")).to_owned()
    });
    assert_eq!(collisions.len(), 2, "{collisions:?}");
    let front = serve_handler(door, RevisionSet::ALL).await;
    let house = House::around(gateway, front);
    let peer = modern(&house).await;
    let names: Vec<_> =
        peer.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    let count = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
    assert_eq!([count("echo"), count(&echo), count("fail"), count(&fail)], [1, 1, 0, 1]);
    assert_eq!(text(&peer, "echo", json!({})).await.unwrap(), "our own");
    assert_eq!(text(&peer, &echo, json!({"text": "theirs"})).await.unwrap(), "theirs");
    assert_eq!(outcome(&peer, &fail).await, (true, "it failed".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_denied_of_an_upstream_are_not_there() {
    let (config, running) = fixture_upstream(Way::Http, RevisionSet::LEGACY).await;
    let rules = ["*", "!fa*", "!echo"].map(|rule| rule.parse::<Rule>().unwrap());
    let tools = rules.into_iter().collect();
    let house = House::with(vec![UpstreamConfig { tools, ..config }], running).await;
    let peer = modern(&house).await;
    let names: Vec<_> =
        peer.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert!(names.contains(&"up_counts".to_owned()), "{names:?}");
    for denied in ["up_fail", "up_echo", "up.echo", "echo"] {
        assert!(!names.iter().any(|name| name == denied), "{names:?}");
        assert_eq!(told(&peer, denied).await, format!("Unknown tool: {denied}"));
    }
}

/// A server with one resource and no tools.
async fn library() -> Mirror {
    Mirror::answering(|request| match request.method.as_str() {
        "initialize" => Reply::Result(
            r#"{"protocolVersion":"2025-03-26","capabilities":{"resources":{}},"serverInfo":{"name":"m","version":"1"}}"#
                .to_owned(),
        ),
        "resources/list" => Reply::Result(r#"{"resources":[{"uri":"m://a","name":"a"}]}"#.to_owned()),
        _ => Reply::Unknown,
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_denied_by_prefix_shows_no_resources_either() {
    let library = library().await;
    let gateway = Gateway::new(setting());
    gateway.configure(vec![library.config("a"), library.config("b")]);
    assert!(gateway.settled(Duration::from_secs(20)).await);
    let rules = ["!a_*"].map(|rule| rule.parse::<Rule>().unwrap());
    let filter: Filter = rules.into_iter().collect();
    let door = gateway.door(own_server(), Arc::new(move |tool: &str| filter.admits(tool)));
    let shown: Vec<_> = door.resources().into_iter().map(|shown| shown.public).collect();
    assert_eq!(shown, ["b+m://a"]);
    assert!(!door.leads_to_resource("a+m://a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prefix_with_the_separator_in_it_leads_to_its_upstream() {
    let library = library().await;
    let gateway = Gateway::new(setting());
    gateway
        .configure(vec![UpstreamConfig { prefix: Some("x+y".to_owned()), ..library.config("a") }]);
    assert!(gateway.settled(Duration::from_secs(20)).await);
    let door = gateway.door(own_server(), Arc::new(|_: &str| true));
    // What is not listed goes by the prefix.
    assert!(door.leads_to_resource("x+y+m://unlisted"));
    assert!(!door.leads_to_resource("x+m://unlisted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_listed_again_stays_as_it_was() {
    let n_listed = AtomicUsize::new(0);
    let upstream = Mirror::answering(move |request| match request.method.as_str() {
        "tools/list" if n_listed.fetch_add(1, Ordering::SeqCst) > 0 => Reply::Unknown,
        "tools/call" => {
            let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
            let answer = encode::result(&request.id, br#"{"content":[]}"#);
            let answer = String::from_utf8_lossy(&answer).into_owned();
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            let events = format!("{head}data: {changed}\n\ndata: {answer}\n\n");
            Reply::Bytes(events.into_bytes())
        }
        "ping" => Reply::Result("{}".to_owned()),
        method => plain(method),
    })
    .await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let peer = modern(&house).await;
    assert!(!outcome(&peer, "up_mirror").await.0);
    for _ in 0..500 {
        if house.gateway.health()[0].1.last_error.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (_, health) = &house.gateway.health()[0];
    let told = health.last_error.clone().unwrap_or_default();
    assert!(told.contains("Tools could not be listed"), "{told}");
    assert_eq!((health.tools, upstream.n_seen("tools/list")), (1, 2));
    assert!(!outcome(&peer, "up_mirror").await.0);
}

/// The URIs, or templates of URIs, in raw definitions.
fn uris(definitions: &[bytes::Bytes], member: &str) -> Vec<String> {
    let uri = |raw: &bytes::Bytes| Object::parse(raw).unwrap().text(member).unwrap();
    definitions.iter().map(uri).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_are_listed_where_there_are_any() {
    for served in [RevisionSet::LEGACY, RevisionSet::MODERN] {
        let house = House::new(Way::Http, served).await;
        let peer = modern(&house).await;
        let templates = peer.list_resource_templates().await.unwrap();
        assert_eq!(uris(&templates, "uriTemplate"), ["up+fixture://item/{id}"]);
        let read = peer.call("resources/read", r#"{"uri":"up+fixture://item/7"}"#).await.unwrap();
        assert!(String::from_utf8_lossy(&read).contains("item 7"), "{read:?}");
    }
    // A server with resources that has never heard of templates.
    let upstream = library().await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let peer = modern(&house).await;
    assert_eq!(uris(&peer.list_resources().await.unwrap(), "uri"), ["up+m://a"]);
    assert_eq!(peer.list_resource_templates().await.unwrap(), [""; 0]);
    assert_eq!(house.gateway.health()[0].1.last_error, None);
}

/// How a call of a tool that is not there ends: what the model is told, or else the error.
async fn told(peer: &Peer, tool: &str) -> String {
    match peer.call_tool(tool, "{}", &CallOptions::new()).await {
        Ok(result) => {
            let result: Value = serde_json::from_slice(&result).unwrap();
            assert_eq!(result["isError"], true, "{tool}: {result}");
            result["content"][0]["text"].as_str().unwrap().to_owned()
        }
        Err(error) => error.rpc().unwrap_or_else(|| panic!("{tool}: {error}")).message.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_calls_an_upstream_that_was_never_reached_is_told_so_at_once() {
    let silent = Mirror::answering(|_| Reply::Endless(String::new(), Vec::new())).await;
    let down = UpstreamConfig::new("down", Target::Command(vec!["false".to_owned()]));
    let gateway = Gateway::new(setting());
    let prefix = Some("My-Tools".to_owned());
    let other = UpstreamConfig { prefix, name: "other".to_owned(), ..down.clone() };
    let hidden = UpstreamConfig { name: "hidden".to_owned(), ..down.clone() };
    gateway.configure(vec![down, silent.config("silent"), other, hidden]);
    let allows = |tool: &str| tool != "down_hidden" && !tool.starts_with("hidden_");
    let door = gateway.door(own_server(), Arc::new(allows));
    let front = serve_handler(door, RevisionSet::ALL).await;
    let house = House::around(gateway, front);
    status(&house, "down", Status::Down).await;
    let peer = modern(&house).await;
    let start = Instant::now();
    for (tool, expected) in [
        // It is tried again now and then, and may be called just then.
        ("down_echo", ["down cannot be reached", "down is still being connected to"]),
        ("down.echo", ["down cannot be reached", "down is still being connected to"]),
        ("My-Tools_echo", ["other cannot be reached", "other is still being connected to"]),
        ("My-Tools.echo", ["other cannot be reached", "other is still being connected to"]),
        ("other.echo", ["other cannot be reached", "other is still being connected to"]),
        ("silent_echo", ["silent is still being connected to"; 2]),
        ("down_hidden", ["Unknown tool: down_hidden"; 2]),
        ("down.hidden", ["Unknown tool: down.hidden"; 2]),
        ("down", ["Unknown tool: down"; 2]),
        ("nobody_echo", ["Unknown tool: nobody_echo"; 2]),
    ] {
        let told = told(&peer, tool).await;
        assert!(expected.iter().any(|expected| told.contains(expected)), "{tool}: {told}");
    }
    for (uri, expected) in [
        ("down+file:///a", ["down cannot be reached", "down is still being connected to"]),
        ("My-Tools+git+ssh://a", ["other cannot be reached", "other is still being connected to"]),
        ("silent+x:", ["silent is still being connected to"; 2]),
        ("hidden+x://a", ["resource not found"; 2]),
        ("nobody+x://a", ["resource not found"; 2]),
        ("file:///a", ["resource not found"; 2]),
    ] {
        let read = peer.call("resources/read", json!({"uri": uri}).to_string()).await;
        let told = read.expect_err(uri).to_string();
        assert!(expected.iter().any(|expected| told.contains(expected)), "{uri}: {told}");
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_upstream_adds_while_it_runs_is_held_back_by_a_lock() {
    for served in [RevisionSet::LEGACY, RevisionSet::MODERN] {
        let house = House::new(Way::Http, served).await;
        let mut lock = Lock::default();
        for (upstream, definitions) in house.gateway.definitions() {
            lock.approve_all(&upstream, definitions);
        }
        house.gateway.set_lock(Some(lock));
        let (peer, client) = house.client(Revision::V2025_11_25).await;
        text(&peer, "up_grow", json!({})).await.unwrap();
        // Prompts are not judged, and come after tools.
        client.hears("notifications/prompts/list_changed").await;
        assert_eq!(house.gateway.health()[0].1.quarantined, ["grown"]);
        let tools = peer.list_tools().await.unwrap();
        assert!(!tools.iter().any(|tool| tool.name == "up_grown"), "{tools:?}");
        let refused = text(&peer, "up_grown", json!({})).await.unwrap_err().to_string();
        assert!(refused.contains("Unknown tool"), "{refused}");
        let heard = client.heard.lock().unwrap();
        assert!(!heard.iter().any(|(method, _)| method == "notifications/tools/list_changed"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_without_a_schema_is_shown_with_one_and_one_without_a_name_costs_no_other() {
    let upstream = Mirror::answering(|request| match request.method.as_str() {
        "tools/list" => Reply::Result(
            r#"{"tools":[{"name":"bare"},{"description":"x"},{"name":"full","inputSchema":{"type":"object","x":1.0}}]}"#
                .to_owned(),
        ),
        method => plain(method),
    })
    .await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let tools = modern(&house).await.list_tools().await.unwrap();
    let shown: Vec<_> =
        tools.iter().map(|tool| (&*tool.name, tool.input_schema().unwrap())).collect();
    let expected =
        [("up_bare", r#"{"type":"object"}"#), ("up_full", r#"{"type":"object","x":1.0}"#)];
    assert_eq!(shown, expected.map(|(name, schema)| (name, schema.into())));
}
