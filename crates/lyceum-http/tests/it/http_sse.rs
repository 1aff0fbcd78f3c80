//! The transport of 2024-11-05: one stream for everything, one address to post to.

use bytes::Bytes;
use http_body_util::Full;
use lyceum_http::{HttpSse, Limits};
use lyceum_testkit::{Request, Response};
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};
use tower_service::Service;

use crate::fixture::Fixture;
use crate::lab::{Lab, Live, PATH, call, in_process, text_of, whole};
use crate::matrix::{Bearer, refused};

/// Both doors of the old transport, and the endpoint behind them.
struct Old {
    lab: Lab,
    service: HttpSse<Fixture>,
}

impl Old {
    fn new(lab: Lab) -> Self {
        let service = lab.endpoint.http_sse("/messages");
        Self { lab, service }
    }

    async fn answer(&self, request: &Request) -> http::Response<lyceum_http::AnswerBody> {
        let request: http::Request<Full<Bytes>> = in_process(request);
        self.service.clone().call(request).await.unwrap()
    }

    async fn send(&self, request: &Request) -> Response {
        whole(self.answer(request).await).await
    }

    /// Opens a stream; returns it and the address it names.
    async fn open(&self) -> (Live, String) {
        self.open_with(&sse()).await
    }

    async fn open_with(&self, request: &Request) -> (Live, String) {
        let mut live = Live::of(self.answer(request).await);
        assert_eq!(live.head.status, 200);
        assert_eq!(live.head.get("content-type"), Some("text/event-stream; charset=utf-8"));
        let endpoint = live.next().await.unwrap();
        assert_eq!((&*endpoint.name, endpoint.id), ("endpoint", None));
        (live, endpoint.data)
    }

    /// Posts a message, which must be accepted.
    async fn post(&self, address: &str, body: Value) {
        let response = self.send(&Request::post(address, body.to_string())).await;
        assert_eq!((response.status(), response.text()), (202, "Accepted"));
    }
}

fn sse() -> Request {
    Request::new("GET", "/sse").header("accept", "text/event-stream")
}

