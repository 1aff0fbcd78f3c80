//! Questions of the server to a legacy client: asked on the call's stream, answered by POST.

use lyceum_http::Limits;
use lyceum_testkit::Request;
use serde_json::{Value, json};
use tokio::time::Duration;

use super::{begin, modern_puppet, puppet_call, told};
use crate::lab::{Lab, Live, PATH, call, get};

fn answer(session: &str, id: &Value, outcome: Value) -> Request {
    let mut body = json!({"jsonrpc": "2.0", "id": id});
    body.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
    Request::post(PATH, body.to_string()).header("mcp-session-id", session)
}

/// The next question on a stream.
async fn question(live: &mut Live) -> Value {
    loop {
        let event = live.next().await.expect("a question");
        if !event.data.is_empty() {
            let message = event.json();
            assert_eq!(message["method"], "elicitation/create");
            return message["id"].clone();
        }
    }
}

#[tokio::test]
async fn question_and_answer_make_a_round_trip() {
    let lab = Lab::new();
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = lab.session(revision).await;
        let mut live = lab.open(&call(&session, 7, "ask", json!({}))).await;
        let id = question(&mut live).await;
        let response =
            lab.send(&answer(&session, &id, json!({"result": {"action": "accept"}}))).await;
        assert_eq!((response.status(), response.text()), (202, ""));
        assert_eq!(told(&live.rest().await), [r#"= {"action":"accept"}"#]);
    }
}

#[tokio::test]
async fn client_that_only_tolerates_streams_is_asked_all_the_same() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let request = call(&session, 7, "ask", json!({}))
        .set("accept", "application/json, text/event-stream;q=0.1");
    let mut live = lab.open(&request).await;
    let id = question(&mut live).await;
    lab.send(&answer(&session, &id, json!({"result": {}}))).await;
    assert_eq!(told(&live.rest().await), ["= {}"]);
}

#[tokio::test]
async fn clients_error_comes_back_to_the_asker() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    for (error, code) in
        [(json!({"code": -1, "message": "no"}), -1), (json!({"nonsense": 1}), -32603)]
    {
        let mut live = lab.open(&call(&session, 7, "ask", json!({}))).await;
        let id = question(&mut live).await;
        lab.send(&answer(&session, &id, json!({"error": error}))).await;
        assert_eq!(live.rest().await[0].json()["error"]["code"], code);
    }
}

#[tokio::test]
async fn answers_by_others_or_to_nothing_are_dropped() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let stranger = lab.session("2025-06-18").await;
    let mut live = lab.open(&call(&session, 7, "ask", json!({}))).await;
    let id = question(&mut live).await;
    let forged = json!({"result": {"action": "forged"}});
    for wrong in [
        answer(&stranger, &id, forged.clone()),
        answer(&session, &json!(999), forged.clone()),
        answer(&session, &json!(id.to_string()), forged.clone()),
        answer(&session, &json!(-1), forged),
    ] {
        assert_eq!(lab.send(&wrong).await.status(), 202);
    }
    let right = answer(&session, &id, json!({"result": {"action": "mine"}}));
    assert_eq!(lab.send(&right).await.status(), 202);
    assert_eq!(lab.send(&right).await.status(), 202, "a second answer is dropped");
    assert_eq!(told(&live.rest().await), [r#"= {"action":"mine"}"#]);
}

#[tokio::test]
async fn question_ids_are_unique_in_a_session() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let mut one = lab.open(&call(&session, 7, "ask", json!({}))).await;
    let mut two = lab.open(&call(&session, 8, "ask", json!({}))).await;
    let (first, second) = (question(&mut one).await, question(&mut two).await);
    assert_ne!(first, second);
    lab.send(&answer(&session, &second, json!({"result": {"n": 2}}))).await;
    lab.send(&answer(&session, &first, json!({"result": {"n": 1}}))).await;
    assert_eq!(told(&one.rest().await), [r#"= {"n":1}"#]);
    assert_eq!(told(&two.rest().await), [r#"= {"n":2}"#]);
}

/// The error a puppet gets when its call asks.
async fn refusal(lab: &Lab, request: Request) -> String {
    let opening = begin(lab, request);
    let puppet = lab.fixture.puppet("p").await;
    let error = puppet.ask().await.unwrap().unwrap_err();
    puppet.finish("done");
    let live = opening.await.unwrap();
    assert_eq!(live.head.get("content-type"), Some("application/json"), "no stream was made");
    error.message.into_owned()
}

#[tokio::test]
async fn clients_that_cannot_be_asked_are_not() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let json_only = puppet_call(&session).set("accept", "application/json");
    assert!(refusal(&lab, json_only).await.contains("text/event-stream"));
    let stateless = puppet_call(&session).without("mcp-session-id");
    assert!(refusal(&lab, stateless).await.contains("Mcp-Session-Id"));
    assert!(refusal(&lab, modern_puppet()).await.contains("revision"));
    let off = Lab::with(|endpoint| endpoint.sse(false));
    let session = off.session("2025-06-18").await;
    refusal(&off, puppet_call(&session)).await;
}

#[tokio::test(start_paused = true)]
async fn unanswered_question_ends_after_its_time() {
    let limits = Limits { question: Duration::from_secs(20), ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let session = lab.session("2025-06-18").await;
    let mut live = lab.open(&call(&session, 7, "ask", json!({}))).await;
    let asked = tokio::time::Instant::now();
    let id = question(&mut live).await;
    let events = live.rest().await;
    assert_eq!(events[0].json()["error"]["code"], -32603);
    assert!(
        asked.elapsed() >= Duration::from_secs(20) && asked.elapsed() < Duration::from_secs(21)
    );
    let late = lab.send(&answer(&session, &id, json!({"result": {}}))).await;
    assert_eq!(late.status(), 202);
}

#[tokio::test]
async fn question_can_be_answered_after_the_stream_was_resumed() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let mut live = lab.open(&call(&session, 7, "ask", json!({}))).await;
    let prime = live.next().await.unwrap();
    drop(live);
    let mut live = lab.open(&get(&session).header("last-event-id", &prime.id.unwrap())).await;
    let id = question(&mut live).await;
    lab.send(&answer(&session, &id, json!({"result": {}}))).await;
    assert_eq!(told(&live.rest().await), ["= {}"]);
}

#[tokio::test]
async fn question_of_an_ended_session_fails() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let opening = begin(&lab, puppet_call(&session));
    let mut puppet = lab.fixture.puppet("p").await;
    let asked = puppet.ask();
    let mut live = opening.await.unwrap();
    question(&mut live).await;
    let delete = Request::new("DELETE", PATH).header("mcp-session-id", &session);
    lab.send(&delete).await;
    puppet.gone().await;
    assert!(asked.await.is_err(), "the asker is gone with its session");
    assert_eq!(live.next().await, None);
}
