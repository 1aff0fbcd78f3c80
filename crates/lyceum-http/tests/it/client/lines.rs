//! Servers at the other end of two byte streams: both eras, odd servers, and how it all ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lyceum_http::client::{CallOptions, ClientError, Peer};
use lyceum_wire::{Era, Revision, RevisionSet};

use super::pipe::{Pipe, client, legacy, meet, modern};
use super::{Echo, limits};

const META: &str = concat!(
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"#,
    r#""io.modelcontextprotocol/clientCapabilities":{}"#
);

/// Calls in the background.
fn call(peer: &Peer, options: CallOptions) -> tokio::task::JoinHandle<Result<String, ClientError>> {
    let peer = peer.clone();
    tokio::spawn(async move {
        let result = peer.call_with("tools/call", r#"{"name":"a"}"#, &options).await?;
        Ok(String::from_utf8(result.to_vec()).unwrap())
    })
}

#[tokio::test]
async fn modern_requests_carry_their_metadata() {
    let (mut pipe, peer) = modern().await;
    assert_eq!((peer.revision(), peer.is_http_sse()), (Revision::V2026_07_28, false));
    assert_eq!(peer.capabilities().unwrap(), "{}");
    let options = CallOptions::new();
    let called = peer.call_with("tools/call", "{\"name\":\"a\",\n \"x\":1.0}", &options);
    let play = async {
        let line = pipe.line().await.replace(META, "META");
        let expected = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","x":1.0,"_meta":{META}}}"#;
        assert_eq!(line, expected);
        pipe.result("2", r#"{"ok":1.0}"#).await;
    };
    assert_eq!(tokio::join!(called, play).0.unwrap(), r#"{"ok":1.0}"#);
    let notified = peer.notify("notifications/initialized", "").await;
    assert!(matches!(notified, Err(ClientError::NotInRevision { .. })), "{notified:?}");
}

#[tokio::test]
async fn legacy_servers_get_a_handshake_and_plain_requests() {
    let (mut pipe, peer) = legacy().await;
    assert_eq!((peer.revision(), peer.era()), (Revision::V2025_06_18, Era::Legacy));
    assert_eq!(peer.capabilities().unwrap(), r#"{"tools":{}}"#);
    let called = peer.call("tools/call", r#"{"name":"a", "x":1.0}"#);
    let play = async {
        let expected =
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a", "x":1.0}}"#;
        assert_eq!(pipe.line().await, expected);
        pipe.say(r#"[{"jsonrpc":"2.0","id":3,"result":{}}]"#).await;
    };
    tokio::join!(called, play).0.unwrap();
    peer.notify("notifications/roots/list_changed", "").await.unwrap();
    pipe.request_less("notifications/roots/list_changed").await;
}

/// Connects to a server that says this to `server/discover` and then wants a handshake.
async fn check_probe(answer: &str, expected: Result<(), &str>) {
    let (_pipe, peer) = meet(client(), async |pipe| {
        let id = pipe.request("server/discover").await;
        for line in answer.replace("$ID", &id).lines() {
            pipe.say(line).await;
        }
        if expected.is_ok() {
            pipe.shake_hands().await;
        }
    })
    .await;
    match expected {
        Ok(()) => assert_eq!(peer.unwrap().era(), Era::Legacy, "{answer}"),
        Err(part) => {
            let error = peer.unwrap_err().to_string();
            assert!(error.contains(part), "{answer}: {error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_an_old_server_makes_of_the_probe_it_gets_a_handshake() {
    for answer in [
        r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"not initialized"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","id":$ID,"result":{}}"#,
        "",
        "Traceback (most recent call last):\n  File \"x\"\n{not JSON\n{\"level\":\"info\"}",
    ] {
        check_probe(answer, Ok(())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_is_never_asked_for_a_handshake() {
    for (error, expected) in [
        (r#"{"code":-32022,"message":"x","data":{"supported":["2099-01-01"]}}"#, "no common"),
        (r#"{"code":-32021,"message":"x"}"#, "(-32021)"),
    ] {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":$ID,"error":{error}}}"#);
        check_probe(&answer, Err(expected)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn versions_decide_what_is_tried() {
    let (_pipe, peer) = meet(client().versions(RevisionSet::LEGACY), Pipe::shake_hands).await;
    assert_eq!(peer.unwrap().era(), Era::Legacy);
    let (_pipe, peer) = meet(client().versions(RevisionSet::MODERN), async |pipe| {
        let id = pipe.request("server/discover").await;
        pipe.error(&id, r#"{"code":-32601,"message":"what?"}"#).await;
    })
    .await;
    assert!(matches!(peer, Err(ClientError::Rpc(_))), "{peer:?}");
    let (_pipe, peer) = meet(client().versions(RevisionSet::MODERN), async |_| {}).await;
    assert!(matches!(peer, Err(ClientError::Silent(_))), "{peer:?}");
}

#[tokio::test]
async fn a_server_that_dies_of_the_probe_can_be_told_from_others() {
    for (versions, by_probe) in
        [(RevisionSet::ALL, true), (RevisionSet::MODERN, false), (RevisionSet::LEGACY, false)]
    {
        let (mut pipe, (reader, writer)) = Pipe::new(1 << 10);
        let connecting = client().versions(versions).connect_over(reader, writer);
        let play = async move {
            pipe.line().await;
        };
        let ended = tokio::join!(connecting, play).0.unwrap_err();
        assert_eq!(matches!(ended, ClientError::EndedByProbe), by_probe, "{ended:?}");
        assert!(by_probe || matches!(ended, ClientError::Interrupted), "{ended:?}");
    }
}

#[tokio::test]
async fn noise_is_ignored_within_bounds() {
    let (mut pipe, peer) = legacy().await;
    let waiting = call(&peer, CallOptions::new());
    let id = pipe.request("tools/call").await;
    for noise in ["Listening on stdio", "", "\u{1b}[32mINFO\u{1b}[0m", "{broken", "[]"] {
        pipe.say(noise).await;
    }
    pipe.result(&id, "{}").await;
    waiting.await.unwrap().unwrap();
    let waiting = call(&peer, CallOptions::new());
    pipe.request("tools/call").await;
    for _ in 0..10_001 {
        pipe.say("y").await;
    }
    let ended = waiting.await.unwrap().unwrap_err();
    assert!(matches!(ended, ClientError::Broken(_)), "{ended:?}");
}

#[tokio::test]
async fn a_line_that_is_too_long_ends_the_connection() {
    let short = limits(|limits| limits.event = 1000);
    let (mut pipe, peer) = meet(client().limits(short), Pipe::be_legacy).await;
    let peer = peer.unwrap();
    let waiting = call(&peer, CallOptions::new());
    let id = pipe.request("tools/call").await;
    pipe.result(&id, &format!(r#"{{"x":"{}"}}"#, "x".repeat(1000))).await;
    let ended = waiting.await.unwrap().unwrap_err();
    let source = std::error::Error::source(&ended).unwrap().to_string();
    assert!(matches!(ended, ClientError::Broken(_)) && source.contains("1000"), "{source}");
    peer.closed().await;
}

#[tokio::test]
async fn only_the_greeting_has_to_be_short() {
    let long = format!(r#"{{"x":"{}"}}"#, "x".repeat(1000));
    let short = || client().limits(limits(|limits| limits.greeting = 1000));
    let (mut pipe, peer) = meet(short(), Pipe::be_legacy).await;
    let peer = peer.unwrap();
    let waiting = call(&peer, CallOptions::new());
    let id = pipe.request("tools/call").await;
    pipe.result(&id, &long).await;
    assert_eq!(waiting.await.unwrap().unwrap(), long);
    let (mut pipe, (reader, writer)) = Pipe::new(64 << 10);
    let connecting = short().connect_over(reader, writer);
    let greet = async {
        let id = pipe.request("server/discover").await;
        pipe.result(&id, &long).await;
    };
    let error = tokio::join!(connecting, greet).0.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(matches!(error, ClientError::Broken(_)) && source.contains("1000"), "{source}");
}

#[tokio::test]
async fn calls_end_with_the_servers_output_and_know_whether_they_were_sent() {
    let (mut pipe, peer) = legacy().await;
    let waiting = call(&peer, CallOptions::new());
    pipe.request("tools/call").await;
    assert!(!peer.is_closed());
    drop(pipe);
    let ended = waiting.await.unwrap().unwrap_err();
    assert!(matches!(ended, ClientError::Interrupted) && !ended.is_unsent(), "{ended:?}");
    peer.closed().await;
    assert!(peer.is_closed());
    let later = call(&peer, CallOptions::new()).await.unwrap().unwrap_err();
    assert!(later.is_unsent() && later.to_string().contains("hung up"), "{later}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_no_input_is_given_up() {
    let (mut pipe, (reader, writer)) = Pipe::new(64);
    let impatient = limits(|limits| limits.silence = Duration::from_secs(60));
    let connecting = client().limits(impatient).connect_over(reader, writer);
    let peer = tokio::join!(connecting, pipe.be_legacy()).0.unwrap();
    let patient = || CallOptions::new().silence(Duration::from_secs(600));
    let stuck = call(&peer, patient());
    tokio::task::yield_now().await;
    let queued = call(&peer, patient());
    let (stuck, queued) = (stuck.await.unwrap().unwrap_err(), queued.await.unwrap().unwrap_err());
    assert!(!stuck.is_unsent(), "{stuck:?}");
    assert!(queued.is_unsent() && queued.to_string().contains("takes no input"), "{queued}");
    assert!(peer.is_closed());
    // Both streams are let go, although the peer is still there.
    assert_eq!(pipe.next_line().await, None);
}

#[tokio::test]
async fn what_was_reported_unsent_is_never_sent() {
    let (mut pipe, (reader, writer)) = Pipe::new(64);
    let peer = tokio::join!(client().connect_over(reader, writer), pipe.be_legacy()).0.unwrap();
    let stuck = call(&peer, CallOptions::new());
    tokio::task::yield_now().await;
    let queued = call(&peer, CallOptions::new());
    tokio::task::yield_now().await;
    pipe.say_no_more().await;
    assert!(!stuck.await.unwrap().unwrap_err().is_unsent());
    assert!(queued.await.unwrap().unwrap_err().is_unsent());
    pipe.request("tools/call").await;
    assert_eq!(pipe.next_line().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_is_cancelled_or_never_sent() {
    for (mut pipe, peer) in [modern().await, legacy().await] {
        let waiting = call(&peer, CallOptions::new());
        let id = pipe.request("tools/call").await;
        waiting.abort();
        let cancelled = pipe.request_less("notifications/cancelled").await;
        assert!(cancelled.contains(&format!(r#""requestId":{id},"#)), "{cancelled}");
    }
    let (mut pipe, (reader, writer)) = Pipe::new(64);
    let peer = tokio::join!(client().connect_over(reader, writer), pipe.be_legacy()).0.unwrap();
    let first = call(&peer, CallOptions::new());
    tokio::task::yield_now().await;
    let unsent = call(&peer, CallOptions::new());
    tokio::time::sleep(Duration::from_millis(1)).await;
    unsent.abort();
    assert!(unsent.await.is_err());
    let id = pipe.request("tools/call").await;
    pipe.result(&id, "{}").await;
    first.await.unwrap().unwrap();
    peer.close().await;
    assert_eq!(pipe.next_line().await, None);
}

#[tokio::test]
async fn answers_find_their_calls_in_any_order() {
    let (mut pipe, (reader, writer)) = Pipe::new(37);
    let peer = tokio::join!(client().connect_over(reader, writer), pipe.be_legacy()).0.unwrap();
    let waiting: Vec<_> = (0..100).map(|_| call(&peer, CallOptions::new())).collect();
    let mut ids = Vec::new();
    for _ in 0..100 {
        ids.push(pipe.request("tools/call").await);
    }
    for id in ids.iter().rev() {
        pipe.result(id, &format!(r#"{{"id":{id}}}"#)).await;
    }
    let mut seen = Vec::new();
    for waiting in waiting {
        seen.push(waiting.await.unwrap().unwrap());
    }
    seen.sort();
    let mut expected: Vec<_> = ids.iter().map(|id| format!(r#"{{"id":{id}}}"#)).collect();
    expected.sort();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn calls_that_wait_are_bounded() {
    let few = limits(|limits| limits.pending = 1);
    let (mut pipe, peer) = meet(client().limits(few), Pipe::be_legacy).await;
    let peer = peer.unwrap();
    let _waiting = call(&peer, CallOptions::new());
    pipe.request("tools/call").await;
    let refused = call(&peer, CallOptions::new()).await.unwrap().unwrap_err();
    assert!(matches!(refused, ClientError::TooManyCalls(1)), "{refused:?}");
}

#[tokio::test]
async fn progress_reaches_its_call_before_the_answer() {
    for (mut pipe, peer) in [modern().await, legacy().await] {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&heard);
        let mine = Echo::default();
        let to_sink = CallOptions::new().on_progress(move |raw| sink.lock().unwrap().push(raw));
        let to_handler = CallOptions::new().progress_to_handler().handler(mine.clone());
        let (first, second) = (call(&peer, to_sink), call(&peer, to_handler));
        let mut ids = [pipe.request("tools/call").await, pipe.request("tools/call").await];
        ids.sort();
        for n in 1..=2 {
            for id in &ids {
                let params = format!(r#"{{"progressToken":{id},"progress":{n}}}"#);
                pipe.notify("notifications/progress", &params).await;
            }
        }
        for id in &ids {
            pipe.result(id, "{}").await;
        }
        first.await.unwrap().unwrap();
        second.await.unwrap().unwrap();
        let params = |id: &str, n| format!(r#"{{"progressToken":{id},"progress":{n}}}"#);
        let mut lists = [
            heard.lock().unwrap().iter().map(|raw| String::from_utf8_lossy(raw).into()).collect(),
            mine.heard(),
        ];
        let prefix = "notifications/progress ";
        lists[1].iter_mut().for_each(|text| *text = text.replace(prefix, ""));
        lists.sort();
        let expected: Vec<Vec<String>> =
            ids.iter().map(|id| vec![params(id, 1), params(id, 2)]).collect();
        assert_eq!(lists.to_vec(), expected);
    }
}

#[tokio::test]
async fn subscriptions_share_the_line() {
    let (mut pipe, peer) = modern().await;
    let mut subscriptions = Vec::new();
    for _ in 0..2 {
        let listening = peer.listen(r#"{"toolsListChanged":true}"#);
        let play = async {
            let id = pipe.request("subscriptions/listen").await;
            let meta = format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}"#);
            pipe.notify("notifications/subscriptions/acknowledged", &meta).await;
            meta
        };
        let (subscription, meta) = tokio::join!(listening, play);
        subscriptions.push((subscription.unwrap(), meta));
    }
    let (mut second, meta_2) = subscriptions.pop().unwrap();
    let (mut first, meta_1) = subscriptions.pop().unwrap();
    for (method, meta) in [("n/a", &meta_2), ("n/b", &meta_1), ("n/c", &meta_2), ("n/a", &meta_2)] {
        pipe.notify(method, meta).await;
    }
    assert_eq!(first.next().await.unwrap().unwrap().method, "n/b");
    assert_eq!(second.next().await.unwrap().unwrap().method, "n/a");
    assert_eq!(second.next().await.unwrap().unwrap().method, "n/c");
    drop(second);
    let cancelled = pipe.request_less("notifications/cancelled").await;
    assert!(cancelled.contains(r#""requestId":3,"#), "{cancelled}");
    pipe.result("2", "{}").await;
    assert!(first.next().await.is_none());
    assert!(first.next().await.is_none());
}

#[tokio::test]
async fn a_subscription_ends_with_the_connection() {
    let (mut pipe, peer) = modern().await;
    let listening = peer.listen("{}");
    let play = async {
        let id = pipe.request("subscriptions/listen").await;
        let meta = format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}"#);
        pipe.notify("notifications/subscriptions/acknowledged", &meta).await;
    };
    let mut subscription = tokio::join!(listening, play).0.unwrap();
    drop(pipe);
    let ended = subscription.next().await.unwrap();
    assert!(matches!(ended, Err(ClientError::Interrupted)), "{ended:?}");
}

#[tokio::test]
async fn the_streams_are_let_go_with_the_peer() {
    for (mut pipe, peer) in [modern().await, legacy().await] {
        drop(peer);
        assert_eq!(pipe.next_line().await, None);
    }
    for (mut pipe, peer) in [modern().await, legacy().await] {
        let clone = peer.clone();
        let waiting = call(&clone, CallOptions::new());
        pipe.request("tools/call").await;
        peer.close().await;
        assert!(clone.is_closed());
        assert!(matches!(waiting.await.unwrap(), Err(ClientError::Interrupted)));
        let later = call(&clone, CallOptions::new()).await.unwrap();
        assert!(matches!(later, Err(ClientError::Closed)), "{later:?}");
    }
}

#[tokio::test]
async fn an_error_that_is_no_message_is_the_answer_to_the_call_it_names() {
    let (mut pipe, peer) = legacy().await;
    let [first, second] = [(); 2].map(|()| call(&peer, CallOptions::new()));
    let ids = [pipe.request("tools/call").await, pipe.request("tools/call").await];
    // One that names nobody is nobody's where there are two; a log entry is never an answer.
    pipe.say(r#"{"error":{"code":-7,"message":"whose?"}}"#).await;
    pipe.say(r#"{"error":"disk full","level":"warn"}"#).await;
    pipe.say(&format!(r#"{{"id":{},"error":{{"code":-7,"message":"not you"}}}}"#, ids[0])).await;
    let ended = [first, second];
    let n_ended = async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        ended.iter().filter(|call| call.is_finished()).count()
    };
    assert_eq!(n_ended().await, 1);
    // Nor is one that names a call that is over the answer to the only one that is left.
    pipe.say(&format!(r#"{{"id":{},"error":{{"code":-7,"message":"late"}}}}"#, ids[0])).await;
    assert_eq!(n_ended().await, 1);
    pipe.result(&ids[1], "{}").await;
    let mut told = Vec::new();
    for call in ended {
        told.push(call.await.unwrap().map_err(|error| error.to_string()));
    }
    told.sort();
    assert_eq!(
        told,
        [Ok("{}".to_owned()), Err("the server answered with an error: not you (-7)".to_owned())]
    );
}
