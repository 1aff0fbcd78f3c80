//! Session ids: sealed, bound, good across restarts, given back for good, and free of charge.

use std::path::Path;
use std::sync::Arc;

use lyceum_http::{Limits, Sealer};
use lyceum_testkit::{Request, Response};
use serde_json::{Value, json};
use tokio::time::Duration;

use crate::lab::{Lab, PATH, call, get, initialize, resident_kb, text_of};
use crate::matrix::{Bearer, refused, succeeded};

/// A server with its data in `directory`, as after a restart.
fn restarted(directory: &Path) -> Lab {
    let sealer = Arc::new(Sealer::from_file(&directory.join("seal.key")).unwrap());
    Lab::with(|endpoint| endpoint.sealer(sealer).revocations(directory.join("revoked")))
}

fn delete(session: &str) -> Request {
    Request::new("DELETE", PATH).header("mcp-session-id", session)
}

#[tokio::test]
async fn session_ids_are_visible_ascii_and_never_repeat() {
    let lab = Lab::new();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..1000 {
        let session = lab.session("2025-11-25").await;
        assert!(session.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{session}");
        assert!(session.len() < 256 && seen.insert(session));
    }
}

#[tokio::test]
async fn session_goes_on_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let before = restarted(directory.path());
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = before.session(revision).await;
        let after = restarted(directory.path());
        succeeded(&after.send(&call(&session, 7, "echo", json!({}))).await, 7);
        let mut live = after.open(&get(&session)).await;
        after.fixture.announce("news");
        let first = live.next().await.unwrap();
        assert_eq!(first.data.is_empty(), revision == "2025-11-25", "the revision was remembered");
        let mut asked = after.open(&call(&session, 8, "ask", json!({}))).await;
        while asked.next().await.unwrap().data.is_empty() {}
    }
}

#[tokio::test]
async fn ended_session_stays_ended_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let before = restarted(directory.path());
    let (ended, kept) = (before.session("2025-11-25").await, before.session("2025-11-25").await);
    assert_eq!(before.send(&delete(&ended)).await.status(), 200);
    for _ in 0..3 {
        let after = restarted(directory.path());
        refused(&after.send(&call(&ended, 7, "echo", json!({}))).await, 404, -32600, Value::Null);
        refused(&after.send(&delete(&ended)).await, 404, -32600, Value::Null);
        succeeded(&after.send(&call(&kept, 7, "echo", json!({}))).await, 7);
    }
}

#[tokio::test]
async fn endpoints_that_share_a_file_forget_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (restarted(directory.path()), restarted(directory.path()));
    let mut ended = Vec::new();
    for lab in [&one, &other, &one] {
        let session = lab.session("2025-11-25").await;
        assert_eq!(lab.send(&delete(&session)).await.status(), 200);
        ended.push(session);
    }
    let after = restarted(directory.path());
    for session in ended {
        refused(&after.send(&call(&session, 7, "echo", json!({}))).await, 404, -32600, Value::Null);
    }
}

#[tokio::test]
async fn revocations_that_cannot_be_read_stop_the_start() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("revoked"), [0xff, 0xfe, 0x00]).unwrap();
    let built = lyceum_http::Endpoint::builder(PATH, crate::fixture::Fixture::new())
        .revocations(directory.path().join("revoked"))
        .build();
    assert!(built.is_err(), "forgetting who was locked out is worse than not starting");
    let kept = std::fs::read(directory.path().join("revoked")).unwrap();
    assert_eq!(kept, [0xff, 0xfe, 0x00], "and the file is left for its owner to look at");
}

#[tokio::test]
async fn damaged_revocation_lines_are_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let before = restarted(directory.path());
    let ended = before.session("2025-11-25").await;
    before.send(&delete(&ended)).await;
    drop(before);
    let path = directory.path().join("revoked");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("nonsense\n\n{text}{}", &text[..20])).unwrap();
    let after = restarted(directory.path());
    refused(&after.send(&call(&ended, 7, "echo", json!({}))).await, 404, -32600, Value::Null);
}

