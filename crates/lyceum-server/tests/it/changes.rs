//! Telling clients what changed: listening streams and legacy sessions.

use std::future::Future;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use lyceum_http::{Handler, Outbox, Outcome, Reader, Session};
use lyceum_server::{Call, NoArguments, Resource, Server, prompt, tool};
use lyceum_wire::{Id, Params, Request, Revision, RpcError};
use serde_json::{Value, json};

use crate::talk::Talk;

fn server() -> Server {
    Server::builder("changing", "1")
        .tool(tool("t", "Does nothing.", |_: Call, _: NoArguments| async { Ok("") }))
        .prompt(prompt("p", "Says nothing.", |_: Call, _| async { Ok("") }))
        .resource(Resource::text("x://a", "a", "A"))
        .resource(Resource::text("x://b", "b", "B"))
        .build()
}

fn listen_request(id: Id, filter: &Value) -> Request {
    let params = json!({ "notifications": filter }).to_string();
    let params = Params::from_raw(Bytes::from(params)).unwrap();
    Request { id, method: "subscriptions/listen".into(), params }
}

/// Opens a listening stream and lets it run until it waits for news.
async fn listening<'a>(
    talk: &'a Talk,
    id: Id,
    filter: Value,
) -> std::pin::Pin<Box<dyn Future<Output = Result<Outcome, RpcError>> + 'a>> {
    let mut stream = Box::pin(talk.server.call(listen_request(id, &filter), talk.context()));
    settle(&mut stream).await;
    stream
}

/// Polls a stream once; it must not end.
async fn settle(stream: &mut (impl Future<Output = Result<Outcome, RpcError>> + Unpin)) {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *stream).poll(cx) {
        Poll::Ready(ended) => panic!("the stream ended: {ended:?}"),
        Poll::Pending => Poll::Ready(()),
    })
    .await;
}

