//! Nothing crosses: many clients with colliding ids, every answer carries its caller's nonce.
//!
//! Over real sockets, in every revision, with results, progress, logs, errors and questions mixed.
//! Answers CVE-2026-25536, where responses went to whoever used the same request id.

use std::net::SocketAddr;

use lyceum_http::{Endpoint, ServeOptions, Site, serve};
use lyceum_server::{Call, Server, ToolError, tool};
use lyceum_testkit::{Connection, Request, Response};
use serde_json::{Value, json};

const CLIENTS: usize = 256;
/// A million where the code is optimized; a taste of it where it is not.
const CALLS: usize = if cfg!(debug_assertions) { 25_600 } else { 1_000_000 };
const REVISIONS: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Args {
    nonce: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Reply {
    nonce: String,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_every_answer_carries_its_callers_nonce() {
    let server = start(nonce_server()).await;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(run_client(server.address(), number, CALLS / CLIENTS)))
        .collect();
    let mut checked = 0;
    for client in clients {
        checked += client.await.unwrap();
    }
    // Every call is one answer; some also carry notifications or questions, which count too.
    assert!(checked >= CALLS / CLIENTS * CLIENTS, "{checked} messages checked");
}

fn nonce_server() -> Server {
    Server::builder("nonces", "1")
        .tool(tool("echo", "Repeats the nonce.", |_: Call, args: Args| async move {
            Ok::<_, ToolError>(args.nonce)
        }))
        .tool(tool("tell", "Sends it ahead, too.", |cx: Call, args: Args| async move {
            cx.progress_message(1.0, None, &args.nonce).await;
            tokio::task::yield_now().await;
            cx.log(lyceum_wire::LogLevel::Error, "nonces", &args.nonce).await;
            Ok::<_, ToolError>(args.nonce)
        }))
        .tool(tool("fail", "Fails with it.", |_: Call, args: Args| async move {
            tokio::task::yield_now().await;
            Err::<String, _>(ToolError::new(args.nonce))
        }))
        .tool(tool("ask", "Asks for it.", |cx: Call, args: Args| async move {
            let reply = cx.elicit::<Reply>("nonce", &args.nonce).await?;
            Ok::<_, ToolError>(format!("{} {}", args.nonce, reply.nonce))
        }))
        .build()
}

async fn start(server: Server) -> lyceum_testkit::Server {
    lyceum_testkit::Server::start(|listener, shutdown| async move {
        let endpoint = Endpoint::builder("/mcp", server).build().unwrap();
        let site = Site::new().endpoint(endpoint);
        serve(listener, site, ServeOptions::default(), shutdown).await.unwrap();
    })
    .await
}

/// One client: its ids count from 0 like everybody's. Returns how many messages it checked.
async fn run_client(address: SocketAddr, number: usize, calls: usize) -> usize {
    let revision = REVISIONS[number % REVISIONS.len()];
    let mut client = Client::open(address, revision).await;
    let mut checked = 0;
    for id in 0..calls {
        let nonce = format!("client-{number}-call-{id}");
        checked += match id % 64 {
            7 => client.told("tell", id, &nonce).await,
            23 | 55 => client.called("fail", id, &nonce).await,
            41 if id % 512 == 41 => client.asked(id, &nonce).await,
            _ => client.called("echo", id, &nonce).await,
        };
    }
    checked
}

struct Client {
    address: SocketAddr,
    calls: Connection,
    revision: &'static str,
    session: Option<String>,
}

impl Client {
    async fn open(address: SocketAddr, revision: &'static str) -> Self {
        let mut calls = Connection::open(address).await;
        let mut session = None;
        if revision != "2026-07-28" {
            let params = json!({"protocolVersion": revision, "capabilities": {"elicitation": {}},
                "clientInfo": {"name": "nonces", "version": "1"}});
            let response = calls.call(&Request::legacy("/mcp", 0, "initialize", params)).await;
            assert_eq!(response.json()["result"]["protocolVersion"], revision);
            session = response.head.get("mcp-session-id").map(str::to_owned);
        }
        Self { address, calls, revision, session }
    }

    fn request(&self, id: usize, params: Value) -> Request {
        match &self.session {
            None => Request::modern("/mcp", id, "tools/call", params),
            Some(session) => {
                let request = Request::legacy("/mcp", id, "tools/call", params);
                request
                    .header("mcp-session-id", session)
                    .header("mcp-protocol-version", self.revision)
            }
        }
    }

    async fn call(&mut self, tool: &str, id: usize, nonce: &str) -> Response {
        let meta = json!({"progressToken": nonce, "io.modelcontextprotocol/logLevel": "debug",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
        let params = json!({"name": tool, "arguments": {"nonce": nonce}, "_meta": meta});
        self.calls.call(&self.request(id, params)).await
    }

    async fn called(&mut self, tool: &str, id: usize, nonce: &str) -> usize {
        let response = self.call(tool, id, nonce).await;
        check_result(&response.json(), id, nonce);
        1
    }

    async fn told(&mut self, tool: &str, id: usize, nonce: &str) -> usize {
        let response = self.call(tool, id, nonce).await;
        let messages: Vec<Value> = response
            .events()
            .iter()
            .filter(|event| !event.data.is_empty())
            .map(|event| event.json())
            .collect();
        let [progress, log, result] = messages.as_slice() else { panic!("{messages:?}") };
        assert_eq!(progress["params"]["progressToken"], nonce);
        assert_eq!(progress["params"]["message"], nonce);
        assert_eq!(log["params"]["data"], nonce);
        check_result(result, id, nonce);
        3
    }

    /// A question comes back as a server request or as a result that asks for more, by era.
    async fn asked(&mut self, id: usize, nonce: &str) -> usize {
        let answer = json!({"action": "accept", "content": {"nonce": nonce}});
        let both = format!("{nonce} {nonce}");
        let Some(session) = self.session.clone() else {
            let asked = self.call("ask", id, nonce).await.json();
            assert_eq!(asked["id"], id);
            assert_eq!(asked["result"]["inputRequests"]["nonce"]["params"]["message"], nonce);
            let meta = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
            let params = json!({"name": "ask", "arguments": {"nonce": nonce}, "_meta": meta,
                "inputResponses": {"nonce": answer}, "requestState": asked["result"]["requestState"]});
            let response = self.calls.call(&self.request(id, params)).await;
            check_result(&response.json(), id, &both);
            return 2;
        };
        if self.revision < "2025-06-18" {
            return 0;
        }
        let params = json!({"name": "ask", "arguments": {"nonce": nonce}});
        let request = self.request(id, params);
        let connection = std::mem::replace(&mut self.calls, Connection::open(self.address).await);
        let (_, mut events) = connection.stream(&request).await;
        let question = loop {
            let event = events.next().await.expect("a question comes");
            if !event.data.is_empty() {
                break event.json();
            }
        };
        assert_eq!(question["params"]["message"], nonce);
        let body = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer});
        let reply = Request::post("/mcp", body.to_string()).header("mcp-session-id", &session);
        let mut answers = Connection::open(self.address).await;
        assert_eq!(answers.call(&reply).await.status(), 202);
        check_result(&events.next().await.expect("a result comes").json(), id, &both);
        2
    }
}

fn check_result(message: &Value, id: usize, text: &str) {
    assert_eq!(message["id"], id);
    assert_eq!(message["result"]["content"][0]["text"], text, "{message}");
}
