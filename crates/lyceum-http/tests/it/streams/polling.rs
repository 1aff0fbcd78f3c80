//! Sending a 2025-11-25 client away to poll: priming events, `retry`, and letting go.

use lyceum_http::Limits;
use lyceum_testkit::Request;
use tokio::time::Duration;

use super::{begin, modern_puppet, puppet_call, streaming, told};
use crate::lab::{Lab, get};

#[tokio::test]
async fn only_2025_11_25_streams_begin_with_a_priming_event() {
    let limits = Limits { retry: Duration::from_millis(1234), ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = lab.session(revision).await;
        let (puppet, mut live) = streaming(&lab, puppet_call(&session)).await;
        let first = live.next().await.unwrap();
        puppet.finish("done");
        let resumed = get(&session).header("last-event-id", first.id.as_ref().unwrap());
        let resumed = lab.open(&resumed).await.next().await.unwrap();
        let standalone = lab.open(&get(&session)).await;
        lab.fixture.announce("news");
        let standalone = { standalone }.next().await.unwrap();
        for event in [first, resumed, standalone] {
            if revision == "2025-11-25" {
                assert_eq!((&*event.data, event.data_lines, event.retry), ("", 1, Some(1234)));
                assert!(event.id.is_some());
            } else {
                assert!(!event.data.is_empty() && event.retry.is_none(), "{revision}: {event:?}");
            }
        }
    }
}

#[tokio::test]
async fn released_call_runs_on_and_is_polled_for() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let opening = begin(&lab, puppet_call(&session));
    let puppet = lab.fixture.puppet("p").await;
    assert!(puppet.release().await);
    let events = opening.await.unwrap().rest().await;
    assert_eq!(told(&events), ["prime"], "the connection ends after the priming event");
    // The client may be back before there is anything to hear.
    let id = events[0].id.clone().unwrap();
    let mut early = lab.open(&get(&session).header("last-event-id", &id)).await;
    assert_eq!(told(&[early.next().await.unwrap()]), ["prime"]);
    puppet.notify("progress").await;
    puppet.finish("done");
    assert_eq!(told(&early.rest().await), ["progress", "= done"]);
    let mut late = lab.open(&get(&session).header("last-event-id", &id)).await;
    assert_eq!(told(&late.rest().await), ["prime", "progress", "= done"]);
}

#[tokio::test]
async fn call_that_streams_already_can_be_released_again_and_again() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let (puppet, mut live) = streaming(&lab, puppet_call(&session)).await;
    assert_eq!(told(&[live.next().await.unwrap()]), ["prime"]);
    let first = live.next().await.unwrap();
    let mut last = first.id.clone().unwrap();
    assert!(puppet.release().await);
    assert_eq!(live.next().await, None);
    for round in ["a", "b"] {
        let mut live = lab.open(&get(&session).header("last-event-id", &last)).await;
        puppet.notify(round).await;
        assert_eq!(told(&[live.next().await.unwrap()]), ["prime"]);
        let event = live.next().await.unwrap();
        assert_eq!(told(std::slice::from_ref(&event)), [round]);
        last = event.id.unwrap();
        assert!(puppet.release().await);
        assert_eq!(live.next().await, None);
    }
    puppet.finish("done");
    let mut live = lab.open(&get(&session).header("last-event-id", &last)).await;
    assert_eq!(told(&live.rest().await), ["prime", "= done"]);
}

#[tokio::test]
async fn clients_that_cannot_come_back_are_not_released() {
    let lab = Lab::new();
    let old = puppet_call(&lab.session("2025-06-18").await);
    let newest = puppet_call(&lab.session("2025-11-25").await);
    let stateless =
        newest.clone().without("mcp-session-id").header("mcp-protocol-version", "2025-11-25");
    let json_only: Request = newest.set("accept", "application/json");
    for request in [old, stateless, json_only, modern_puppet()] {
        let opening = begin(&lab, request);
        let puppet = lab.fixture.puppet("p").await;
        assert!(!puppet.release().await);
        puppet.finish("done");
        assert_eq!(opening.await.unwrap().head.status, 200);
    }
}
