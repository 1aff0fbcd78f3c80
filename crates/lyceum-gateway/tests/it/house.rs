//! A gateway with one upstream behind it and one client before it, all over real sockets and pipes.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use lyceum_gateway::names::UriForm;
use lyceum_gateway::oauth::TokenStore;
use lyceum_gateway::process::{AllowedCommands, Limits};
use lyceum_gateway::{EraChoice, Gateway, Setting, Target, UpstreamConfig, stack};
use lyceum_http::client::{
    CallOptions, Client, ClientError, ClientHandler, Peer, ServerNotification, ServerRequest,
    Transport,
};
use lyceum_http::{ByteBudget, Endpoint, Handler, ServeOptions, Site, serve};
use lyceum_server::Server;
use lyceum_testkit::{Server as Running, Shutdown};
use lyceum_wire::{Revision, RevisionSet, RpcError};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::fixture;

/// How the upstream is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Http,
    HttpSse,
    Stdio,
}

/// Everything between the client and the upstream, and both of them.
pub(crate) struct House {
    pub(crate) gateway: Gateway,
    pub(crate) front: Running,
    /// The upstream, if it is in this process.
    _upstream: Option<Running>,
}

/// What a client answers to questions, and what it heard.
#[derive(Debug, Clone, Default)]
pub(crate) struct Client1 {
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    pub(crate) heard: Arc<Mutex<Vec<(String, Value)>>>,
}

