//! Stateless servers: every request says everything about itself.

use std::sync::{Arc, Mutex};

use lyceum_http::client::{CallOptions, ClientError};
use lyceum_wire::{LogLevel, Revision};

use super::script::{Script, Then, error, events, modern, result};
use super::{Echo, client, connect, limits};

/// The `_meta` members every request of these tests carries.
const META: &str = concat!(
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"#,
    r#""io.modelcontextprotocol/clientCapabilities":{}"#
);

fn request(routing: &str, body: &str) -> String {
    let body = body.replace("META", META);
    format!(
        "POST /mcp HTTP/1.1\nhost: HOST\n\
         content-type: application/json\naccept: application/json, text/event-stream\n\
         mcp-protocol-version: 2026-07-28\n{routing}\n\n{body}"
    )
}

const TOOLS: &str = r#"{"tools":[{"name":"sql","inputSchema":{"properties":{"region":{"type":"string","x-mcp-header":"Region"}}}},{"name":"bad","inputSchema":{"properties":{"x":{"type":"string","x-mcp-header":""}}}}]}"#;

#[tokio::test]
async fn requests_carry_their_metadata_in_body_and_headers() {
    let done = r#"{"content":[],"unknown":1.0}"#;
    let scenes = [
        modern(),
        result("tools/list", TOOLS),
        result("tools/call", done),
        result("resources/read", done),
        result("prompts/get", done),
    ];
    let script = Script::play(scenes).await;
    let server = connect(&script).await;
    assert_eq!(server.revision(), Revision::V2026_07_28);
    assert_eq!(server.capabilities().unwrap(), "{}");
    let tools = server.list_tools().await.unwrap();
    assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["sql"]);
    let arguments = r#"{"region": "Zürich", "q":1.0}"#;
    let called = server.call_tool("sql", arguments, &CallOptions::new()).await.unwrap();
    assert_eq!(called, done);
    let uri = r#"{"uri":"file:///a%20b?q","_meta":{"traceparent":"00-1"}}"#;
    server.call("resources/read", uri).await.unwrap();
    let options = CallOptions::new().capabilities(r#"{"roots":{}}"#).log_level(LogLevel::Info);
    server.call_with("prompts/get", r#"{"name":"p"}"#, &options).await.unwrap();

    let prompt = r#"{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"p","_meta":{META,"io.modelcontextprotocol/logLevel":"info"}}}"#;
    let expected = [
        request(
            "mcp-method: server/discover",
            r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{META}}}"#,
        ),
        request(
            "mcp-method: tools/list",
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{META}}}"#,
        ),
        request(
            "mcp-method: tools/call\nmcp-name: sql\nmcp-param-region: =?base64?WsO8cmljaA==?=",
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"sql","arguments":{"region": "Zürich", "q":1.0},"_meta":{META}}}"#,
        ),
        request(
            "mcp-method: resources/read\nmcp-name: file:///a%20b?q",
            r#"{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"file:///a%20b?q","_meta":{"traceparent":"00-1",META}}}"#,
        ),
        request("mcp-method: prompts/get\nmcp-name: p", prompt)
            .replace(r#"clientCapabilities":{}"#, r#"clientCapabilities":{"roots":{}}"#),
    ];
    assert_eq!(script.requests(), expected);
}

#[tokio::test]
async fn an_invalid_tool_is_never_called() {
    let script = Script::play([modern(), result("tools/list", TOOLS)]).await;
    let server = connect(&script).await;
    server.list_tools().await.unwrap();
    let called = server.call_tool("bad", "{}", &CallOptions::new()).await;
    assert!(matches!(called, Err(ClientError::InvalidTool { name, .. }) if name == "bad"));
    assert_eq!(script.requests().len(), 2);
}