#[tokio::test]
async fn a_stream_acknowledges_what_it_honours_and_tells_only_that() {
    let talk = Talk::modern(&server());
    let filter = json!({
        "toolsListChanged": true,
        "promptsListChanged": false,
        "resourceSubscriptions": ["x://a", "x://nowhere"],
        "unknown": 1,
    });
    let mut stream = listening(&talk, Id::number(7), filter).await;
    talk.server.tools_changed();
    talk.server.tools_changed();
    talk.server.prompts_changed();
    talk.server.resources_changed();
    talk.server.resource_updated("x://a");
    talk.server.resource_updated("x://b");
    settle(&mut stream).await;
    insta::assert_snapshot!(talk.sent().join("\n"), @r#"
{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x://a"]},"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}
{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}
{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://a","_meta":{"io.modelcontextprotocol/subscriptionId":7}}}
"#);
}

#[tokio::test]
async fn lists_that_are_not_offered_are_not_honoured() {
    let named = || Server::builder("partial", "1");
    let tool = tool("t", "Does nothing.", |_: Call, _: NoArguments| async { Ok("") });
    let prompt = prompt("p", "Says nothing.", |_: Call, _| async { Ok("") });
    let rows = [
        (named().build(), json!({})),
        (named().tool(tool).build(), json!({ "toolsListChanged": true })),
        (named().prompt(prompt).build(), json!({ "promptsListChanged": true })),
        (
            named().resource(Resource::text("x://a", "a", "A")).build(),
            json!({ "resourcesListChanged": true }),
        ),
    ];
    for (server, expected) in rows {
        let talk = Talk::modern(&server);
        let filter = json!({
            "toolsListChanged": true,
            "promptsListChanged": true,
            "resourcesListChanged": true,
        });
        let _stream = listening(&talk, Id::number(1), filter).await;
        let acknowledged: Value = serde_json::from_str(&talk.sent()[0]).unwrap();
        assert_eq!(acknowledged["params"]["notifications"], expected);
    }
}

#[tokio::test]
async fn streams_name_themselves_by_the_id_of_their_request_as_it_was_written() {
    let server = server();
    for id in [Id::number(1), Id::string("1"), Id::from_token("1.0".into()).unwrap()] {
        let talk = Talk::modern(&server);
        let mut stream = listening(&talk, id.clone(), json!({ "promptsListChanged": true })).await;
        server.prompts_changed();
        settle(&mut stream).await;
        let expected = format!(r#""io.modelcontextprotocol/subscriptionId":{id}}}"#);
        for message in talk.sent_at_least(2).await {
            assert!(message.contains(&expected), "{message}");
        }
    }
}

#[tokio::test]
async fn a_closing_server_ends_its_streams_properly() {
    let talk = Talk::modern(&server());
    let mut stream = listening(&talk, Id::string("s"), json!({ "toolsListChanged": true })).await;
    talk.server.tools_changed();
    talk.server.close();
    let ended = stream.as_mut().await.unwrap();
    assert_eq!(talk.sent().len(), 2);
    insta::assert_snapshot!(String::from_utf8_lossy(ended.as_bytes()), @r#"{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}"#);
    drop(stream);
    let late = talk.server.call(listen_request(Id::number(2), &json!({})), talk.context()).await;
    assert!(late.is_ok());
}

#[tokio::test]
async fn a_stream_says_what_it_needs() {
    let talk = Talk::modern(&server());
    let missing = talk.ask("subscriptions/listen", json!({})).await;
    assert_eq!(missing["error"]["code"], -32602);
    let odd =
        talk.ask("subscriptions/listen", json!({ "notifications": { "toolsListChanged": 1 } }));
    assert_eq!(odd.await["error"]["code"], -32602);
    let tasks = json!({ "notifications": { "taskIds": [] } });
    assert_eq!(talk.ask("subscriptions/listen", tasks).await["error"]["code"], -32021);
}

#[tokio::test]
async fn a_stream_that_nobody_reads_any_more_is_forgotten() {
    let talk = Talk::modern(&server());
    drop(listening(&talk, Id::number(1), json!({ "toolsListChanged": true })).await);
    talk.server.tools_changed();
    tokio::task::yield_now().await;
    assert_eq!(talk.sent().len(), 1);
}

fn legacy(server: &Server) -> (Arc<Session>, Reader) {
    let outbox = Arc::new(Outbox::new(64 * 1024));
    let reader = outbox.resume();
    let session = Arc::new(Session::detached(Revision::V2025_11_25, outbox));
    server.stream_opened(&session);
    (session, reader)
}

#[tokio::test]
async fn legacy_sessions_are_told_of_lists_and_of_what_they_subscribed_to() {
    let server = server();
    let (session, mut reader) = legacy(&server);
    let (_other, mut other) = legacy(&server);
    let talk = Talk::new(&server, Revision::V2025_11_25);
    let talk = Talk { session: Some(session), ..talk };
    assert_eq!(talk.raw("resources/subscribe", json!({ "uri": "x://a" })).await, "{}");
    assert_eq!(talk.raw("resources/subscribe", json!({ "uri": "x://b" })).await, "{}");
    assert_eq!(talk.raw("resources/unsubscribe", json!({ "uri": "x://b" })).await, "{}");
    server.resource_updated("x://a");
    server.resource_updated("x://b");
    server.prompts_changed();
    let expected = [
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x://a"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#,
    ];
    for expected in expected {
        assert_eq!(reader.next().await.unwrap(), expected);
    }
    assert_eq!(other.next().await.unwrap(), expected[1]);
}

#[tokio::test]
async fn a_reopened_stream_is_told_once() {
    let server = server();
    let (session, mut reader) = legacy(&server);
    server.stream_opened(&session);
    server.tools_changed();
    server.prompts_changed();
    assert!(reader.next().await.unwrap().ends_with(br#""notifications/tools/list_changed"}"#));
    assert!(reader.next().await.unwrap().ends_with(br#""notifications/prompts/list_changed"}"#));
}

#[tokio::test]
async fn subscriptions_need_a_session_and_a_resource() {
    let server = server();
    let (session, _reader) = legacy(&server);
    let without = Talk::new(&server, Revision::V2025_11_25);
    let with = Talk { session: Some(session), ..without.clone() };
    let code = async |talk: &Talk, uri: &str| {
        talk.ask("resources/subscribe", json!({ "uri": uri })).await["error"]["code"].clone()
    };
    assert_eq!(code(&without, "x://a").await, -32600);
    assert_eq!(code(&with, "x://nowhere").await, -32002);
}

/// A server with a family of resources, whose URIs can be of any length.
fn family() -> Server {
    let read = |_: Call, _| async { Ok("") };
    let template = lyceum_server::template("x://{+path}", "family", read).unwrap();
    Server::builder("family", "1").template(template).build()
}

#[tokio::test]
async fn long_uris_are_refused_by_name_of_the_bound() {
    let longest = format!("x://{}", "a".repeat(lyceum_server::MAX_URI_BYTES - 4));
    let long = format!("{longest}a");
    let mut legacy = Talk::new(&family(), Revision::V2025_11_25);
    legacy.session = Some(Arc::new(Session::detached(legacy.revision, Arc::new(Outbox::new(1)))));
    for method in ["resources/subscribe", "resources/unsubscribe", "resources/read"] {
        let answer = legacy.ask(method, json!({ "uri": longest })).await;
        assert_eq!(answer["error"], json!(null), "{method}");
        let refused = legacy.ask(method, json!({ "uri": long })).await;
        assert_eq!(refused["error"]["code"], -32602, "{method}: {refused}");
        let told = refused["error"]["message"].as_str().unwrap();
        assert!(told.contains("8192") && told.len() < 200, "{method}: {told}");
    }
    let modern = Talk::modern(&family());
    let many: Vec<String> = (0..33).map(|at| format!("x://{at:08000}")).collect();
    let very_many: Vec<String> = (0..1025).map(|at| format!("x://{at}")).collect();
    for (uris, bound) in [(vec![long], "8192"), (many, "256 KiB"), (very_many, "1024")] {
        let filter = json!({ "notifications": { "resourceSubscriptions": uris } });
        let refused = modern.ask("subscriptions/listen", filter).await;
        assert_eq!(refused["error"]["code"], -32602, "{bound}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(bound), "{refused}");
    }
    let typed = json!({ "ref": { "type": "ref/resource", "uri": "x://{+path}" },
        "argument": { "name": "path", "value": "a".repeat(9000) } });
    let refused = modern.ask("completion/complete", typed).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("8192"), "{refused}");
}

#[tokio::test]
async fn a_listening_stream_keeps_nothing_of_its_request_but_the_id() {
    let talk = Talk::modern(&family());
    let filter = json!({ "resourceSubscriptions": ["x://a"] });
    let params = json!({ "notifications": filter, "padding": "x".repeat(1 << 20) }).to_string();
    let body = Bytes::from(params);
    let params = Params::from_raw(body.clone()).unwrap();
    let request = Request { id: Id::number(1), method: "subscriptions/listen".into(), params };
    let mut stream = Box::pin(talk.server.call(request, talk.context()));
    settle(&mut stream).await;
    assert!(body.is_unique(), "the stream runs and its body is free");
}
