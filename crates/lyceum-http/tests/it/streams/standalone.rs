//! A session's own stream, opened by GET: what is not part of any call.

use lyceum_http::{Delivery, Limits};
use lyceum_testkit::{Event, Request};
use serde_json::json;

use super::{puppet_call, streaming, told};
use crate::lab::{Lab, PATH, call, get, text_of};

#[tokio::test]
async fn announcements_arrive_on_the_standalone_stream_only() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    assert_eq!(lab.fixture.announce("nobody listens"), []);
    let mut standalone = lab.open(&get(&session)).await;
    assert_eq!(standalone.head.get("mcp-session-id"), Some(&*session));
    let (puppet, mut live) = streaming(&lab, puppet_call(&session)).await;
    assert_eq!(lab.fixture.announce("news"), [Delivery::Queued]);
    puppet.finish("done");
    assert_eq!(told(&live.rest().await), ["first", "= done"]);
    let event = standalone.next().await.unwrap();
    assert_eq!(
        (told(std::slice::from_ref(&event)), event.id.is_some()),
        (vec!["news".to_owned()], true)
    );
}

#[tokio::test]
async fn announcements_to_a_session_that_never_listened_are_refused_not_stored() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let level = Request::legacy(PATH, 1, "logging/setLevel", json!({"level": "info"}));
    lab.send(&level.header("mcp-session-id", &session)).await;
    let told = async || {
        let response = lab.send(&call(&session, 7, "tell", json!({}))).await;
        text_of(&response.json()).to_owned()
    };
    assert_eq!(told().await, "Some(Dropped)");
    let mut live = lab.open(&get(&session)).await;
    assert_eq!(told().await, "Some(Queued)");
    lab.fixture.announce("last");
    assert_eq!(told_by(&live.next().await.unwrap()), ["told"]);
    assert_eq!(told_by(&live.next().await.unwrap()), ["last"], "the first one was not kept");
}

fn told_by(event: &Event) -> Vec<String> {
    super::told(std::slice::from_ref(event))
}

#[tokio::test]
async fn each_session_hears_its_own_copy() {
    let lab = Lab::new();
    let (ana, bob) = (lab.session("2025-06-18").await, lab.session("2025-06-18").await);
    let (mut ana, mut bob) = (lab.open(&get(&ana)).await, lab.open(&get(&bob)).await);
    lab.fixture.announce("news");
    assert_eq!(told(&[ana.next().await.unwrap()]), ["news"]);
    assert_eq!(told(&[bob.next().await.unwrap()]), ["news"]);
}

#[tokio::test]
async fn newest_get_wins_and_nothing_is_lost_or_repeated() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let mut first = lab.open(&get(&session)).await;
    lab.fixture.announce("one");
    assert_eq!(told(&[first.next().await.unwrap()]), ["one"]);
    lab.fixture.announce("two");
    let mut second = lab.open(&get(&session)).await;
    lab.fixture.announce("three");
    assert_eq!(first.next().await, None);
    assert_eq!(told(&[second.next().await.unwrap()]), ["two"]);
    assert_eq!(told(&[second.next().await.unwrap()]), ["three"]);
    drop(first);
    lab.fixture.announce("four");
    assert_eq!(
        told(&[second.next().await.unwrap()]),
        ["four"],
        "the old one's end does not disturb"
    );
}

#[tokio::test]
async fn announcements_wait_for_a_client_that_comes_back() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let mut live = lab.open(&get(&session)).await;
    lab.fixture.announce("one");
    assert_eq!(told(&[live.next().await.unwrap()]), ["prime"]);
    let one = live.next().await.unwrap();
    drop(live);
    assert_eq!(lab.fixture.announce("two"), [Delivery::Queued]);
    let mut resumed = lab.open(&get(&session).header("last-event-id", &one.id.unwrap())).await;
    lab.fixture.announce("three");
    let mut heard = Vec::new();
    for _ in 0..3 {
        heard.push(resumed.next().await.unwrap());
    }
    assert_eq!(told(&heard), ["prime", "two", "three"]);
}

#[tokio::test]
async fn resumed_announcements_can_be_heard_again() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let mut live = lab.open(&get(&session)).await;
    lab.fixture.announce("one");
    lab.fixture.announce("two");
    let one = live.next().await.unwrap();
    live.next().await.unwrap();
    // A client whose connection broke may not have got what we believe was read.
    let mut resumed = lab.open(&get(&session).header("last-event-id", &one.id.unwrap())).await;
    assert_eq!(told(&[resumed.next().await.unwrap()]), ["two"]);
}

#[tokio::test]
async fn slow_reader_of_announcements_costs_a_bounded_amount() {
    let limits = Limits { stream_bytes: 10_000, ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let session = lab.session("2025-06-18").await;
    let mut live = lab.open(&get(&session)).await;
    let sent: Vec<_> = (0..100).flat_map(|_| lab.fixture.announce(&"x".repeat(1000))).collect();
    let queued = sent.iter().filter(|sent| **sent == Delivery::Queued).count();
    assert!((8..=10).contains(&queued), "{queued}");
    for _ in 0..queued {
        live.next().await.unwrap();
    }
    assert_eq!(lab.fixture.announce("there is room again"), [Delivery::Queued]);
}

#[tokio::test]
async fn absent_reader_of_announcements_keeps_the_newest() {
    let limits = Limits { stream_bytes: 10_000, ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let session = lab.session("2025-06-18").await;
    drop(lab.open(&get(&session)).await);
    for at in 0..100 {
        let sent = lab.fixture.announce(&format!("{at} {}", "x".repeat(1000)));
        assert_eq!(sent, [Delivery::Queued]);
    }
    let mut live = lab.open(&get(&session)).await;
    let first = told(&[live.next().await.unwrap()]);
    assert!(first[0].starts_with("91 "), "{first:?}");
}

#[tokio::test]
async fn standalone_stream_never_carries_answers() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let mut standalone = lab.open(&get(&session)).await;
    lab.send(&call(&session, 7, "burst", json!({}))).await;
    lab.fixture.announce("news");
    assert_eq!(told(&[standalone.next().await.unwrap()]), ["news"]);
}