#[tokio::test]
async fn an_unsupported_version_is_renegotiated_once() {
    let refusal = r#"{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}"#;
    let refuse = || error("tools/call", 400, refusal);
    let done = result("tools/call", "{}");
    let script = Script::play([modern(), refuse(), done, refuse(), refuse()]).await;
    let server = connect(&script).await;
    server.call("tools/call", r#"{"name":"a"}"#).await.unwrap();
    let refused = server.call("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
    assert_eq!(refused.rpc().unwrap().code.0, -32022);
    let ids: Vec<_> = (1..5).map(|n| script.body(n)[17..23].to_owned()).collect();
    assert_eq!(ids, [r#""id":2"#, r#""id":3"#, r#""id":4"#, r#""id":5"#]);
}

#[tokio::test]
async fn a_header_mismatch_makes_the_client_list_tools_and_try_again() {
    let refusal = r#"{"code":-32020,"message":"Mcp-Param-Region is missing"}"#;
    let scenes = [
        modern(),
        error("tools/call", 400, refusal),
        result("tools/list", TOOLS),
        result("tools/call", "{}"),
    ];
    let script = Script::play(scenes).await;
    let server = connect(&script).await;
    let options = CallOptions::new();
    server.call_tool("sql", r#"{"region":"x"}"#, &options).await.unwrap();
    let with_header: Vec<bool> =
        script.requests().iter().map(|text| text.contains("mcp-param-region: x")).collect();
    assert_eq!(with_header, [false, false, false, true]);
}

#[tokio::test]
async fn input_is_gathered_and_sent_with_the_exact_state() {
    let asked = r#"{"resultType":"input_required","inputRequests":{"k\u0031":{"method":"elicitation/create","params":{"a": 1.0}},"k2":{"method":"roots/list"}},"requestState":"a\u0041\/"}"#;
    let again = r#"{"resultType":"input_required","inputRequests":{"k3":{"method":"roots/list","params":{}}}}"#;
    let scenes = [
        modern(),
        result("tools/call", asked),
        result("tools/call", again),
        result("tools/call", r#"{"content":[]}"#),
        result("tools/call", r#"{"resultType":"complete"}"#),
    ];
    let script = Script::play(scenes).await;
    let server = client(&script).handler(Echo::default()).build().unwrap().connect().await.unwrap();
    let done = server.call("tools/call", r#"{"name":"a","x":[]}"#).await.unwrap();
    assert_eq!(done, r#"{"content":[]}"#);
    server.call("tools/call", r#"{"name":"b"}"#).await.unwrap();
    let bodies: Vec<_> = (2..5).map(|n| script.body(n).replace(META, "META")).collect();
    let expected = [
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a","x":[],"inputResponses":{"k1":{"echo":{"a": 1.0}},"k2":{"echo":null}},"requestState":"a\u0041\/","_meta":{META}}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"a","x":[],"inputResponses":{"k3":{"echo":{}}},"_meta":{META}}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"b","_meta":{META}}}"#,
    ];
    assert_eq!(bodies, expected);
}

#[tokio::test]
async fn input_requests_can_be_handed_back_or_fail_with_the_handler() {
    let asked = r#"{"resultType":"input_required","inputRequests":{"k":{"method":"sampling/createMessage"}}}"#;
    let script =
        Script::play([modern(), result("tools/call", asked), result("tools/call", asked)]).await;
    let server = client(&script).handler(Echo::default()).build().unwrap().connect().await.unwrap();
    let params = r#"{"name":"a"}"#;
    let options = CallOptions::new().hand_back_input_requests();
    assert_eq!(server.call_with("tools/call", params, &options).await.unwrap(), asked);
    let failed = server.call("tools/call", params).await.unwrap_err();
    assert!(failed.to_string().contains("no model here"), "{failed}");
}

#[tokio::test]
async fn input_rounds_are_bounded() {
    let state_only = r#"{"resultType":"input_required","requestState":"s"}"#;
    let scenes = (0..4).map(|_| result("tools/call", state_only));
    let script = Script::play([modern()].into_iter().chain(scenes)).await;
    let few = limits(|limits| limits.rounds = 2);
    let server = client(&script).limits(few).build().unwrap().connect().await.unwrap();
    let ended = server.call("tools/call", r#"{"name":"a"}"#).await;
    assert!(matches!(ended, Err(ClientError::TooManyRounds(2))), "{ended:?}");
    assert_eq!(script.requests().len(), 4);
}

#[tokio::test]
async fn progress_goes_to_the_caller_and_the_rest_to_the_handler() {
    let stream = concat!(
        ": keep-alive\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":2,\"progress\":1}}\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":9,\"progress\":1}}\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"ok\":true}}\n\n",
    );
    let script = Script::play([modern(), events("tools/call", stream, Then::Stay)]).await;
    let echo = Echo::default();
    let server = client(&script).handler(echo.clone()).build().unwrap().connect().await.unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&heard);
    let options = CallOptions::new().on_progress(move |raw| sink.lock().unwrap().push(raw));
    let done = server.call_tool("a", "", &options).await.unwrap();
    assert_eq!(done, r#"{"ok":true}"#);
    assert_eq!(*heard.lock().unwrap(), [r#"{"progressToken":2,"progress":1}"#]);
    let rest =
        [r#"notifications/progress {"progressToken":9,"progress":1}"#, "notifications/message {}"];
    assert_eq!(echo.heard(), rest);
    assert!(script.body(1).contains(r#""_meta":{"progressToken":2,"#));
}

#[tokio::test]
async fn dropping_a_call_closes_its_connection() {
    for stream in ["", "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hello\n\n"] {
        let hold = super::script::Scene::new("tools/call", stream, Then::Stay);
        let script = Script::play([modern(), hold]).await;
        let server = connect(&script).await;
        let call = tokio::spawn(async move { server.call("tools/call", r#"{"name":"a"}"#).await });
        script.wait_for_request("tools/call").await;
        call.abort();
        script.wait_for_hang_up("tools/call").await;
        assert_eq!(script.requests().len(), 2, "a modern client sends no cancellation");
    }
}

#[tokio::test]
async fn a_subscription_yields_notifications_until_the_server_ends_it() {
    let stream = concat!(
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":{\"notifications\":{}}}\n\n",
        ":\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"resultType\":\"complete\"}}\n\n",
    );
    let script = Script::play([modern(), events("subscriptions/listen", stream, Then::Stay)]).await;
    let server = connect(&script).await;
    let mut subscription = server.listen(r#"{"toolsListChanged":true}"#).await.unwrap();
    assert_eq!(subscription.acknowledged(), r#"{"notifications":{}}"#);
    let first = subscription.next().await.unwrap().unwrap();
    assert_eq!(first.method, "notifications/tools/list_changed");
    assert!(subscription.next().await.is_none());
    assert!(subscription.next().await.is_none());
    assert!(script.body(1).contains(r#""params":{"notifications":{"toolsListChanged":true},"#));
    drop(subscription);
    script.wait_for_hang_up("subscriptions/listen").await;
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_reported_not_repeated() {
    let script =
        Script::play([modern(), events("tools/call", "id: 1\ndata:\n\n", Then::Close)]).await;
    let server = connect(&script).await;
    let ended = server.call("tools/call", r#"{"name":"a"}"#).await;
    assert!(matches!(ended, Err(ClientError::Interrupted)), "{ended:?}");
    assert_eq!(script.requests().len(), 2);
}