fn rpc(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn tool(id: u64, name: &str, arguments: Value) -> Value {
    rpc(id, "tools/call", json!({"name": name, "arguments": arguments}))
}

#[tokio::test]
async fn whole_conversation_travels_on_the_one_stream() {
    let old = Old::new(Lab::new());
    let (mut live, address) = old.open().await;
    assert!(address.starts_with("/messages?session_id="), "{address}");
    let hello = json!({"protocolVersion": "2024-11-05", "capabilities": {}});
    old.post(&address, rpc(1, "initialize", hello)).await;
    let hello = live.next().await.unwrap().json();
    let hello = if hello["id"] == 1 { hello } else { live.next().await.unwrap().json() };
    assert_eq!(hello["result"]["protocolVersion"], "2024-11-05");
    old.post(&address, json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    assert_eq!(old.lab.fixture.notes(), 1);
    old.post(&address, tool(2, "burst", json!({"n": 2}))).await;
    for expected in ["1", "2"] {
        let event = live.next().await.unwrap();
        assert_eq!((&*event.name, event.id.clone()), ("message", None), "no ids, no resumption");
        assert_eq!(event.json()["params"]["data"], expected);
    }
    let answer = live.next().await.unwrap().json();
    assert_eq!((answer["id"].as_u64(), text_of(&answer)), (Some(2), "done"));
}

#[tokio::test]
async fn initialize_may_settle_on_any_legacy_revision() {
    let old = Old::new(Lab::new());
    for (asked, settled) in
        [("2025-11-25", "2025-11-25"), ("2025-03-26", "2025-03-26"), ("2026-07-28", "2025-11-25")]
    {
        let (mut live, address) = old.open().await;
        old.post(&address, rpc(1, "initialize", json!({"protocolVersion": asked}))).await;
        let mut answer = live.next().await.unwrap().json();
        if answer["id"].is_null() {
            answer = live.next().await.unwrap().json();
        }
        assert_eq!(answer["result"]["protocolVersion"], settled);
    }
    let (mut live, address) = old.open().await;
    old.post(&address, rpc(1, "initialize", json!({}))).await;
    assert_eq!(live.next().await.unwrap().json()["error"]["code"], -32602);
}

#[tokio::test]
async fn questions_are_asked_and_answered() {
    let old = Old::new(Lab::new());
    let (mut live, address) = old.open().await;
    old.post(&address, tool(1, "ask", json!({}))).await;
    let question = live.next().await.unwrap().json();
    assert_eq!(question["method"], "elicitation/create");
    old.post(&address, json!({"jsonrpc": "2.0", "id": question["id"], "result": {"yes": 1}})).await;
    assert_eq!(text_of(&live.next().await.unwrap().json()), r#"{"yes":1}"#);
}

#[tokio::test]
async fn calls_run_side_by_side_and_can_be_cancelled() {
    let old = Old::new(Lab::new());
    let (mut live, address) = old.open().await;
    old.post(&address, tool(1, "puppet", json!({"name": "one"}))).await;
    old.post(&address, tool(2, "puppet", json!({"name": "two"}))).await;
    let mut one = old.lab.fixture.puppet("one").await;
    old.lab.fixture.puppet("two").await.finish("two");
    assert_eq!(live.next().await.unwrap().json()["id"], 2);
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    old.post(&address, cancel).await;
    one.gone().await;
    old.post(&address, tool(3, "echo", json!({}))).await;
    assert_eq!(live.next().await.unwrap().json()["id"], 3, "a cancelled call has no answer");
}

#[tokio::test]
async fn announcements_arrive_on_the_stream() {
    let old = Old::new(Lab::new());
    let (mut live, _) = old.open().await;
    old.lab.fixture.announce("news");
    assert_eq!(live.next().await.unwrap().json()["params"]["data"], "news");
}

#[tokio::test]
async fn closing_the_stream_ends_the_session_and_its_calls() {
    let old = Old::new(Lab::new());
    let (live, address) = old.open().await;
    old.post(&address, tool(1, "puppet", json!({"name": "p"}))).await;
    let mut puppet = old.lab.fixture.puppet("p").await;
    drop(live);
    timeout(Duration::from_secs(2), puppet.gone()).await.unwrap();
    let response = old.send(&Request::post(&address, rpc(2, "ping", json!({})).to_string())).await;
    refused(&response, 404, -32600, Value::Null);
    old.lab.fixture.until_running(0).await;
    assert_eq!(old.lab.fixture.live_sessions(), 0);
}

#[tokio::test]
async fn missing_or_malformed_session_is_400_and_unknown_404() {
    let old = Old::new(Lab::new());
    let (_live, address) = old.open().await;
    let (_, id) = address.split_once("session_id=").unwrap();
    let ping = rpc(1, "ping", json!({})).to_string();
    for (address, status) in [
        ("/messages", 400),
        ("/messages?", 400),
        ("/messages?session=x", 400),
        ("/messages?session_id=", 400),
        ("/messages?session_id=x", 400),
        ("/messages?session_id=../../etc", 400),
        (&*format!("/messages?session_id={id}AAAA"), 400),
        (&*format!("/messages?session_id={}", &id[4..]), 400),
        (&*format!("/messages?session_id={}", id.replace(&id[..1], ".")), 400),
        (&*format!("/messages?session_id={}{}", "A".repeat(20), &id[20..]), 404),
    ] {
        let response = old.send(&Request::post(address, ping.clone())).await;
        refused(&response, status, -32600, Value::Null);
    }
    // The other spelling of the parameter, and parameters beside it.
    for address in [format!("/messages?sessionId={id}"), format!("/messages?a=b&session_id={id}&c")]
    {
        let response = old.send(&Request::post(&address, ping.clone())).await;
        assert_eq!(response.status(), 202, "{address}");
    }
}

#[tokio::test]
async fn session_of_the_old_transport_is_worthless_at_the_new_endpoint_and_vice_versa() {
    let old = Old::new(Lab::new());
    let (_live, address) = old.open().await;
    let (_, id) = address.split_once("session_id=").unwrap();
    refused(&old.lab.send(&call(id, 1, "echo", json!({}))).await, 404, -32600, Value::Null);
    let session = old.lab.session("2024-11-05").await;
    let address = format!("/messages?session_id={session}");
    let response = old.send(&Request::post(&address, rpc(1, "ping", json!({})).to_string())).await;
    refused(&response, 404, -32600, Value::Null);
}

#[tokio::test]
async fn session_of_another_principal_is_404() {
    let old = Old::new(Lab::with(|endpoint| endpoint.authenticate(Bearer::shared())));
    refused(&old.send(&sse()).await, 401, -32000, Value::Null);
    let ana = sse().header("authorization", "Bearer ana");
    let (_live, address) = old.open_with(&ana).await;
    let post = Request::post(&address, rpc(1, "ping", json!({})).to_string());
    refused(&old.send(&post).await, 401, -32000, Value::Null);
    let bob = post.clone().header("authorization", "Bearer bob");
    refused(&old.send(&bob).await, 404, -32600, Value::Null);
    let ana = post.header("authorization", "Bearer ana");
    assert_eq!(old.send(&ana).await.status(), 202);
}

#[tokio::test]
async fn what_cannot_be_read_is_refused() {
    let limits = Limits { body_bytes: 500, ..Limits::default() };
    let old = Old::new(Lab::with(|endpoint| endpoint.limits(limits)));
    let (_live, address) = old.open().await;
    let before = old.lab.fixture.invocations();
    let ping = rpc(1, "ping", json!({})).to_string();
    for (body, status, code) in [
        ("{".to_owned(), 400, -32700),
        ("{}".to_owned(), 400, -32600),
        (format!("[{ping}]"), 400, -32600),
        (format!("{ping}{}", " ".repeat(500)), 413, -32600),
    ] {
        let response = old.send(&Request::post(&address, body)).await;
        refused(&response, status, code, Value::Null);
    }
    let gzip = Request::post(&address, ping).header("content-encoding", "gzip");
    refused(&old.send(&gzip).await, 415, -32600, Value::Null);
    assert_eq!(old.lab.fixture.invocations(), before);
}

#[tokio::test]
async fn other_methods_are_405() {
    let old = Old::new(Lab::new());
    for (method, path, allow) in [
        ("POST", "/sse", "GET"),
        ("DELETE", "/sse", "GET"),
        ("GET", "/messages", "POST"),
        ("PUT", "/messages", "POST"),
    ] {
        let response = old.send(&Request::new(method, path)).await;
        refused(&response, 405, -32600, Value::Null);
        assert_eq!(response.head.get("allow"), Some(allow));
    }
}

#[tokio::test]
async fn host_and_origin_are_judged_at_both_doors() {
    let old = Old::new(Lab::new());
    let (_live, address) = old.open().await;
    let before = old.lab.fixture.invocations();
    for request in [sse(), Request::post(&address, rpc(1, "ping", json!({})).to_string())] {
        refused(
            &old.send(&request.clone().set("host", "evil.example")).await,
            421,
            -32600,
            Value::Null,
        );
        let evil = request.header("origin", "http://evil.example");
        refused(&old.send(&evil).await, 403, -32600, Value::Null);
    }
    assert_eq!(old.lab.fixture.invocations(), before);
}

#[tokio::test]
async fn version_header_is_neither_needed_nor_refused() {
    let old = Old::new(Lab::new());
    let (mut live, address) =
        old.open_with(&sse().header("mcp-protocol-version", "2025-11-25")).await;
    let ping = Request::post(&address, rpc(1, "ping", json!({})).to_string());
    let response = old.send(&ping.header("mcp-protocol-version", "2025-11-25")).await;
    assert_eq!(response.status(), 202);
    assert_eq!(live.next().await.unwrap().json()["id"], 1);
}

#[tokio::test]
async fn streams_are_off_when_sse_is_off() {
    let old = Old::new(Lab::with(|endpoint| endpoint.sse(false)));
    refused(&old.send(&sse()).await, 404, -32600, Value::Null);
}

#[tokio::test]
async fn too_many_streams_are_503() {
    let limits = Limits { sessions: 2, ..Limits::default() };
    let old = Old::new(Lab::with(|endpoint| endpoint.limits(limits)));
    let (first, _) = old.open().await;
    let _second = old.open().await;
    let response = old.send(&sse()).await;
    refused(&response, 503, -32603, Value::Null);
    assert!(response.head.get("retry-after").is_some());
    drop(first);
    old.open().await;
}

#[tokio::test]
async fn streams_and_calls_of_one_principal_are_bounded() {
    let limits = Limits { sessions_per_principal: 1, calls_per_principal: 1, ..Limits::default() };
    let old =
        Old::new(Lab::with(|endpoint| endpoint.limits(limits).authenticate(Bearer::shared())));
    let by =
        |name: &str, request: Request| request.header("authorization", &format!("Bearer {name}"));
    for name in ["ana", "bob"] {
        let (_live, address) = old.open_with(&by(name, sse())).await;
        let another = timeout(Duration::from_secs(5), old.send(&by(name, sse()))).await;
        refused(&another.expect("no stream"), 429, -32603, Value::Null);
        let hang = |id| by(name, Request::post(&address, tool(id, "hang", json!({})).to_string()));
        assert_eq!(old.send(&hang(1)).await.status(), 202);
        refused(&old.send(&hang(2)).await, 429, -32603, json!(2));
    }
}

#[tokio::test]
async fn client_that_posts_without_reading_is_held_back() {
    let limits = Limits { calls_per_session: 4, stream_bytes: 10_000, ..Limits::default() };
    let old = Old::new(Lab::with(|endpoint| endpoint.limits(limits)));
    let (mut live, address) = old.open().await;
    let mut accepted = 0;
    let refusal = loop {
        let big = tool(accepted, "big", json!({"bytes": 9000})).to_string();
        let response = old.send(&Request::post(&address, big)).await;
        if response.status() != 202 {
            break response;
        }
        accepted += 1;
        assert!(accepted < 50, "answers pile up without bound");
        tokio::task::yield_now().await;
    };
    refused(&refusal, 429, -32603, json!(accepted));
    assert!(refusal.head.get("retry-after").is_some());
    for id in 0..accepted {
        assert_eq!(live.next().await.unwrap().json()["id"], id, "every accepted call is answered");
    }
}

#[tokio::test]
async fn panicking_and_endless_notifications_hold_up_nothing() {
    let old = Old::new(Lab::new());
    let (mut live, address) = old.open().await;
    for method in ["notifications/panic", "notifications/hang"] {
        let note = json!({"jsonrpc": "2.0", "method": method});
        timeout(Duration::from_secs(2), old.post(&address, note)).await.unwrap();
    }
    old.post(&address, tool(1, "panic", json!({}))).await;
    assert_eq!(live.next().await.unwrap().json()["error"]["code"], -32603);
}

#[tokio::test]
async fn notifications_that_take_time_are_bounded_and_end_with_the_stream() {
    let limits = Limits { calls_per_session: 2, ..Limits::default() };
    let old = Old::new(Lab::with(|endpoint| endpoint.limits(limits)));
    let (live, address) = old.open().await;
    let hang = json!({"jsonrpc": "2.0", "method": "notifications/hang"});
    for _ in 0..2 {
        old.post(&address, hang.clone()).await;
    }
    let refusal = old.send(&Request::post(&address, hang.to_string())).await;
    refused(&refusal, 429, -32603, Value::Null);
    assert_eq!(old.lab.fixture.running(), 2);
    drop(live);
    timeout(Duration::from_secs(5), old.lab.fixture.until_running(0)).await.unwrap();
}

#[tokio::test]
async fn conversation_works_over_sockets() {
    let lab = Lab::new();
    let server = lab.serve().await;
    let (_, mut events) = server.connect().await.stream(&sse()).await;
    let address = events.next().await.unwrap().data;
    let mut poster = server.connect().await;
    for id in 0..3 {
        let request = Request::post(&address, tool(id, "echo", json!({"text": "hi"})).to_string());
        let response = poster.call(&request).await;
        assert_eq!((response.status(), response.text()), (202, "Accepted"));
        assert_eq!(events.next().await.unwrap().json()["id"], id);
    }
    // The endpoint at its own path is another door altogether.
    let session = poster.call(&crate::lab::initialize("2025-06-18")).await;
    assert!(session.head.get("mcp-session-id").is_some(), "{PATH}");
    events.into_connection().reset();
    let gone = Request::post(&address, rpc(9, "ping", json!({})).to_string());
    timeout(Duration::from_secs(5), async {
        while poster.call(&gone).await.status() != 404 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}
