//! Coming back for the rest of a stream: no gap, no repetition, nothing of anybody else's.

use std::sync::Arc;

use lyceum_http::{Limits, Sealer};
use lyceum_testkit::{Event, Request};
use serde_json::{Value, json};

use super::{puppet_call, streaming, told};
use crate::lab::{Lab, Live, call, get};
use crate::matrix::refused;
use crate::puppet::Puppet;

fn resume(session: &str, after: &str) -> Request {
    get(session).header("last-event-id", after)
}

/// Reads `n` events.
async fn read(live: &mut Live, n: usize) -> Vec<Event> {
    let mut events = Vec::new();
    for _ in 0..n {
        events.push(live.next().await.expect("another event"));
    }
    events
}

/// Sends the notes 1 to 5, then the answer.
async fn act(puppet: &Puppet) {
    for at in 1..=5 {
        puppet.notify(&at.to_string()).await;
    }
    puppet.finish("done");
}

const ALL: [&str; 7] = ["first", "1", "2", "3", "4", "5", "= done"];

fn last_id(events: &[Event]) -> String {
    events.last().and_then(|event| event.id.clone()).expect("every event has an id")
}

#[tokio::test(start_paused = true)]
async fn stream_of_a_call_that_runs_is_kept_however_long() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let (puppet, mut live) = streaming(&lab, puppet_call(&session)).await;
    let before = read(&mut live, 1).await;
    drop(live);
    tokio::time::sleep(10 * Limits::default().session_idle).await;
    puppet.finish("done");
    let mut resumed = lab.open(&resume(&session, &last_id(&before))).await;
    assert_eq!(told(&resumed.rest().await), ["= done"]);
}

#[tokio::test]
async fn stream_cut_after_any_event_is_resumed_without_gap_or_repetition() {
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let primed = usize::from(revision == "2025-11-25");
        for cut in 1..=ALL.len() + primed {
            for late in [false, true] {
                let lab = Lab::new();
                let session = lab.session(revision).await;
                let (mut puppet, mut live) = streaming(&lab, puppet_call(&session)).await;
                if !late {
                    act(&puppet).await;
                }
                let reads = if late { cut.min(1 + primed) } else { cut };
                let before = read(&mut live, reads).await;
                drop(live);
                if late {
                    act(&puppet).await;
                    puppet.gone().await;
                }
                let mut resumed = lab.open(&resume(&session, &last_id(&before))).await;
                let after = resumed.rest().await;
                let heard: Vec<_> = before.iter().chain(&after).cloned().collect();
                let heard: Vec<_> =
                    told(&heard).into_iter().filter(|event| event != "prime").collect();
                assert_eq!(heard, ALL, "{revision}, cut after {cut}, late {late}");
                assert_eq!(after.iter().filter(|event| event.data.is_empty()).count(), primed);
            }
        }
    }
}

#[tokio::test]
async fn resumed_stream_goes_on_live() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let (puppet, mut live) = streaming(&lab, puppet_call(&session)).await;
    let before = read(&mut live, 1).await;
    drop(live);
    let mut resumed = lab.open(&resume(&session, &last_id(&before))).await;
    puppet.notify("live").await;
    assert_eq!(told(&read(&mut resumed, 1).await), ["live"]);
    puppet.finish("done");
    assert_eq!(told(&resumed.rest().await), ["= done"]);
}

#[tokio::test]
async fn newest_connection_wins_and_the_old_one_ends() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let (puppet, mut old) = streaming(&lab, puppet_call(&session)).await;
    let before = read(&mut old, 1).await;
    let mut new = lab.open(&resume(&session, &last_id(&before))).await;
    puppet.notify("live").await;
    puppet.finish("done");
    assert_eq!(told(&old.rest().await), [""; 0]);
    assert_eq!(told(&new.rest().await), ["live", "= done"]);
}

#[tokio::test]
async fn completed_stream_stays_resumable_from_any_of_its_events() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let response = lab.send(&call(&session, 7, "burst", json!({"n": 4}))).await;
    let all = response.events();
    for _ in 0..2 {
        for (at, event) in all.iter().enumerate() {
            let mut resumed = lab.open(&resume(&session, event.id.as_ref().unwrap())).await;
            let rest = resumed.rest().await;
            assert_eq!(told(&rest[1..]), told(&all[at + 1..]), "after event {at}");
            assert_eq!(told(&rest[..1]), ["prime"]);
            let ids = |events: &[Event]| events.iter().map(|e| e.id.clone()).collect::<Vec<_>>();
            assert_eq!(ids(&rest[1..]), ids(&all[at + 1..]), "an event keeps its id");
            assert_eq!(rest[0].id, event.id, "the priming event repeats where we are");
        }
    }
}

#[tokio::test]
async fn malformed_event_ids_are_400() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    for id in [
        "",
        "x",
        "1",
        "0-0",
        "-",
        "000000000000000g-1",
        "0000000000000001-",
        "0000000000000001-x",
        "0000000000000001-99999999999999999999",
        "+000000000000001-1",
        "0000000000000001-+1",
        "0000000000000001-1-1",
        "0000000000000001_1",
        " 0000000000000001-1 x",
    ] {
        refused(&lab.send(&resume(&session, id)).await, 400, -32600, Value::Null);
    }
}

#[tokio::test]
async fn unknown_event_ids_are_an_empty_stream() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let all = lab.send(&call(&session, 7, "burst", json!({}))).await.events();
    let (stream, _) =
        last_id(&all).split_once('-').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    for id in [
        format!("{stream}-99"),
        format!("{stream}-18446744073709551615"),
        "0123456789abcdef-1".to_owned(),
        "ffffffffffffffff-18446744073709551615".to_owned(),
        "0000000000000000-7".to_owned(),
        "0000000000000000-18446744073709551615".to_owned(),
    ] {
        let response = lab.send(&resume(&session, &id)).await;
        assert_eq!(response.head.get("content-type"), Some("text/event-stream; charset=utf-8"));
        assert_eq!(response.text(), "", "{id}");
    }
}

