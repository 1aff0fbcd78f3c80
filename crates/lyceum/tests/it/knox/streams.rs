//! Event streams.

use std::collections::HashSet;

use lyceum_testkit::Request;
use serde_json::json;
use tokio::time::{Duration, timeout};

use super::house::{BASE, House, SSE, answer, rpc, stdio};

#[tokio::test]
async fn k20_opening_names_the_stream_and_its_address() {
    let house = House::new().await;
    let get = Request::new("GET", &format!("{BASE}/sse")).header("accept", SSE);
    for (origin, allowed) in [(None, None), (Some("http://localhost"), Some("http://localhost"))] {
        let request = match origin {
            Some(origin) => get.clone().header("origin", origin),
            None => get.clone(),
        };
        let (head, _events) = house.lyceum.connect().await.stream(&request).await;
        assert_eq!(head.get("content-type"), Some("text/event-stream; charset=utf-8"));
        assert!(head.get("cache-control").unwrap().starts_with("no-cache"));
        assert_eq!(head.get("access-control-allow-origin"), allowed, "never *");
        assert_ne!(head.get("connection"), Some("close"), "HTTP/1.1 keeps it alive");
    }
    let asks =
        Request::new("OPTIONS", &format!("{BASE}/message")).header("origin", "http://localhost");
    let asks = asks.header("access-control-request-method", "POST");
    let told = house.send(&asks.header("access-control-request-headers", "content-type")).await;
    let headers = told.head.get("access-control-allow-headers").unwrap_or_default();
    assert!(headers.to_lowercase().contains("content-type"), "{headers}");
    let stranger = house.send(&get.header("origin", "https://evil.example")).await;
    assert_eq!(stranger.status(), 403);
    // `open` checks the two first events.
    house.open("").await;
}

#[tokio::test]
async fn k21_ids_cannot_be_guessed_and_answers_are_messages() {
    let house = House::new().await;
    let mut ids = HashSet::new();
    let mut open = Vec::new();
    for _ in 0..5 {
        let (_, events, id) = house.open("").await;
        assert!(id.len() > 20 && ids.insert(id), "random, never the same");
        open.push(events);
    }
    let (mut events, id) = house.conversation().await;
    let list = rpc("", 7, "tools/list", json!({})).set("accept", SSE);
    assert_eq!(house.send(&list.header("x-session-id", &id)).await.status(), 202);
    let event = answer(&mut events).await;
    assert_eq!((&*event.name, &event.json()["id"]), ("message", &json!(7)));
}

#[tokio::test]
async fn k22_tools_and_resources_wait_for_initialize() {
    let house = House::new().await;
    let (_, mut events, id) = house.open("").await;
    for method in ["tools/list", "tools/call", "resources/list", "resources/read"] {
        let early = rpc("", 7, method, json!({})).set("accept", SSE).header("x-session-id", &id);
        assert_eq!(house.send(&early).await.status(), 202);
        let expected = json!({ "code": -32002, "message": "Server not initialized" });
        assert_eq!(answer(&mut events).await.json()["error"], expected, "{method}");
    }
}

#[tokio::test]
async fn k23_streams_live_side_by_side_and_end_with_their_connection() {
    let keep_alive = "[limits]\nkeep_alive_seconds = 1\n";
    let house = House::with(&(stdio("files", &[]).await + keep_alive)).await;
    let (mut one, first) = house.conversation().await;
    let (mut two, second) = house.conversation().await;
    let ping = |id: u64, stream: &str| {
        rpc("", id, "ping", json!({})).set("accept", SSE).header("x-session-id", stream)
    };
    assert_eq!(house.send(&ping(1, &first)).await.status(), 202);
    assert_eq!(house.send(&ping(2, &second)).await.status(), 202);
    assert_eq!(answer(&mut one).await.json()["id"], 1);
    assert_eq!(answer(&mut two).await.json()["id"], 2);
    let beat = timeout(Duration::from_secs(10), two.next_or_comment()).await.unwrap().unwrap();
    assert!(beat.is_comment(), "a heartbeat");

    drop(one);
    let gone = async {
        while house.send(&ping(3, &first)).await.status() != 404 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), gone).await.expect("a closed stream is forgotten");

    house.lyceum.terminate().await;
    let end = timeout(Duration::from_secs(10), two.rest()).await.expect("the end of the server");
    assert_eq!(end.iter().map(|event| event.data.as_str()).collect::<Vec<_>>(), Vec::<&str>::new());
}
