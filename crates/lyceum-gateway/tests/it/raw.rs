//! [`Client`]: a client of any revision down to its bytes, whose ids and tokens are everybody's ids
//! and tokens.

use std::net::SocketAddr;

use lyceum_testkit::{Connection, Events, Request};
use serde_json::{Value, json};

/// Every revision, oldest first.
pub(crate) const REVISIONS: [&str; 5] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

pub(crate) struct Client {
    calls: Connection,
    revision: &'static str,
    standing: Standing,
}

/// What a client has besides its connection.
enum Standing {
    /// HTTP+SSE: a stream for all answers, and where requests go.
    Stream(Box<Events>, String),
    Session(String),
    /// Nothing: every request says it all.
    Stateless,
}

impl Client {
    pub(crate) async fn open(address: SocketAddr, revision: &'static str) -> Client {
        let mut calls = Connection::open(address).await;
        let params = json!({"protocolVersion": revision, "capabilities": {},
            "clientInfo": {"name": "many", "version": "1"}});
        let standing = match revision {
            "2026-07-28" => Standing::Stateless,
            "2024-11-05" => {
                let mut events = stream(address, &Request::new("GET", "/sse")).await;
                let path = next(&mut events).await.1;
                let mut client =
                    Client { calls, revision, standing: Standing::Stream(Box::new(events), path) };
                let hello = client.request(0, "initialize", params).await;
                assert_eq!(hello[0]["result"]["protocolVersion"], revision, "{hello:?}");
                return client;
            }
            _ => {
                let response = calls.call(&Request::legacy("/mcp", 0, "initialize", params)).await;
                let session = response.head.get("mcp-session-id").expect("a session");
                Standing::Session(session.to_owned())
            }
        };
        Client { calls, revision, standing }
    }

    /// Makes a request; returns all that came for it, the answer last.
    pub(crate) async fn request(&mut self, id: usize, method: &str, params: Value) -> Vec<Value> {
        let request = match &self.standing {
            Standing::Stateless => Request::modern("/mcp", id, method, params),
            Standing::Session(session) => Request::legacy("/mcp", id, method, params)
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", self.revision),
            Standing::Stream(_, path) => Request::legacy(path, id, method, params),
        };
        let response = self.calls.call(&request).await;
        if let Standing::Stream(events, _) = &mut self.standing {
            assert_eq!(response.status(), 202, "{}", response.text());
            let mut messages = Vec::new();
            loop {
                let message: Value = serde_json::from_str(&next(events).await.1).unwrap();
                let is_answer = message.get("method").is_none();
                messages.push(message);
                if is_answer {
                    return messages;
                }
            }
        }
        let kind = response.head.get("content-type").unwrap_or_default();
        if !kind.starts_with("text/event") {
            return vec![response.json()];
        }
        let events = response.events();
        events.iter().filter(|event| !event.data.is_empty()).map(|event| event.json()).collect()
    }

    /// Calls a tool and checks that everything that comes back is for this call. Returns how many
    /// messages of progress came.
    pub(crate) async fn call(&mut self, tool: &str, id: usize, nonce: &str) -> usize {
        let meta = json!({"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"});
        let params = json!({"name": tool, "arguments": {"text": nonce}, "_meta": meta});
        let messages = self.request(id, "tools/call", params).await;
        let (result, ahead) = messages.split_last().expect("an answer");
        assert_eq!(result["id"], id, "{result}");
        assert_eq!(result["result"]["content"][0]["text"], nonce, "{result}");
        let mut n_progress = 0;
        for told in ahead {
            let params = &told["params"];
            match told["method"].as_str() {
                Some("notifications/progress") => {
                    let whose = (&params["message"], &params["progressToken"]);
                    assert_eq!(whose, (&json!(nonce), &json!(1)), "not for {nonce}: {told}");
                    n_progress += 1;
                }
                Some("notifications/message") => {
                    assert_eq!(params["data"], nonce, "not for {nonce}: {told}");
                }
                _ => panic!("not for {nonce}: {told}"),
            }
        }
        n_progress
    }

    /// Subscribes to a resource, under the id everybody uses, and returns the stream on which it
    /// hears of it.
    pub(crate) async fn subscribe(mut self, address: SocketAddr, uri: &str) -> Subscription {
        const ID: usize = 7;
        let events = match &self.standing {
            Standing::Stateless => {
                let filter = json!({"notifications": {"resourceSubscriptions": [uri]}});
                let listen = Request::modern("/mcp", ID, "subscriptions/listen", filter);
                let (_, mut events) = Connection::open(address).await.stream(&listen).await;
                let told: Value = serde_json::from_str(&next(&mut events).await.1).unwrap();
                let honoured = &told["params"]["notifications"]["resourceSubscriptions"];
                assert_eq!(*honoured, json!([uri]), "{told}");
                Some(events)
            }
            Standing::Session(session) => {
                let request = Request::new("GET", "/mcp")
                    .header("mcp-session-id", session)
                    .header("mcp-protocol-version", self.revision);
                Some(stream(address, &request).await)
            }
            Standing::Stream(..) => None,
        };
        let id = matches!(self.standing, Standing::Stateless).then_some(ID);
        if id.is_none() {
            let told = self.request(ID, "resources/subscribe", json!({ "uri": uri })).await;
            assert!(told[0].get("result").is_some(), "{told:?}");
        }
        let (kept, events) = match (self.standing, events) {
            (Standing::Stream(events, _), _) => (self.calls, *events),
            (_, events) => (self.calls, events.expect("a stream")),
        };
        Subscription { events, id, uri: uri.to_owned(), _kept: kept }
    }
}

/// A stream on which changes of one resource are told.
pub(crate) struct Subscription {
    events: Events,
    /// What it is called in every message, if it is called anything.
    id: Option<usize>,
    uri: String,
    _kept: Connection,
}

impl Subscription {
    /// Waits for the next message and checks that it is for this subscription.
    pub(crate) async fn hear(&mut self) {
        let told: Value = serde_json::from_str(&next(&mut self.events).await.1).unwrap();
        let params = &told["params"];
        assert_eq!(told["method"], "notifications/resources/updated", "{}: {told}", self.uri);
        assert_eq!(params["uri"], self.uri, "{told}");
        let id = &params["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(*id, json!(self.id), "{}: {told}", self.uri);
    }
}

async fn stream(address: SocketAddr, request: &Request) -> Events {
    let request = request.clone().header("accept", "text/event-stream");
    Connection::open(address).await.stream(&request).await.1
}

/// The next event that says anything: its name and its data.
async fn next(events: &mut Events) -> (String, String) {
    loop {
        let event = events.next().await.expect("the stream goes on");
        if !event.data.is_empty() {
            return (event.name, event.data);
        }
    }
}