#[tokio::test]
async fn event_ids_of_another_session_are_worthless() {
    let lab = Lab::new();
    let (ana, bob) = (lab.session("2025-06-18").await, lab.session("2025-06-18").await);
    let all = lab.send(&call(&ana, 7, "burst", json!({}))).await.events();
    for event in &all {
        let response = lab.send(&resume(&bob, event.id.as_ref().unwrap())).await;
        assert_eq!((response.status(), response.text()), (200, ""));
    }
    let mut resumed = lab.open(&resume(&ana, all[0].id.as_ref().unwrap())).await;
    assert_eq!(told(&resumed.rest().await), ["2", "3", "= done"], "and nothing was disturbed");
}

#[tokio::test]
async fn replay_is_bounded_and_never_papers_over_a_gap() {
    let limits = Limits { stream_bytes: 2000, ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let session = lab.session("2025-06-18").await;
    let (mut puppet, mut live) = streaming(&lab, puppet_call(&session)).await;
    let before = read(&mut live, 1).await;
    drop(live);
    for at in 0..20 {
        puppet.notify(&format!("{at} {}", "x".repeat(300))).await;
    }
    puppet.finish("done");
    puppet.gone().await;
    let response = lab.send(&resume(&session, &last_id(&before))).await;
    assert_eq!(response.text(), "", "what follows is gone, so nothing is said");
    let (stream, _) =
        last_id(&before).split_once('-').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let mut kept = Vec::new();
    for sequence in 1..=22 {
        let id = format!("{stream}-{sequence}");
        let events = lab.send(&resume(&session, &id)).await.events();
        if !events.is_empty() {
            kept.push(events.len());
            assert_eq!(events.len() as u64, 22 - sequence, "all that followed {sequence}");
            assert_eq!(told(&events).last().unwrap(), "= done");
        }
    }
    assert_eq!(kept.first(), Some(&5), "2000 bytes hold four notes and the answer");
}

#[tokio::test]
async fn replay_budget_is_shared_by_all_streams() {
    let limits = Limits { replay_bytes: 100_000, ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let session = lab.session("2025-06-18").await;
    let mut firsts = Vec::new();
    for _ in 0..50 {
        let burst = call(&session, 7, "burst", json!({"n": 3, "size": 10_000}));
        firsts.push(lab.send(&burst).await.events()[0].id.clone().unwrap());
    }
    let mut replayable = 0;
    for first in &firsts {
        replayable += usize::from(!lab.send(&resume(&session, first)).await.body.is_empty());
    }
    assert!((1..=5).contains(&replayable), "{replayable} of 50 streams of 30 KB");
}

#[tokio::test]
async fn oldest_finished_streams_make_room_for_new_ones() {
    let limits = Limits { streams_per_session: 3, ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let session = lab.session("2025-06-18").await;
    let mut firsts = Vec::new();
    for _ in 0..5 {
        let response = lab.send(&call(&session, 7, "burst", json!({}))).await;
        firsts.push(response.events()[0].id.clone().unwrap());
    }
    let mut kept = Vec::new();
    for first in &firsts {
        kept.push(!lab.send(&resume(&session, first)).await.body.is_empty());
    }
    assert_eq!(kept, [false, false, true, true, true]);
}

#[tokio::test]
async fn stream_beyond_the_limit_works_but_cannot_be_resumed() {
    let limits = Limits { streams_per_session: 1, ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let session = lab.session("2025-11-25").await;
    let (_running, mut first) = streaming(&lab, puppet_call(&session)).await;
    assert!(first.next().await.unwrap().id.is_some());
    let events = lab.send(&call(&session, 8, "burst", json!({}))).await.events();
    assert_eq!(told(&events), ["1", "2", "3", "= done"]);
    assert!(events.iter().all(|event| event.id.is_none()), "nothing to come back to is promised");
}

#[tokio::test]
async fn last_event_id_on_a_post_is_ignored() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    for id in ["garbage", "0123456789abcdef-1"] {
        let request = call(&session, 7, "burst", json!({})).header("last-event-id", id);
        assert_eq!(told(&lab.send(&request).await.events()), ["1", "2", "3", "= done"]);
    }
}

#[tokio::test]
async fn stream_resumed_over_sockets_after_a_reset_is_whole() {
    let lab = Lab::with(|endpoint| endpoint.sealer(Arc::new(Sealer::ephemeral())));
    let server = lab.serve().await;
    let session = lab.session("2025-11-25").await;
    for cut in 1..=ALL.len() {
        let (connecting, request) = (server.connect().await, puppet_call(&session));
        let (opening, puppet) = tokio::join!(connecting.stream(&request), async {
            let puppet = lab.fixture.puppet("p").await;
            puppet.notify("first").await;
            puppet
        });
        act(&puppet).await;
        let (_, mut events) = opening;
        let mut before = Vec::new();
        for _ in 0..cut {
            before.push(events.next().await.unwrap());
        }
        events.into_connection().reset();
        let (_, mut events) =
            server.connect().await.stream(&resume(&session, &last_id(&before))).await;
        let after = events.rest().await;
        let heard: Vec<_> = before.iter().chain(&after).cloned().collect();
        let heard: Vec<_> = told(&heard).into_iter().filter(|event| event != "prime").collect();
        assert_eq!(heard, ALL, "cut after {cut}");
    }
}
