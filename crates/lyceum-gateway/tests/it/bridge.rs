//! What happens between the eras when clients lack something, answer wrongly, or leave.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lyceum_gateway::{Share, UpstreamConfig};
use lyceum_http::client::{CallOptions, ClientError, Peer};
use lyceum_wire::{ErrorCode, Revision, RevisionSet, RpcError};
use serde_json::{Value, json};

use crate::house::{House, Way, fixture_upstream, text};
use crate::mirror::{Mirror, Reply};

const CAPABLE: &str = r#"{"elicitation":{},"sampling":{},"roots":{}}"#;

async fn raw(
    peer: &Peer,
    method: &str,
    params: Value,
    capabilities: &'static str,
) -> Result<Value, ClientError> {
    let options = CallOptions::new().capabilities(capabilities).hand_back_input_requests();
    let result = peer.call_with(method, params.to_string(), &options).await?;
    Ok(serde_json::from_slice(&result).unwrap())
}

async fn call(peer: &Peer, params: Value) -> Result<Value, ClientError> {
    raw(peer, "tools/call", params, CAPABLE).await
}

async fn modern(house: &House) -> Peer {
    house.client_with(Revision::V2026_07_28, (), CAPABLE).await
}

fn answer(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

fn code(ended: Result<Value, ClientError>) -> i32 {
    match ended {
        Err(ClientError::Rpc(error)) => error.code.0,
        other => panic!("no error: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_call_asks_again_until_it_is_answered_rightly() {
    for way in [Way::Http, Way::HttpSse, Way::Stdio] {
        let house = House::new(way, RevisionSet::LEGACY).await;
        let peer = modern(&house).await;
        let asked = call(&peer, json!({"name": "up_ask"})).await.unwrap();
        assert_eq!(asked["resultType"], "input_required", "{way:?}: {asked}");
        let request = &asked["inputRequests"]["elicitation-1"];
        assert_eq!(request["method"], "elicitation/create", "{way:?}: {asked}");
        assert_eq!(request["params"]["message"], "Who are you?");
        let mut state = asked["requestState"].clone();
        for wrong in [json!({}), json!({"other": answer("X")}), json!({"elicitation-1": "text"})] {
            let again = call(
                &peer,
                json!({"name": "up_ask", "requestState": state, "inputResponses": wrong}),
            )
            .await
            .unwrap();
            assert_eq!(again["inputRequests"]["elicitation-1"], *request, "{way:?}: {again}");
            state = again["requestState"].clone();
        }
        let right = json!({"elicitation-1": answer("Ada"), "extra": 1});
        let retry = json!({"name": "up_ask", "requestState": state, "inputResponses": right});
        let ended = call(&peer, retry.clone()).await.unwrap();
        assert_eq!(ended["content"][0]["text"], "Hello, Ada!", "{way:?}: {ended}");
        assert_eq!(code(call(&peer, retry).await), -32602, "a handle is good for one answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_that_are_asked_together_reach_the_client_together() {
    for way in [Way::Http, Way::HttpSse, Way::Stdio] {
        let house = House::new(way, RevisionSet::LEGACY).await;
        let peer = modern(&house).await;
        let mut asked = Value::Null;
        // One may be late where the machine is busy, but not always.
        for _ in 0..5 {
            asked = call(&peer, json!({"name": "up_ask_both"})).await.unwrap();
            if asked["inputRequests"].as_object().unwrap().len() == 2 {
                break;
            }
        }
        let requests = asked["inputRequests"].as_object().unwrap();
        let keys: Vec<_> = requests.keys().collect();
        assert_eq!(keys, ["elicitation-1", "elicitation-2"], "{way:?}: {asked}");
        // Whichever is the first.
        let messages = requests.values().map(|request| request["params"]["message"].as_str());
        let names = messages.map(|message| answer(message.unwrap_or_default()));
        let responses: Value = keys.into_iter().cloned().zip(names).collect();
        let retry = json!({"name": "up_ask_both", "requestState": asked["requestState"],
            "inputResponses": responses});
        let ended = call(&peer, retry).await.unwrap();
        assert_eq!(ended["content"][0]["text"], "First? and Second?", "{way:?}: {ended}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_of_every_kind_that_are_asked_at_once_are_one_round() {
    let kinds = ["elicitation/create", "roots/list", "sampling/createMessage"];
    for way in [Way::Http, Way::HttpSse, Way::Stdio] {
        let house = House::new(way, RevisionSet::LEGACY).await;
        let peer = modern(&house).await;
        let mut asked = Value::Null;
        // One may be late where the machine is busy, but not always.
        for _ in 0..5 {
            asked = call(&peer, json!({"name": "up_ask_all"})).await.unwrap();
            if asked["inputRequests"].as_object().unwrap().len() == 3 {
                break;
            }
        }
        let requests = asked["inputRequests"].as_object().unwrap();
        let mut methods: Vec<_> = requests.values().map(|request| &request["method"]).collect();
        methods.sort_by_key(|method| method.to_string());
        assert_eq!(methods, kinds, "{way:?}: {asked}");
        let reply = |request: &Value| match request["method"].as_str() {
            Some("elicitation/create") => answer("Ada"),
            Some("roots/list") => json!({"roots": [{"uri": "file:///a"}]}),
            _ => {
                json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "hm"}})
            }
        };
        let responses = requests.iter().map(|(key, request)| (key.clone(), reply(request)));
        let retry = json!({"name": "up_ask_all", "requestState": asked["requestState"],
            "inputResponses": responses.collect::<Value>()});
        let ended = call(&peer, retry).await.unwrap();
        assert_eq!(ended["content"][0]["text"], "Ada, hm, 1 roots", "{way:?}: {ended}");
    }
}

#[tokio::test]
async fn a_held_call_has_one_time_limit_however_often_its_client_comes_back() {
    // A process of its own, so that its clock is left alone.
    let house = House::new(Way::Stdio, RevisionSet::LEGACY).await;
    let peer = modern(&house).await;
    let asked = call(&peer, json!({"name": "up_ask"})).await.unwrap();
    // In small steps, so that connections are kept alive meanwhile.
    let later = async |minutes: u64| {
        for _ in 0..minutes * 12 {
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(5)).await;
            tokio::time::resume();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let come_back = async |state: &Value, responses: Value| {
        let retry = json!({"name": "up_ask", "requestState": state, "inputResponses": responses});
        call(&peer, retry).await
    };
    later(6).await;
    let again = come_back(&asked["requestState"], json!({})).await.unwrap();
    assert_eq!(again["resultType"], "input_required", "{again}");
    later(5).await;
    let answers = json!({"elicitation-1": answer("Ada")});
    assert_eq!(code(come_back(&again["requestState"], answers).await), -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_no_shape_are_refused_and_the_call_goes_on() {
    let house = House::new(Way::Http, RevisionSet::LEGACY).await;
    let peer = modern(&house).await;
    let asked = call(&peer, json!({"name": "up_ask"})).await.unwrap();
    let state = &asked["requestState"];
    let bad = json!({"name": "up_ask", "requestState": state, "inputResponses": [1]});
    assert_eq!(code(call(&peer, bad).await), -32602);
    let good = json!({"name": "up_ask", "requestState": state, "inputResponses": {"elicitation-1": answer("Bo")}});
    assert_eq!(call(&peer, good).await.unwrap()["content"][0]["text"], "Hello, Bo!");
}

#[tokio::test(flavor = "multi_thread")]
async fn state_is_good_for_its_own_call_only() {
    for served in [RevisionSet::LEGACY, RevisionSet::MODERN] {
        let house = House::new(Way::Http, served).await;
        let peer = modern(&house).await;
        let asked = call(&peer, json!({"name": "up_ask"})).await.unwrap();
        let state = asked["requestState"].as_str().unwrap();
        let (key, _) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
        let answers = json!({ key: answer("Ada") });
        let altered: String = state.chars().rev().collect();
        for (name, state) in [("up_think", state), ("up_ask", altered.as_str()), ("up_ask", "")] {
            let stolen = json!({"name": name, "requestState": state, "inputResponses": answers});
            assert_eq!(code(call(&peer, stolen).await), -32602, "{name} {state}");
        }
        let own = json!({"name": "up_ask", "requestState": state, "inputResponses": answers});
        assert_eq!(call(&peer, own).await.unwrap()["content"][0]["text"], "Hello, Ada!");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_cannot_be_asked_is_told_at_once() {
    for (way, served) in [
        (Way::Http, RevisionSet::LEGACY),
        (Way::Http, RevisionSet::MODERN),
        (Way::HttpSse, RevisionSet::LEGACY),
        (Way::Stdio, RevisionSet::LEGACY),
        (Way::Stdio, RevisionSet::MODERN),
    ] {
        let house = House::new(way, served).await;
        let peer = house.client_with(Revision::V2026_07_28, (), "{}").await;
        let refused = raw(&peer, "tools/call", json!({"name": "up_ask"}), "{}").await;
        let Err(ClientError::Rpc(error)) = refused else { panic!("{way:?}: {refused:?}") };
        assert_eq!(error.code.0, -32021, "{way:?} {served:?}: {error:?}");
        let data: Value = serde_json::from_slice(&error.data.unwrap()).unwrap();
        assert!(data["requiredCapabilities"]["elicitation"].is_object(), "{data}");
        // The upstream is not left hanging, and a legacy client is told by the upstream.
        let old = house.client_with(Revision::V2025_06_18, (), "{}").await;
        let options = CallOptions::new().silence(std::time::Duration::from_secs(5));
        let told = old.call_tool("up_ask", "{}", &options).await;
        let failed = match &told {
            Ok(result) => String::from_utf8_lossy(result).contains("\"isError\":true"),
            Err(error) => error.rpc().is_some(),
        };
        assert!(failed, "{way:?} {served:?}: {told:?}");
        assert_eq!(text(&peer, "up_echo", json!({"text": "on"})).await.unwrap(), "on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_members_and_odd_numbers_survive_the_way_there_and_back() {
    // What the upstream gets is what the client wrote; what the client gets is what it answered.
    let upstream = crate::mirror::Mirror::start().await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let arguments = r#"{"z":1.0,"a":123456789012345678901234567890,"s":"\u00e9\ud83d\ude00","n":[1,  2],"e":1e400}"#;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let peer = house.client_with(revision, (), "{}").await;
        let params = format!(
            r#"{{"vendor":[1.50],"name":"up_mirror","arguments":{arguments},"_meta":{{"traceparent":"00-a-b-01","vendor/x":1.0}}}}"#
        );
        let result = peer.call("tools/call", params).await.unwrap();
        let result = String::from_utf8(result.to_vec()).unwrap();
        assert!(result.contains(r#""odd":{"b":1.0,"a":1e3}"#), "{result}");
        let seen = upstream.last();
        assert!(seen.contains(&format!(r#""arguments":{arguments}"#)), "{seen}");
        assert!(seen.contains(r#""vendor":[1.50],"name":"mirror""#), "{seen}");
        assert!(seen.contains(r#""traceparent":"00-a-b-01","vendor/x":1.0"#), "{seen}");
    }
}

/// Upstreams that say everything on one stream, which does not tell whose a question is.
const ONE_STREAM: [(Way, Share); 4] = [
    (Way::HttpSse, Share::Shared),
    (Way::Stdio, Share::Shared),
    (Way::HttpSse, Share::PerSession),
    (Way::Stdio, Share::PerSession),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_its_client_is_in_nobodys_way() {
    for (way, share) in ONE_STREAM {
        let (config, upstream) = fixture_upstream(way, RevisionSet::LEGACY).await;
        let house = House::with(vec![UpstreamConfig { share, ..config }], upstream).await;
        let peers = [modern(&house).await, modern(&house).await];
        let mut states = Vec::new();
        for peer in &peers {
            let asked = call(peer, json!({"name": "up_ask"})).await.unwrap();
            assert_eq!(asked["resultType"], "input_required", "{way:?} {share:?}: {asked}");
            states.push(asked["requestState"].clone());
        }
        for (peer, (state, name)) in peers.iter().zip(states.iter().zip(["Ada", "Bo"])) {
            let answers = json!({"elicitation-1": answer(name)});
            let retry = json!({"name": "up_ask", "requestState": state, "inputResponses": answers});
            let ended = call(peer, retry).await.unwrap();
            assert_eq!(ended["content"][0]["text"], format!("Hello, {name}!"), "{way:?} {share:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_for_their_clients_leave_a_connection_for_others() {
    for (way, share) in ONE_STREAM {
        let (config, _running) = fixture_upstream(way, RevisionSet::LEGACY).await;
        // Besides the one that all share, if they do.
        let max_connections = if share == Share::Shared { 2 } else { 3 };
        let config = UpstreamConfig { share, max_connections, ..config };
        let house = House::with(vec![config], None).await;
        let peer = modern(&house).await;
        let ask = async || call(&peer, json!({"name": "up_ask"})).await;
        let mut states = Vec::new();
        for _ in 0..2 {
            states.push(ask().await.unwrap()["requestState"].clone());
        }
        for _ in 0..3 {
            let refused = ask().await.unwrap_err().to_string();
            assert!(refused.contains("as many calls of up wait"), "{way:?} {share:?}: {refused}");
            let echo = json!({"name": "up_echo", "arguments": {"text": "x"}});
            let ended = call(&peer, echo).await.unwrap();
            assert_eq!(ended["content"][0]["text"], "x", "{way:?} {share:?}: {ended}");
        }
        for state in states {
            let answers = json!({"elicitation-1": answer("Ada")});
            let retry = json!({"name": "up_ask", "requestState": state, "inputResponses": answers});
            let ended = call(&peer, retry).await.unwrap();
            assert_eq!(ended["content"][0]["text"], "Hello, Ada!", "{way:?} {share:?}: {ended}");
            let asked = ask().await.unwrap();
            assert_eq!(asked["resultType"], "input_required", "{way:?} {share:?}: {asked}");
        }
    }
}

/// The capabilities of the last client that shook hands with a mirror.
fn declared(upstream: &crate::mirror::Mirror) -> Value {
    let seen = upstream.everything();
    let (_, last) = seen.rsplit_once(r#""method":"initialize""#).unwrap();
    let line = last.lines().next().unwrap();
    let body = format!("{{{}", line.trim_start_matches(','));
    serde_json::from_str::<Value>(&body).unwrap()["params"]["capabilities"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_a_connection_of_its_own_is_introduced_as_it_is() {
    let upstream = crate::mirror::Mirror::start().await;
    let config = UpstreamConfig { share: Share::PerSession, ..upstream.config("up") };
    let house = House::with(vec![config], None).await;
    let everything = json!({
        "elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}, "roots": {},
    });
    for (revision, capabilities, expected) in [
        (Revision::V2025_11_25, "{}", json!({})),
        (
            Revision::V2025_06_18,
            r#"{"roots":{"listChanged":true},"elicitation":{}}"#,
            json!({"elicitation": {"form": {}}, "roots": {"listChanged": true}}),
        ),
        (Revision::V2025_11_25, r#"{"sampling":{"tools":{}}}"#, json!({"sampling": {"tools": {}}})),
        // Another request of a modern client may well say something else.
        (Revision::V2026_07_28, "{}", everything),
    ] {
        let peer = house.client_with(revision, (), capabilities).await;
        peer.call_tool("up_mirror", "{}", &CallOptions::new()).await.unwrap();
        assert_eq!(declared(&upstream), expected, "{revision} {capabilities}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn roots_that_change_are_told_to_the_sessions_own_connection_only() {
    const CHANGED: &str = "notifications/roots/list_changed";
    let (own, shared) =
        (crate::mirror::Mirror::start().await, crate::mirror::Mirror::start().await);
    let per_session = UpstreamConfig { share: Share::PerSession, ..own.config("own") };
    let house = House::with(vec![per_session, shared.config("shared")], None).await;
    let able = r#"{"roots":{"listChanged":true}}"#;
    let (peer, other) = (
        house.client_with(Revision::V2025_06_18, (), able).await,
        house.client_with(Revision::V2025_06_18, (), able).await,
    );
    // Nobody has a connection yet, so there is nobody to tell.
    other.notify(CHANGED, "").await.unwrap();
    for tool in ["own_mirror", "shared_mirror"] {
        peer.call_tool(tool, "{}", &CallOptions::new()).await.unwrap();
    }
    other.notify(CHANGED, "").await.unwrap();
    peer.notify(CHANGED, "").await.unwrap();
    for _ in 0..300 {
        if own.everything().contains(CHANGED) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(own.everything().matches(CHANGED).count(), 1);
    assert_eq!(shared.everything().matches(CHANGED).count(), 0);
}

/// An upstream that wants a page to be visited before it does anything, and forgets it at once.
async fn visited() -> Mirror {
    let n_calls = AtomicUsize::new(0);
    Mirror::answering(move |request| match request.method.as_str() {
        "tools/call" if n_calls.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) => {
            let data = r#"{"elicitations":[{"mode":"url","elicitationId":"1","url":"https://a.test/","message":"m"}]}"#;
            let error = RpcError::new(ErrorCode::URL_ELICITATION_REQUIRED, "visit").with_data(data);
            let body = lyceum_wire::encode::error(Some(&request.id), &error);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
            Reply::Bytes([format!("{head} {}\r\n\r\n", body.len()).as_bytes(), &body].concat())
        }
        method => crate::mirror::plain(method),
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_to_visit_is_asked_for_and_the_call_made_again() {
    let upstream = visited().await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let peer = modern(&house).await;
    let able = r#"{"elicitation":{"url":{}}}"#;
    let asked = raw(&peer, "tools/call", json!({"name": "up_mirror"}), able).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let request = &asked["inputRequests"]["elicitation-1"];
    assert_eq!(request["params"]["url"], "https://a.test/", "{asked}");
    assert!(request["params"].get("elicitationId").is_none(), "{asked}");
    let retry = json!({
        "name": "up_mirror", "requestState": asked["requestState"],
        "inputResponses": {"elicitation-1": {"action": "accept"}},
    });
    let ended = raw(&peer, "tools/call", retry, able).await.unwrap();
    assert_eq!(ended["resultType"], "complete", "{ended}");
    let seen = upstream.last_body();
    assert!(!seen.contains("inputResponses") && !seen.contains("requestState"), "{seen}");
    // Who cannot visit pages is not asked to.
    let unable = raw(&peer, "tools/call", json!({"name": "up_mirror"}), CAPABLE).await;
    assert_eq!(code(unable), -32021);
    let old = house.client_with(Revision::V2025_11_25, (), able).await;
    upstream_again(&old).await;
}

/// Makes the one call in between, and sees a legacy client get the upstream's own error.
async fn upstream_again(old: &Peer) {
    let params = json!({"name": "up_mirror"});
    old.call("tools/call", params.to_string()).await.unwrap();
    let told = old.call("tools/call", params.to_string()).await.unwrap_err();
    assert_eq!(told.rpc().map(|error| error.code.0), Some(-32042), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_could_be_anybodys_is_nobodys() {
    // Nothing tells two clients without credentials apart, so they are never taken for one.
    for way in [Way::HttpSse, Way::Stdio] {
        let house = House::new(way, RevisionSet::LEGACY).await;
        let (asker, other) = (modern(&house).await, modern(&house).await);
        let asking =
            tokio::spawn(async move { call(&asker, json!({"name": "up_ask_late"})).await });
        let waiting = tokio::spawn(async move { call(&other, json!({"name": "up_wait"})).await });
        let asked = asking.await.unwrap();
        let is_told = asked.as_ref().map_or(true, |result| result["isError"] == true);
        assert!(is_told, "{way:?}: {asked:?}");
        assert!(!waiting.is_finished(), "{way:?}: {:?}", waiting.await);
        waiting.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_told_on_the_stream_of_a_call_that_waits_are_heard() {
    let upstream = Mirror::answering(|request| match request.method.as_str() {
        "tools/call" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            let ask =
                json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
            let ask =
                json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": ask});
            let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
            Reply::Endless(format!("{head}data: {ask}\n\n"), format!("data: {changed}\n\n").into())
        }
        method => crate::mirror::plain(method),
    })
    .await;
    let house = House::with(vec![upstream.config("up")], None).await;
    let peer = modern(&house).await;
    let asked = call(&peer, json!({"name": "up_mirror"})).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    // What was told before nobody waited any more has been looked into by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = upstream.n_seen("tools/list");
    crate::house::until("nobody listens", || upstream.n_seen("tools/list") > before).await;
}