#[tokio::test]
async fn session_of_another_server_key_or_endpoint_is_unknown() {
    let (here, elsewhere) = (Lab::new(), Lab::new());
    let session = here.session("2025-11-25").await;
    refused(&elsewhere.send(&call(&session, 7, "echo", json!({}))).await, 404, -32600, Value::Null);
    let sealer = Arc::new(Sealer::ephemeral());
    let one = Lab::with(|endpoint| endpoint.sealer(Arc::clone(&sealer)));
    let fixture = crate::fixture::Fixture::new();
    let other = lyceum_http::Endpoint::builder("/other", fixture.clone());
    let other = Lab { endpoint: other.sealer(sealer).build().unwrap(), fixture };
    let session = one.session("2025-11-25").await;
    refused(&other.send(&call(&session, 7, "echo", json!({}))).await, 404, -32600, Value::Null);
    succeeded(&one.send(&call(&session, 7, "echo", json!({}))).await, 7);
}

/// A response without what differs from one request to the next.
fn bare(mut response: Response) -> (u16, Vec<(String, String)>, Vec<u8>) {
    response.head.headers.retain(|(name, _)| name != "x-request-id");
    (response.head.status, response.head.headers, response.body)
}

#[tokio::test]
async fn stolen_session_is_answered_exactly_like_an_invented_one() {
    let lab = Lab::with(|endpoint| endpoint.authenticate(Bearer::shared()));
    let ana = lab.session_as("2025-11-25", &[("authorization", "Bearer ana")]).await;
    let mut live = lab.open(&get(&ana).header("authorization", "Bearer ana")).await;
    let prime = live.next().await.unwrap().id.unwrap();
    let invented = "A".repeat(ana.len());
    let requests = |session: &str| {
        [
            call(session, 7, "echo", json!({})),
            crate::lab::notification("notifications/cancelled", json!({"requestId": 7}))
                .header("mcp-session-id", session),
            Request::post(PATH, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
                .header("mcp-session-id", session),
            initialize("2025-11-25").header("mcp-session-id", session),
            get(session),
            get(session).header("last-event-id", &prime),
            delete(session),
        ]
    };
    let before = lab.fixture.invocations();
    for (stolen, invented) in requests(&ana).into_iter().zip(requests(&invented)) {
        let bob = |request: Request| request.header("authorization", "Bearer bob");
        let stolen = bare(lab.send(&bob(stolen)).await);
        let invented = bare(lab.send(&bob(invented)).await);
        assert_eq!(stolen, invented);
        assert_eq!(stolen.0, 404);
    }
    assert_eq!(lab.fixture.invocations(), before);
    lab.fixture.announce("undisturbed");
    assert_eq!(live.next().await.unwrap().json()["params"]["data"], "undisturbed");
    let mine = call(&ana, 7, "echo", json!({})).header("authorization", "Bearer ana");
    succeeded(&lab.send(&mine).await, 7);
}

#[tokio::test]
async fn handshake_the_server_refuses_starts_no_session() {
    let lab = Lab::new();
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "unwelcome", "version": "1"},
    });
    let response = lab.send(&Request::legacy(PATH, 7, "initialize", params)).await;
    refused(&response, 200, -32603, json!(7));
    assert_eq!(response.head.get("mcp-session-id"), None);
}

#[test]
fn subscriptions_of_a_session_are_bounded_and_repeating_one_is_free() {
    let outbox = std::sync::Arc::new(lyceum_http::Outbox::new(1));
    let session = lyceum_http::Session::detached(lyceum_wire::Revision::V2025_11_25, outbox);
    let uri = |at: usize| format!("x:{at}");
    let most = lyceum_http::MAX_SUBSCRIPTIONS;
    assert!((0..most).all(|at| session.subscribe(&uri(at))));
    assert!(!session.subscribe(&uri(most)));
    assert!(session.subscribe(&uri(0)), "it is held already");
    session.unsubscribe(&uri(0));
    assert!(session.subscribe(&uri(most)));
}

