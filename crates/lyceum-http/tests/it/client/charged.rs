//! What answers are charged to while they arrive, on every transport, and what becomes of an answer
//! that there is no room for.

use std::sync::Arc;
use std::time::Duration;

use lyceum_http::client::{CallOptions, ClientBuilder, ClientError, Peer, Transport};
use lyceum_http::{ByteBudget, CallerId, Exhausted, PATIENCE, Principal};

use super::http_sse::{answered, session};
use super::script::{Scene, Script, Then, events, legacy, modern, result, status};
use super::{client, pipe};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";

fn ana() -> CallerId {
    CallerId::Principal(Principal::new("ana"))
}

fn upstream() -> CallerId {
    CallerId::Upstream("files".into())
}

fn charging(client: ClientBuilder, budget: &Arc<ByteBudget>) -> ClientBuilder {
    client.standing_stream(false).budget(Arc::clone(budget), upstream())
}

async fn call(peer: &Peer) -> Result<usize, ClientError> {
    let options = CallOptions::new().charge_to(ana());
    let result = peer.call_with("tools/call", r#"{"name":"a"}"#, &options).await?;
    Ok(result.len())
}

/// A result of so many bytes, as it is written into a message.
fn large(bytes: usize) -> String {
    format!(r#"{{"x":"{}"}}"#, "x".repeat(bytes))
}

/// Waits for the budget to hold what it should.
async fn until(budget: &ByteBudget, is_right: impl Fn(usize) -> bool) {
    for _ in 0..1000 {
        if is_right(budget.held()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} bytes are held", budget.held());
}

/// Answers of which half has come, over HTTP.
fn halves() -> Vec<(Vec<Scene>, Transport)> {
    let half = large(512 * KIB);
    let half = half.trim_end_matches("\"}");
    let message = format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{half}"#);
    let json = |head: &str, body: &str| {
        vec![modern(), Scene::new("tools/call", format!("{HEAD}{head}\r\n\r\n{body}"), Then::Stay)]
    };
    let event = format!("data: {message}");
    let mut in_session = legacy("2025-06-18");
    in_session.push(events("tools/call", &event, Then::Stay));
    in_session.push(status("notifications/cancelled", 202));
    let mut old = Vec::from(session());
    old.push(status("tools/call", 202).and_say(&event));
    old.push(status("notifications/cancelled", 202));
    vec![
        (json("content-length: 1000000", &message), Transport::Auto),
        (json("transfer-encoding: chunked", &format!("f4240\r\n{message}")), Transport::Auto),
        (vec![modern(), events("tools/call", &event, Then::Stay)], Transport::Auto),
        (in_session, Transport::Auto),
        (old, Transport::HttpSse),
    ]
}

#[tokio::test]
async fn answers_are_charged_while_they_arrive_over_http() {
    for (at, (scenes, transport)) in halves().into_iter().enumerate() {
        let budget = Arc::new(ByteBudget::new(64 * MIB));
        let script = Script::play(scenes).await;
        let client = charging(client(&script), &budget).transport(transport).build().unwrap();
        let peer = client.connect().await.unwrap();
        let calling = tokio::spawn({
            let peer = peer.clone();
            async move { call(&peer).await }
        });
        until(&budget, |held| held >= 512 * KIB).await;
        assert!(budget.held() <= 4 * 512 * KIB, "answer {at}: {}", budget.held());
        calling.abort();
        drop((calling, peer, client));
        until(&budget, |held| held == 0).await;
    }
}

#[tokio::test]
async fn answers_are_charged_while_they_arrive_over_lines() {
    let budget = Arc::new(ByteBudget::new(64 * MIB));
    let client = charging(pipe::client(), &budget);
    let (mut pipe, peer) = pipe::meet(client, pipe::Pipe::be_modern).await;
    let peer = peer.unwrap();
    let calling = tokio::spawn({
        let peer = peer.clone();
        async move { call(&peer).await }
    });
    let id = pipe.request("tools/call").await;
    let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, large(MIB));
    let (half, rest) = message.split_at(512 * KIB);
    pipe.say_part(half).await;
    until(&budget, |held| held >= 512 * KIB - 64 * KIB).await;
    pipe.say(rest).await;
    assert_eq!(calling.await.unwrap().unwrap(), large(MIB).len());
    until(&budget, |held| held == 0).await;
}

/// Answers that come whole, for which there is no room.
fn whole(bytes: usize) -> Vec<(Vec<Scene>, Transport)> {
    let event = format!("data: {{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}}\n\n", large(bytes));
    let mut in_session = legacy("2025-06-18");
    in_session.push(events("tools/call", &event, Then::Stay));
    in_session.push(status("notifications/cancelled", 202));
    let old = session().into_iter().chain([answered("tools/call", &large(bytes))]);
    vec![
        (vec![modern(), result("tools/call", &large(bytes))], Transport::Auto),
        (vec![modern(), events("tools/call", &event, Then::Stay)], Transport::Auto),
        (in_session, Transport::Auto),
        (old.collect(), Transport::HttpSse),
    ]
}

#[tokio::test]
async fn an_answer_there_is_no_room_for_is_an_error_and_the_next_call_is_answered() {
    for (at, (scenes, transport)) in whole(600 * KIB).into_iter().enumerate() {
        let budget = Arc::new(ByteBudget::new(MIB));
        let script = Script::play(scenes).await;
        let client = charging(client(&script), &budget).transport(transport).build().unwrap();
        let peer = client.connect().await.unwrap();
        let error = call(&peer).await.unwrap_err();
        assert!(matches!(error, ClientError::NoRoom(Exhausted::Never)), "answer {at}: {error}");
        assert!(error.to_string().contains("ask for less"), "{error}");
        until(&budget, |held| held == 0).await;
        script.add([match transport {
            Transport::HttpSse => answered("tools/call", "{}"),
            _ => result("tools/call", "{}"),
        }]);
        assert_eq!(call(&peer).await.unwrap(), 2, "answer {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_there_is_no_room_for_ends_its_call_only() {
    let budget = Arc::new(ByteBudget::new(2 * MIB));
    let client = charging(pipe::client(), &budget);
    let (mut pipe, peer) = pipe::meet(client, pipe::Pipe::be_modern).await;
    let peer = peer.unwrap();
    for id_comes_last in [false, true] {
        let held = budget.reserve(&CallerId::Anonymous, 900 * KIB).unwrap();
        let (one, other) = (peer.clone(), peer.clone());
        let started = tokio::time::Instant::now();
        let one = tokio::spawn(async move { call(&one).await });
        let first = pipe.request("tools/call").await;
        let other = tokio::spawn(async move { call(&other).await });
        let second = pipe.request("tools/call").await;
        let result = large(400 * KIB);
        pipe.say(&match id_comes_last {
            false => format!(r#"{{"jsonrpc":"2.0","id":{first},"result":{result}}}"#),
            true => format!(r#"{{"result":{result},"jsonrpc":"2.0","id":{first}}}"#),
        })
        .await;
        pipe.result(&second, "{}").await;
        let error = one.await.unwrap().unwrap_err();
        assert!(matches!(error, ClientError::NoRoom(_)), "{error}");
        assert!(started.elapsed() >= PATIENCE, "it waits for room: {:?}", started.elapsed());
        assert_eq!(other.await.unwrap().unwrap(), 2);
        drop(held);
        assert_eq!(budget.held(), 0);
    }
}

#[tokio::test]
async fn an_answer_on_a_shared_line_is_charged_to_its_caller() {
    let budget = Arc::new(ByteBudget::new(4 * MIB));
    let client = charging(pipe::client(), &budget);
    let (mut pipe, peer) = pipe::meet(client, pipe::Pipe::be_modern).await;
    let peer = peer.unwrap();
    // Nearly as much as a caller may hold.
    let own = budget.reserve(&ana(), 1900 * KIB).unwrap();
    let calling = tokio::spawn({
        let peer = peer.clone();
        async move { call(&peer).await }
    });
    let id = pipe.request("tools/call").await;
    pipe.result(&id, &large(200 * KIB)).await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::NoRoom(Exhausted::Caller)), "{error}");
    drop(own);
    let calling = tokio::spawn(async move { call(&peer).await });
    let id = pipe.request("tools/call").await;
    pipe.result(&id, &large(200 * KIB)).await;
    assert!(calling.await.unwrap().is_ok());
}

#[tokio::test]
async fn small_answers_are_not_counted() {
    let budget = Arc::new(ByteBudget::new(0));
    let script = Script::play([modern(), result("tools/call", &large(60 * KIB))]).await;
    let client = charging(client(&script), &budget).build().unwrap();
    assert!(call(&client.connect().await.unwrap()).await.is_ok());
}
