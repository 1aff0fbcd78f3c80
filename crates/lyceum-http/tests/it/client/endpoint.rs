//! The client and our own endpoint: every revision, both transports, over sockets and in process.

use lyceum_http::client::{CallOptions, Client, ClientBuilder, Peer, Transport};
use lyceum_testkit::Server;
use lyceum_wire::{Revision, RevisionSet};
use tokio::task::JoinSet;

use super::Echo;
use crate::lab::{Lab, PATH};

/// Every way to reach the endpoint.
fn clients(server: &Server) -> Vec<(String, ClientBuilder)> {
    let client = |path: &str| {
        let client = Client::builder(format!("http://{}{path}", server.address())).name("c", "1");
        client.capabilities(r#"{"elicitation":{}}"#).handler(Echo::default())
    };
    let over_post = Revision::ALL
        .map(|revision| (revision.to_string(), client(PATH).versions(RevisionSet::only(revision))));
    let old = ("http+sse".to_owned(), client("/sse").transport(Transport::HttpSse));
    over_post.into_iter().chain([old]).collect()
}

async fn echo(server: &Peer, nonce: &str) {
    let arguments = format!(r#"{{"text":"{nonce}"}}"#);
    let result = server.call_tool("echo", arguments, &CallOptions::new()).await.unwrap();
    let result = String::from_utf8_lossy(&result).into_owned();
    assert!(result.contains(&format!("\"{nonce}\"")), "{nonce}: {result}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_reaches_its_own_call() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let mut calls = JoinSet::new();
    for (name, client) in clients(&server) {
        let peer = client.build().unwrap().connect().await.unwrap();
        for n in 0..50 {
            let (peer, nonce) = (peer.clone(), format!("{name} {n}"));
            calls.spawn(async move { echo(&peer, &nonce).await });
        }
    }
    while let Some(ended) = calls.join_next().await {
        ended.unwrap();
    }
}

#[tokio::test]
async fn a_legacy_server_can_ask_back() {
    let lab = Lab::new();
    let server = lab.serve().await;
    for (name, client) in clients(&server).into_iter().filter(|(name, _)| name != "2026-07-28") {
        let peer = client.build().unwrap().connect().await.unwrap();
        let result = peer.call_tool("ask", "", &CallOptions::new()).await.unwrap();
        let result = String::from_utf8_lossy(&result).into_owned();
        assert!(result.contains(r#"{\"echo\":{\"message\":\"?\"}}"#), "{name}: {result}");
    }
}

#[tokio::test]
async fn a_dropped_call_ends_at_the_server() {
    let lab = Lab::new();
    let server = lab.serve().await;
    for (name, client) in clients(&server) {
        let peer = client.build().unwrap().connect().await.unwrap();
        let caller = peer.clone();
        let call =
            tokio::spawn(async move { caller.call("tools/call", r#"{"name":"hang"}"#).await });
        lab.fixture.until_running(1).await;
        call.abort();
        let ended = lab.fixture.until_running(0);
        tokio::time::timeout(std::time::Duration::from_secs(10), ended).await.expect(&name);
    }
}

#[tokio::test]
async fn any_service_will_do_as_the_http_stack() {
    for revision in [Revision::V2026_07_28, Revision::V2025_11_25] {
        let client = Client::builder(format!("http://localhost{PATH}"))
            .name("c", "1")
            .header("host", "localhost")
            .versions(RevisionSet::only(revision))
            .service(Lab::new().endpoint);
        let peer = client.build().unwrap().connect().await.unwrap();
        assert_eq!(peer.revision(), revision);
        echo(&peer, "in process").await;
        peer.close().await;
    }
}