#[tokio::test]
async fn every_answer_in_a_session_names_it() {
    let lab = Lab::new();
    let session = lab.session("2025-03-26").await;
    let named = |request: Request| request.header("mcp-session-id", &session);
    for request in [
        call(&session, 7, "echo", json!({})),
        call(&session, 7, "burst", json!({})),
        call(&session, 7, "none", json!({})),
        named(crate::lab::notification("notifications/initialized", json!({}))),
        named(Request::post(PATH, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)),
        named(Request::post(PATH, r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#)),
    ] {
        let response = lab.send(&request).await;
        assert_eq!(response.head.get("mcp-session-id"), Some(&*session), "{request:?}");
    }
}

#[tokio::test]
async fn repeated_session_header_is_400() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let twice = call(&session, 7, "echo", json!({})).header("mcp-session-id", &session);
    refused(&lab.send(&twice).await, 400, -32600, Value::Null);
}

#[tokio::test]
async fn session_ids_expire() {
    let sealer = Arc::new(Sealer::ephemeral());
    let lasting = Lab::with(|endpoint| endpoint.sealer(Arc::clone(&sealer)));
    let session = lasting.session("2025-11-25").await;
    let limits = Limits { session_lifetime: Duration::ZERO, ..Limits::default() };
    let brief = Lab::with(|endpoint| endpoint.sealer(sealer).limits(limits));
    refused(&brief.send(&call(&session, 7, "echo", json!({}))).await, 404, -32600, Value::Null);
    refused(&brief.send(&get(&session)).await, 404, -32600, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn idle_live_state_is_swept_and_the_session_goes_on() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    drop(lab.open(&get(&session)).await);
    assert_eq!(lab.fixture.live_sessions(), 1);
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(lab.fixture.live_sessions(), 1, "not before its time");
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(lab.fixture.live_sessions(), 0);
    succeeded(&lab.send(&call(&session, 7, "echo", json!({}))).await, 7);
    let live = lab.open(&get(&session)).await;
    assert_eq!((live.head.status, lab.fixture.live_sessions()), (200, 1));
    drop(live);
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert_eq!(lab.fixture.live_sessions(), 0, "the sweeper started again");
}

#[tokio::test(start_paused = true)]
async fn open_streams_and_running_calls_keep_live_state() {
    let lab = Lab::new();
    let (reading, calling) = (lab.session("2025-11-25").await, lab.session("2025-11-25").await);
    let mut live = lab.open(&get(&reading)).await;
    drop(lab.open(&get(&calling)).await);
    let answering = tokio::spawn({
        let (lab, call) = (lab.clone(), call(&calling, 7, "puppet", json!({"name": "p"})));
        async move { lab.send(&call.set("accept", "application/json")).await }
    });
    let puppet = lab.fixture.puppet("p").await;
    tokio::time::sleep(Duration::from_secs(2000)).await;
    assert_eq!(lab.fixture.live_sessions(), 2);
    lab.fixture.announce("still here");
    while live.next().await.unwrap().data.is_empty() {}
    puppet.finish("done");
    assert_eq!(text_of(&answering.await.unwrap().json()), "done");
}

#[tokio::test(start_paused = true)]
async fn log_level_of_a_session_in_use_is_kept() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let level = async || {
        let response = lab.send(&call(&session, 7, "level", json!({}))).await;
        text_of(&response.json()).to_owned()
    };
    assert_eq!(level().await, "info");
    let set = Request::legacy(PATH, 7, "logging/setLevel", json!({"level": "error"}));
    lab.send(&set.header("mcp-session-id", &session)).await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(level().await, "error", "calls every few minutes are use");
    }
}

#[tokio::test(start_paused = true)]
async fn finished_streams_are_forgotten_after_their_time() {
    let lab = Lab::new();
    let session = lab.session("2025-06-18").await;
    let _keeps_the_session = lab.open(&get(&session)).await;
    let events = lab.send(&call(&session, 7, "burst", json!({}))).await.events();
    let resume = get(&session).header("last-event-id", events[0].id.as_ref().unwrap());
    assert_eq!(lab.send(&resume).await.events().len(), 3);
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert_eq!(lab.send(&resume).await.text(), "");
}

