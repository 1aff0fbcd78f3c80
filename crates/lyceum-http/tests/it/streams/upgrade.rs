//! When JSON becomes a stream: on the first thing sent before the result, and not sooner.

use lyceum_http::Delivery;
use lyceum_testkit::Request;
use serde_json::json;

use super::{begin, modern_puppet, puppet_call, streaming, told};
use crate::lab::{Lab, call, initialize, modern, text_of};
use crate::matrix::succeeded;

async fn both_eras(lab: &Lab, tool: &str) -> [Request; 3] {
    let session = lab.session("2025-06-18").await;
    let legacy = call(&session, 7, tool, json!({"name": "p"}));
    let stateless = legacy.clone().without("mcp-session-id");
    [legacy, stateless, modern(7, tool, json!({"name": "p"}))]
}

#[tokio::test]
async fn quiet_call_is_json() {
    let lab = Lab::new();
    for request in both_eras(&lab, "echo").await {
        let response = lab.send(&request).await;
        assert_eq!(response.head.get("content-type"), Some("application/json"));
    }
}

#[tokio::test]
async fn slow_quiet_call_is_json() {
    let lab = Lab::new();
    for request in both_eras(&lab, "puppet").await {
        let opening = begin(&lab, request);
        lab.fixture.puppet("p").await.finish("done");
        let live = opening.await.unwrap();
        assert_eq!(live.head.get("content-type"), Some("application/json"));
    }
}

#[tokio::test]
async fn emission_before_the_first_wait_makes_a_stream() {
    let lab = Lab::new();
    for request in both_eras(&lab, "burst").await {
        let events = lab.send(&request).await.events();
        assert_eq!(told(&events), ["1", "2", "3", "= done"]);
        assert!(events.iter().all(|event| event.name == "message" && event.data_lines == 1));
    }
}

#[tokio::test]
async fn emission_after_a_wait_makes_a_stream_and_arrives_before_the_result() {
    let lab = Lab::new();
    for request in both_eras(&lab, "puppet").await {
        let (puppet, mut live) = streaming(&lab, request).await;
        assert_eq!(told(&[live.next().await.unwrap()]), ["first"]);
        let sent = puppet.begin_notify("second");
        assert_eq!(told(&[live.next().await.unwrap()]), ["second"]);
        assert_eq!(sent.await, Ok(Delivery::Queued));
        puppet.finish("done");
        assert_eq!(told(&live.rest().await), ["= done"]);
    }
}

#[tokio::test]
async fn json_only_client_gets_the_result_and_senders_learn_that_nothing_else_arrived() {
    let lab = Lab::new();
    for request in both_eras(&lab, "puppet").await {
        for accept in ["application/json", "application/json, text/event-stream;q=0.5"] {
            let opening = begin(&lab, request.clone().set("accept", accept));
            let puppet = lab.fixture.puppet("p").await;
            assert_eq!(puppet.notify("lost").await, Delivery::Dropped, "{accept}");
            puppet.finish("done");
            let live = opening.await.unwrap();
            assert_eq!(live.head.get("content-type"), Some("application/json"));
        }
    }
}

#[tokio::test]
async fn modern_streams_have_no_ids_no_priming_and_no_retry() {
    let lab = Lab::new();
    let request = modern(7, "burst", json!({})).header("last-event-id", "1");
    for event in lab.send(&request).await.events() {
        assert_eq!((event.id, event.retry), (None, None));
    }
}

#[tokio::test]
async fn legacy_streams_number_their_events_and_echo_the_session() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let response = lab.send(&call(&session, 7, "burst", json!({}))).await;
    assert_eq!(response.head.get("mcp-session-id"), Some(&*session));
    let ids: Vec<_> = response.events().into_iter().map(|event| event.id.unwrap()).collect();
    let unique: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!((ids.len(), unique.len()), (4, 4));
    let allowed = |id: &String| id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    assert!(ids.iter().all(allowed), "{ids:?}");
}

#[tokio::test]
async fn result_laid_out_over_lines_travels_on_one() {
    let lab = Lab::new();
    for request in both_eras(&lab, "raw").await {
        let json = lab.send(&request).await;
        assert!(!json.text().contains(['\n', '\r']), "{:?}", json.text());
        assert_eq!(text_of(&json.json()), "a\u{2028}b\nc");
        let sse = lab.send(&request.set("accept", "text/event-stream")).await;
        assert_eq!((sse.events().len(), sse.events()[0].data_lines), (1, 1));
        assert!(!sse.text().contains('\u{2028}'), "some readers take it for a line end");
        assert_eq!(text_of(&sse.events()[0].json()), "a\u{2028}b\nc");
    }
}

#[tokio::test]
async fn initialize_is_never_a_stream_of_anything_but_its_result() {
    let lab = Lab::new();
    // The fixture logs during initialize; before there is a session, that has nowhere to go.
    let response = lab.send(&initialize("2025-11-25")).await;
    assert_eq!(response.head.get("content-type"), Some("application/json"));
    let response = lab.send(&initialize("2025-11-25").set("accept", "text/event-stream")).await;
    assert_eq!(response.events().len(), 1);
    succeeded(&response, 0);
}

#[tokio::test]
async fn two_calls_of_one_session_have_streams_of_their_own() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let (one, mut live_one) = streaming(&lab, puppet_call(&session)).await;
    let other = call(&session, 8, "puppet", json!({"name": "p"}));
    let (two, mut live_two) = streaming(&lab, other).await;
    two.notify("of two").await;
    one.notify("of one").await;
    two.finish("two");
    one.finish("one");
    assert_eq!(told(&live_one.rest().await), ["first", "of one", "= one"]);
    assert_eq!(told(&live_two.rest().await), ["first", "of two", "= two"]);
}

#[tokio::test]
async fn sse_preferred_but_quiet_is_one_event() {
    let lab = Lab::new();
    let request = modern(7, "echo", json!({"text": "hi"})).set("accept", "text/event-stream");
    let events = lab.send(&request).await.events();
    assert_eq!((events.len(), text_of(&events[0].json())), (1, "hi"));
    let opening = begin(&lab, modern_puppet().set("accept", "text/event-stream"));
    lab.fixture.puppet("p").await.finish("done");
    assert_eq!(told(&opening.await.unwrap().rest().await), ["= done"]);
}
