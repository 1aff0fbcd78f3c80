//! Silence: comments on quiet streams, and streams for calls that are quiet for long.

use serde_json::json;
use tokio::time::{Duration, Instant};

use super::{begin, modern_puppet, puppet_call, streaming, told};
use crate::lab::{Lab, get};

const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[tokio::test(start_paused = true)]
async fn quiet_streams_carry_a_comment_every_fifteen_seconds() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let standalone = lab.open(&get(&session)).await;
    let (_puppet, mut call) = streaming(&lab, puppet_call(&session)).await;
    call.next().await.unwrap();
    let (_other, mut modern) = streaming(&lab, modern_puppet()).await;
    modern.next().await.unwrap();
    for mut live in [standalone, call, modern] {
        for _ in 0..3 {
            let start = Instant::now();
            assert!(live.next_or_comment().await.unwrap().is_comment());
            assert!(start.elapsed() <= KEEP_ALIVE + Duration::from_millis(10));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn comments_come_only_after_silence() {
    let lab = Lab::new();
    let (puppet, mut live) = streaming(&lab, modern_puppet()).await;
    assert_eq!(told(&[live.next_or_comment().await.unwrap()]), ["first"]);
    tokio::time::advance(Duration::from_secs(14)).await;
    let sent = puppet.begin_notify("busy");
    assert_eq!(told(&[live.next_or_comment().await.unwrap()]), ["busy"]);
    sent.await.unwrap();
    let start = Instant::now();
    assert!(live.next_or_comment().await.unwrap().is_comment());
    assert!(start.elapsed() >= KEEP_ALIVE, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn call_that_is_quiet_for_long_becomes_a_stream() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let stateless = puppet_call("x").without("mcp-session-id");
    for request in [puppet_call(&session), stateless, modern_puppet()] {
        let start = Instant::now();
        let opening = begin(&lab, request);
        let puppet = lab.fixture.puppet("p").await;
        let mut live = opening.await.unwrap();
        assert!(start.elapsed() >= KEEP_ALIVE && start.elapsed() < 2 * KEEP_ALIVE);
        assert_eq!(live.head.get("content-type"), Some("text/event-stream; charset=utf-8"));
        assert!(live.next_or_comment().await.unwrap().is_comment());
        puppet.finish("done");
        assert_eq!(told(&live.rest().await), ["= done"]);
    }
}

#[tokio::test(start_paused = true)]
async fn json_only_call_waits_as_long_as_it_takes() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    for request in [puppet_call(&session), modern_puppet()] {
        let opening = begin(&lab, request.set("accept", "application/json"));
        let puppet = lab.fixture.puppet("p").await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        puppet.finish("done");
        let live = opening.await.unwrap();
        assert_eq!(live.head.get("content-type"), Some("application/json"));
    }
}

#[tokio::test(start_paused = true)]
async fn modern_error_after_silence_travels_in_band() {
    let lab = Lab::new();
    let opening = begin(&lab, modern_puppet());
    let puppet = lab.fixture.puppet("p").await;
    let mut live = opening.await.unwrap();
    puppet.panic();
    let events = live.rest().await;
    assert_eq!(live.head.status, 200);
    assert_eq!(events[0].json()["error"]["code"], json!(-32603));
}