#[tokio::test]
async fn running_calls_of_a_session_are_bounded() {
    let limits = Limits { calls_per_session: 3, ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let session = lab.session("2025-11-25").await;
    let hang = |id| call(&session, id, "hang", json!({}));
    let mut waiting = Vec::new();
    for id in 0..3 {
        let lab = lab.clone();
        let request = hang(id);
        waiting.push(tokio::spawn(async move { lab.send(&request).await }));
    }
    lab.fixture.until_running(3).await;
    let response = lab.send(&hang(4)).await;
    refused(&response, 429, -32603, json!(4));
    assert!(response.head.get("retry-after").is_some());
    assert_eq!(lab.fixture.running(), 3);
    succeeded(&lab.send(&call(&session, 5, "echo", json!({}))).await, 5);
    let other = lab.session("2025-11-25").await;
    let cancel = crate::lab::notification("notifications/cancelled", json!({"requestId": 1}));
    lab.send(&cancel.header("mcp-session-id", &session)).await;
    lab.fixture.until_running(2).await;
    let (again, elsewhere) = (hang(6), call(&other, 1, "hang", json!({})));
    for request in [again, elsewhere] {
        let lab = lab.clone();
        waiting.push(tokio::spawn(async move { lab.send(&request).await }));
    }
    lab.fixture.until_running(4).await;
    waiting.into_iter().for_each(|task| task.abort());
}

#[tokio::test]
async fn call_whose_client_hung_up_goes_on_and_can_still_be_cancelled() {
    let lab = Lab::new();
    let session = lab.session("2025-11-25").await;
    let waiting = tokio::spawn({
        let (lab, hang) = (lab.clone(), call(&session, 1, "hang", json!({})));
        async move { lab.send(&hang).await }
    });
    lab.fixture.until_running(1).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    tokio::task::yield_now().await;
    assert_eq!(lab.fixture.running(), 1);
    let cancel = crate::lab::notification("notifications/cancelled", json!({"requestId": 1}));
    lab.send(&cancel.header("mcp-session-id", &session)).await;
    lab.fixture.until_running(0).await;
}

#[tokio::test]
async fn running_calls_of_all_legacy_clients_are_bounded() {
    let limits = Limits { calls: 3, ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let hang = Request::legacy(PATH, 7, "tools/call", json!({"name": "hang"}));
    // A client that hangs up does not end its calls, so they must be counted.
    for n in 1..=3 {
        let task = tokio::spawn({
            let (lab, hang) = (lab.clone(), hang.clone());
            async move { lab.send(&hang).await }
        });
        lab.fixture.until_running(n).await;
        tokio::task::yield_now().await;
        task.abort();
    }
    let response = lab.send(&hang).await;
    refused(&response, 503, -32603, json!(7));
    assert!(response.head.get("retry-after").is_some());
    assert_eq!(lab.fixture.running(), 3);
}

#[tokio::test]
async fn notifications_that_take_time_are_bounded_like_calls() {
    let limits = Limits { calls_per_session: 2, calls: 3, ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let (session, other) = (lab.session("2025-11-25").await, lab.session("2025-11-25").await);
    let note = |session: &str, method: &str| {
        crate::lab::notification(method, json!({})).header("mcp-session-id", session)
    };
    for (session, status) in [(&session, 202), (&session, 202), (&session, 429), (&other, 202)] {
        let response = lab.send(&note(session, "notifications/hang")).await;
        assert_eq!(response.status(), status, "{}", response.text());
    }
    let full = lab.send(&note(&other, "notifications/hang")).await;
    refused(&full, 503, -32603, Value::Null);
    assert!(full.head.get("retry-after").is_some());
    assert_eq!(lab.fixture.running(), 3, "those refused do not run on");
    assert_eq!(lab.send(&note(&session, "notifications/quick")).await.status(), 202);
    lab.send(&delete(&session)).await;
    lab.fixture.until_running(1).await;
    assert_eq!(lab.send(&note(&other, "notifications/hang")).await.status(), 202);
}

#[tokio::test]
async fn calls_with_the_same_id_are_told_apart() {
    let limits = Limits { calls_per_session: 3, ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let session = lab.session("2025-11-25").await;
    let begin = |name: &str| {
        let (lab, call) = (lab.clone(), call(&session, 7, "puppet", json!({"name": name})));
        tokio::spawn(async move { lab.send(&call).await })
    };
    let (one, two, three) = (begin("one"), begin("two"), begin("three"));
    let first = lab.fixture.puppet("one").await;
    let mut others = [lab.fixture.puppet("two").await, lab.fixture.puppet("three").await];
    refused(&lab.send(&call(&session, 7, "hang", json!({}))).await, 429, -32603, json!(7));
    first.finish("done");
    assert_eq!(text_of(&one.await.unwrap().json()), "done");
    let cancel = crate::lab::notification("notifications/cancelled", json!({"requestId": 7}));
    lab.send(&cancel.header("mcp-session-id", &session)).await;
    for puppet in &mut others {
        puppet.gone().await;
    }
    for answer in [two, three] {
        refused(&answer.await.unwrap(), 200, -32800, json!(7));
    }
}

#[tokio::test]
async fn what_needs_a_session_is_503_when_there_are_too_many() {
    let limits = Limits { sessions: 1, ..Limits::default() };
    let lab = Lab::with(|endpoint| endpoint.limits(limits));
    let (first, second) = (lab.session("2025-11-25").await, lab.session("2025-11-25").await);
    let _open = lab.open(&get(&first)).await;
    for method in ["logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        let request = Request::legacy(PATH, 7, method, json!({"level": "error", "uri": "x:y"}));
        let response = lab.send(&request.header("mcp-session-id", &second)).await;
        refused(&response, 503, -32603, json!(7));
        assert!(response.head.get("retry-after").is_some(), "{method}");
    }
    let asked = lab.send(&call(&second, 7, "ask", json!({}))).await;
    assert!(asked.text().contains("too many live sessions"), "{}", asked.text());
    succeeded(&lab.send(&call(&second, 7, "echo", json!({}))).await, 7);
}

/// Reliability row 25: whoever starts sessions and forgets them costs nothing.
#[tokio::test]
async fn release_abandoned_handshakes_keep_nothing() {
    const SESSIONS: usize = 100_000;
    let lab = Lab::new();
    let request = initialize("2025-11-25");
    for _ in 0..2000 {
        lab.send(&request).await;
    }
    let before = resident_kb();
    for _ in 0..SESSIONS {
        assert_eq!(lab.send(&request).await.status(), 200);
    }
    let grown = resident_kb().saturating_sub(before);
    // 38 KiB per session, as seen elsewhere, would be 3.6 GiB. Other tests may run beside this one.
    assert!(grown < 50 << 10, "{grown} KiB for {SESSIONS} sessions");
    assert_eq!(lab.fixture.live_sessions(), 0);
}

#[tokio::test]
async fn session_ended_elsewhere_is_ended_here() {
    let directory = tempfile::tempdir().unwrap();
    let sealer = std::sync::Arc::new(lyceum_http::Sealer::ephemeral());
    let one = Lab::with(|endpoint| {
        endpoint.sealer(sealer.clone()).revocations(directory.path().join("ended"))
    });
    let other = Lab::with(|endpoint| {
        endpoint.sealer(sealer.clone()).revocations(directory.path().join("ended"))
    });
    let (session, kept) = (one.session("2025-11-25").await, one.session("2025-11-25").await);
    let mut stream = other.open(&crate::lab::get(&session)).await;
    let ping = |session: &str| {
        Request::legacy(PATH, 1, "ping", json!({})).header("mcp-session-id", session)
    };
    assert_eq!(other.send(&ping(&session)).await.status(), 200);
    let end = Request::new("DELETE", PATH).header("mcp-session-id", &session);
    assert_eq!(one.send(&end).await.status(), 200);
    let ended = tokio::time::timeout(tokio::time::Duration::from_secs(10), stream.rest());
    ended.await.expect("its stream ends");
    assert_eq!(other.send(&ping(&session)).await.status(), 404);
    assert_eq!(other.send(&ping(&kept)).await.status(), 200);
}