impl ClientHandler for Client1 {
    async fn request(&self, request: ServerRequest) -> Result<Bytes, RpcError> {
        self.asked.lock().unwrap().push(request.method.clone());
        Ok(Bytes::from(match request.method.as_str() {
            "elicitation/create" => {
                json!({"action": "accept", "content": {"name": "Ada"}}).to_string()
            }
            "sampling/createMessage" => json!({
                "role": "assistant", "model": "m",
                "content": {"type": "text", "text": "hm"},
            })
            .to_string(),
            "roots/list" => {
                json!({"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]}).to_string()
            }
            method => return Err(RpcError::method_not_found(method)),
        }))
    }

    async fn notification(&self, notification: ServerNotification) {
        let params = notification.params.unwrap_or_default();
        let params = serde_json::from_slice(&params).unwrap_or(Value::Null);
        self.heard.lock().unwrap().push((notification.method, params));
    }
}

impl Client1 {
    /// Waits until a notification of this method was heard and returns its params.
    pub(crate) async fn hears(&self, method: &str) -> Value {
        for _ in 0..500 {
            let heard =
                self.heard.lock().unwrap().iter().find(|(heard, _)| heard == method).cloned();
            if let Some((_, params)) = heard {
                return params;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{method} was not heard; heard {:?}", self.heard.lock().unwrap());
    }
}

/// The example of this package that is the fixture as a process.
pub(crate) fn upstream_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    profile.join("examples").join("upstream")
}

pub(crate) fn setting() -> Setting {
    Setting {
        name: "gateway".to_owned(),
        version: "1".to_owned(),
        allowed_commands: Arc::new(AllowedCommands::new([
            upstream_program().to_str().unwrap(),
            "false",
        ])),
        process_limits: Limits::default(),
        stack: stack::stack(),
        tokens: TokenStore::in_memory(),
        uri_form: UriForm::default(),
        relist: Setting::RELIST,
        budget: Arc::new(ByteBudget::new(192 << 20)),
    }
}

/// Serves a handler at `/mcp`, and over HTTP+SSE at `/sse`.
pub(crate) async fn serve_handler(handler: impl Handler, served: RevisionSet) -> Running {
    Running::start(|listener, shutdown| serve_on(listener, handler, served, shutdown)).await
}

pub(crate) async fn serve_on(
    listener: TcpListener,
    handler: impl Handler,
    served: RevisionSet,
    shutdown: Shutdown,
) {
    let endpoint = Endpoint::builder("/mcp", handler).revisions(served).build().unwrap();
    let http_sse = endpoint.http_sse("/messages");
    let site = Site::new().endpoint(endpoint).http_sse("/sse", http_sse);
    let options = ServeOptions { drain: Duration::from_millis(50), ..ServeOptions::default() };
    serve(listener, site, options, shutdown).await.unwrap();
}

pub(crate) fn own_server() -> Server {
    Server::builder("front", "1").build()
}

impl House {
    /// A gateway with the fixture behind it, speaking only `served`.
    pub(crate) async fn new(way: Way, served: RevisionSet) -> House {
        let (config, upstream) = fixture_upstream(way, served).await;
        House::with(vec![config], upstream).await
    }

    pub(crate) async fn with(configs: Vec<UpstreamConfig>, upstream: Option<Running>) -> House {
        let house = House { _upstream: upstream, ..House::unsettled(configs).await };
        let settled = house.gateway.settled(Duration::from_secs(20)).await;
        assert!(settled, "{:?}", house.gateway.health());
        house
    }

    /// A gateway whose upstreams may never be reached.
    pub(crate) async fn unsettled(configs: Vec<UpstreamConfig>) -> House {
        let gateway = Gateway::new(setting());
        gateway.configure(configs);
        let door = gateway.door(own_server(), Arc::new(|_: &str| true));
        let front = serve_handler(door, RevisionSet::ALL).await;
        House { gateway, front, _upstream: None }
    }

    /// A gateway that is served already.
    pub(crate) fn around(gateway: Gateway, front: Running) -> House {
        House { gateway, front, _upstream: None }
    }

    /// A client of exactly this revision.
    pub(crate) async fn client(&self, revision: Revision) -> (Peer, Client1) {
        let handler = Client1::default();
        let capabilities = r#"{"elicitation":{},"sampling":{},"roots":{}}"#;
        (self.client_with(revision, handler.clone(), capabilities).await, handler)
    }

    pub(crate) async fn client_with(
        &self,
        revision: Revision,
        handler: impl ClientHandler,
        capabilities: &'static str,
    ) -> Peer {
        let old = revision == Revision::V2024_11_05;
        let path = if old { "sse" } else { "mcp" };
        let peer = Client::builder(format!("http://{}/{path}", self.front.address()))
            .name("client", "1")
            .capabilities(capabilities)
            .versions([revision].into_iter().collect())
            .transport(if old { Transport::HttpSse } else { Transport::Streamable })
            .handler(handler)
            .build()
            .unwrap()
            .connect()
            .await
            .unwrap();
        assert_eq!(peer.revision(), revision);
        peer
    }
}

/// The configuration of a fixture, and the fixture if it runs in this process.
pub(crate) async fn fixture_upstream(
    way: Way,
    served: RevisionSet,
) -> (UpstreamConfig, Option<Running>) {
    let running = match way {
        Way::Stdio => None,
        Way::Http | Way::HttpSse => Some(serve_handler(fixture::server(), served).await),
    };
    let address = running.as_ref().map(|running| running.address().to_string()).unwrap_or_default();
    let target = match way {
        Way::Http => Target::Http(format!("http://{address}/mcp")),
        Way::HttpSse => Target::HttpSse(format!("http://{address}/sse")),
        Way::Stdio => {
            let era = if served == RevisionSet::MODERN { "modern" } else { "legacy" };
            let program = upstream_program().to_str().unwrap().to_owned();
            Target::Command(vec![program, era.to_owned()])
        }
    };
    let era = if served == RevisionSet::MODERN { EraChoice::Modern } else { EraChoice::Auto };
    (UpstreamConfig { era, ..UpstreamConfig::new("up", target) }, running)
}

/// Calls a tool and returns the text of its result.
pub(crate) async fn text(peer: &Peer, tool: &str, arguments: Value) -> Result<String, ClientError> {
    let result = peer.call_tool(tool, arguments.to_string(), &CallOptions::new()).await?;
    let result: Value = serde_json::from_slice(&result).unwrap();
    Ok(result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text in {result}"))
        .to_owned())
}

/// Waits until the fixture has so many calls waiting and cancelled; `cell` is told if it never does.
pub(crate) async fn counts(peer: &Peer, expected: &str, cell: &str) {
    let mut told = String::new();
    for _ in 0..300 {
        told = text(peer, "up_counts", json!({})).await.unwrap();
        if told == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{cell}: {told}, not {expected}");
}

/// Waits until something is so; `what` is told if it never is.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = tokio::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
