//! An endpoint with the fixture behind it, called in process or served on a socket.

use bytes::Bytes;
use http::HeaderValue;
use http_body_util::{BodyExt, Full};
use lyceum_http::{AnswerBody, Dialect, Endpoint, EndpointBuilder, ServeOptions, Site, serve};
use lyceum_testkit::{Event, EventParser, Head, Request, Response, Server};
use serde_json::{Value, json};
use tower_service::Service;

use crate::fixture::Fixture;

pub(crate) const PATH: &str = "/mcp";

/// The endpoint and its handler.
#[derive(Clone)]
pub(crate) struct Lab {
    pub(crate) endpoint: Endpoint<Fixture>,
    pub(crate) fixture: Fixture,
}

/// A response whose body is still being read. Dropping it is hanging up.
pub(crate) struct Live {
    pub(crate) head: Head,
    body: AnswerBody,
    parser: EventParser,
}

impl Lab {
    /// An endpoint as it comes.
    pub(crate) fn new() -> Self {
        Self::with(|endpoint| endpoint)
    }

    /// An endpoint in a dialect.
    pub(crate) fn speaking(dialect: Dialect) -> Self {
        Self::with(|endpoint| endpoint.dialect(dialect))
    }

    /// An endpoint built differently.
    pub(crate) fn with(
        build: impl FnOnce(EndpointBuilder<Fixture>) -> EndpointBuilder<Fixture>,
    ) -> Self {
        let fixture = Fixture::new();
        let endpoint = build(Endpoint::builder(PATH, fixture.clone())).build().unwrap();
        Self { endpoint, fixture }
    }

    /// Answers a request in process.
    pub(crate) async fn send(&self, request: &Request) -> Response {
        let response = self.endpoint.clone().call(in_process(request)).await.unwrap();
        whole(response).await
    }

    /// Answers a request in process, leaving the body to be read.
    pub(crate) async fn open(&self, request: &Request) -> Live {
        Live::of(self.endpoint.clone().call(in_process(request)).await.unwrap())
    }

    /// Initializes in a revision, and returns the session id.
    pub(crate) async fn session(&self, revision: &str) -> String {
        self.session_as(revision, &[]).await
    }

    /// Initializes with more headers, such as credentials.
    pub(crate) async fn session_as(&self, revision: &str, headers: &[(&str, &str)]) -> String {
        let request = headers
            .iter()
            .fold(initialize(revision), |request, (name, value)| request.header(name, value));
        let response = self.send(&request).await;
        assert_eq!(response.status(), 200, "{}", response.text());
        response.head.get("mcp-session-id").expect("initialize mints a session").to_owned()
    }

    /// Serves the endpoint on a socket, with its HTTP+SSE form beside it.
    pub(crate) async fn serve(&self) -> Server {
        self.serve_with(ServeOptions::default()).await
    }

    pub(crate) async fn serve_with(&self, options: ServeOptions) -> Server {
        let http_sse = self.endpoint.http_sse("/messages");
        let site = Site::new().endpoint(self.endpoint.clone()).http_sse("/sse", http_sse);
        Server::start(|listener, shutdown| async move {
            serve(listener, site, options, shutdown).await.unwrap();
        })
        .await
    }
}

impl Live {
    pub(crate) fn of(response: http::Response<AnswerBody>) -> Self {
        let (head, body) = response.into_parts();
        Self { head: head_of(&head), body, parser: EventParser::default() }
    }

    /// The next event that is not a comment; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.next_or_comment().await?;
            if !event.is_comment() {
                return Some(event);
            }
        }
    }

    /// The next event or comment; `None` at the end.
    pub(crate) async fn next_or_comment(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.parser.pop() {
                return Some(event);
            }
            let frame = self.body.frame().await?.unwrap();
            self.parser.feed(&frame.into_data().unwrap());
        }
    }

    /// All events until the end.
    pub(crate) async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

/// A legacy handshake.
pub(crate) fn initialize(revision: &str) -> Request {
    let params = json!({
        "protocolVersion": revision,
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    });
    Request::legacy(PATH, 0, "initialize", params)
}

/// A legacy call of a tool, in a session.
pub(crate) fn call(session: &str, id: impl Into<Value>, tool: &str, arguments: Value) -> Request {
    let params = json!({"name": tool, "arguments": arguments});
    Request::legacy(PATH, id, "tools/call", params).header("mcp-session-id", session)
}

/// A modern call of a tool.
pub(crate) fn modern(id: impl Into<Value>, tool: &str, arguments: Value) -> Request {
    Request::modern(PATH, id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

/// A legacy notification.
pub(crate) fn notification(method: &str, params: Value) -> Request {
    Request::post(PATH, json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string())
}

/// A GET for a session's stream.
pub(crate) fn get(session: &str) -> Request {
    Request::new("GET", PATH)
        .header("accept", "text/event-stream")
        .header("mcp-session-id", session)
}

/// The text a tool answered with.
pub(crate) fn text_of(message: &Value) -> &str {
    message["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("not a text result: {message}"))
}

/// What the log notifications among `events` say.
pub(crate) fn notes(events: &[Event]) -> Vec<String> {
    let messages = events.iter().filter(|event| !event.data.is_empty()).map(Event::json);
    messages.filter_map(|message| Some(message["params"]["data"].as_str()?.to_owned())).collect()
}

/// Kilobytes of memory this process uses; other tests run beside, so bounds must be generous.
pub(crate) fn resident_kb() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// The same request as a value for a tower service.
pub(crate) fn in_process(request: &Request) -> http::Request<Full<Bytes>> {
    let mut built = http::Request::builder().method(&*request.method).uri(&request.target);
    for (name, value) in &request.headers {
        built = built.header(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    built.body(Full::from(request.body.clone())).unwrap()
}

/// Reads a response to its end.
pub(crate) async fn whole(response: http::Response<AnswerBody>) -> Response {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    Response { head: head_of(&head), body }
}

fn head_of(head: &http::response::Parts) -> Head {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
    Head { status: head.status.as_u16(), headers: headers.collect() }
}
