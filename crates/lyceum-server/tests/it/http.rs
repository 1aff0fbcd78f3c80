//! A server behind the HTTP transport: what only shows with a real connection.

use std::sync::Arc;

use lyceum_http::{Endpoint, ServeOptions, Site, serve};
use lyceum_server::{Call, NoArguments, Server, tool};
use lyceum_testkit::{Request, Server as Running};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// What became of a call of `wait`.
#[derive(Debug, PartialEq)]
enum Fate {
    Started,
    Dropped,
}

/// Says when it is dropped.
struct Witness(mpsc::UnboundedSender<Fate>);

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = self.0.send(Fate::Dropped);
    }
}

fn server(fates: mpsc::UnboundedSender<Fate>) -> Server {
    let wait = move |cx: Call, _: NoArguments| {
        let witness = Witness(fates.clone());
        async move {
            cx.progress(0.0, None).await;
            let _ = witness.0.send(Fate::Started);
            std::future::pending::<()>().await;
            drop(witness);
            Ok("never")
        }
    };
    Server::builder("http", "1")
        .tool(tool("wait", "Waits for ever.", wait))
        .tool(tool("greet", "Asks for a name.", |cx: Call, _: NoArguments| async move {
            let Name { name } = cx.elicit("name", "Name?").await?;
            Ok(format!("Hello, {name}!"))
        }))
        .tool(tool("change", "Changes something.", |cx: Call, _: NoArguments| async move {
            cx.server().tools_changed();
            Ok("changed")
        }))
        .build()
}

async fn start() -> (Running, Server, mpsc::UnboundedReceiver<Fate>) {
    let (sender, fates) = mpsc::unbounded_channel();
    let server = server(sender);
    let endpoint = Endpoint::builder("/mcp", server.clone()).build().unwrap();
    let running = Running::start(|listener, shutdown| async move {
        let site = Site::new().endpoint(endpoint);
        serve(listener, site, ServeOptions::default(), shutdown).await.unwrap();
    })
    .await;
    (running, server, fates)
}

fn call(tool: &str) -> Value {
    json!({ "name": tool, "arguments": {} })
}

#[tokio::test]
async fn a_modern_client_that_leaves_cancels_its_call() {
    let (running, _, mut fates) = start().await;
    let mut params = call("wait");
    params["_meta"]["progressToken"] = 1.into();
    let request = Request::modern("/mcp", 1, "tools/call", params);
    let (head, mut events) = running.connect().await.stream(&request).await;
    assert!(head.get("content-type").unwrap().starts_with("text/event-stream"));
    assert_eq!(events.next().await.unwrap().json()["method"], "notifications/progress");
    assert_eq!(fates.recv().await, Some(Fate::Started));
    drop(events);
    assert_eq!(fates.recv().await, Some(Fate::Dropped));
}

#[tokio::test]
async fn a_modern_listener_hears_of_a_change_made_by_another_client() {
    let (running, server, _fates) = start().await;
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let listen = Request::modern("/mcp", "L", "subscriptions/listen", filter);
    let (_, mut events) = running.connect().await.stream(&listen).await;
    let acknowledged = events.next().await.unwrap().json();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let changed = running
        .connect()
        .await
        .call(&Request::modern("/mcp", 1, "tools/call", call("change")))
        .await;
    assert_eq!(changed.json()["result"]["content"][0]["text"], "changed");
    assert_eq!(events.next().await.unwrap().json()["method"], "notifications/tools/list_changed");
    server.close();
    let last = events.next().await.unwrap().json();
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!("L"), &json!("complete")));
    assert!(events.next().await.is_none());
}

/// A legacy session that can answer forms.
async fn session(running: &Running) -> Arc<str> {
    let initialize = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "t", "version": "1" },
    });
    let request = Request::legacy("/mcp", 0, "initialize", initialize);
    let response = running.connect().await.call(&request).await;
    assert_eq!(response.json()["result"]["protocolVersion"], "2025-11-25");
    response.head.get("mcp-session-id").unwrap().into()
}

#[tokio::test]
async fn a_legacy_client_answers_in_another_request() {
    let (running, _, _fates) = start().await;
    let session = session(&running).await;
    let request = Request::legacy("/mcp", 1, "tools/call", call("greet"));
    let request = request.header("mcp-session-id", &session);
    let (_, mut events) = running.connect().await.stream(&request).await;
    let question = loop {
        let event = events.next().await.unwrap();
        if !event.data.is_empty() {
            break event.json();
        }
    };
    assert_eq!(question["method"], "elicitation/create");
    let content = json!({ "action": "accept", "content": { "name": "Ana" } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": content });
    let answer = Request::post("/mcp", answer.to_string()).header("mcp-session-id", &session);
    assert_eq!(running.connect().await.call(&answer).await.status(), 202);
    let result = events.next().await.unwrap().json();
    assert_eq!(result["result"]["content"][0]["text"], "Hello, Ana!");
}

#[tokio::test]
async fn a_legacy_client_cancels_in_words_not_by_leaving() {
    let (running, _, mut fates) = start().await;
    let session = session(&running).await;
    let mut params = call("wait");
    params["_meta"]["progressToken"] = 1.into();
    let request = Request::legacy("/mcp", 5, "tools/call", params);
    let request = request.header("mcp-session-id", &session);
    let (_, mut events) = running.connect().await.stream(&request).await;
    assert_eq!(fates.recv().await, Some(Fate::Started));
    assert!(events.next().await.is_some());
    drop(events);
    let ping = Request::legacy("/mcp", 6, "ping", json!({})).header("mcp-session-id", &session);
    assert_eq!(running.connect().await.call(&ping).await.json()["result"], json!({}));
    assert!(fates.try_recv().is_err(), "leaving must not cancel");
    let params = json!({ "requestId": 5 });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    let cancel = Request::post("/mcp", cancel.to_string()).header("mcp-session-id", &session);
    assert_eq!(running.connect().await.call(&cancel).await.status(), 202);
    assert_eq!(fates.recv().await, Some(Fate::Dropped));
}
