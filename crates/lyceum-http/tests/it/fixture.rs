//! The handler behind every test: small tools that do one thing each, and a count of all calls.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use lyceum_http::{About, Context, Delivery, Handler, Outcome, Session};
use lyceum_wire::{
    ClientCapabilities, Era, LogLevel, Member, Notification, ParamHeaders, Request, RpcError,
    removed_in_modern, supported_versions_json,
};
use serde_json::{Value, json, value::RawValue};
use tokio::sync::Notify;

use crate::puppet::Puppet;

/// The handler. Clones share everything.
#[derive(Clone)]
pub(crate) struct Fixture {
    state: Arc<State>,
}

struct State {
    calls: AtomicUsize,
    notes: AtomicUsize,
    smuggled: AtomicUsize,
    running: AtomicUsize,
    emitted: AtomicUsize,
    emitted_by_last: AtomicUsize,
    changed: Notify,
    puppets: Mutex<HashMap<String, Puppet>>,
    sessions: Mutex<Vec<Weak<Session>>>,
    region: Arc<ParamHeaders>,
}

/// Counts a call as running until it is dropped, finished or not.
struct Running(Arc<State>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let schema = br#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
        let state = State {
            calls: AtomicUsize::new(0),
            notes: AtomicUsize::new(0),
            smuggled: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            emitted: AtomicUsize::new(0),
            emitted_by_last: AtomicUsize::new(0),
            changed: Notify::new(),
            puppets: Mutex::default(),
            sessions: Mutex::default(),
            region: Arc::new(ParamHeaders::from_schema(schema).unwrap()),
        };
        Self { state: Arc::new(state) }
    }

    /// Requests and notifications that reached the handler.
    pub(crate) fn invocations(&self) -> usize {
        self.state.calls.load(Ordering::SeqCst) + self.state.notes.load(Ordering::SeqCst)
    }

    /// Notifications that reached the handler.
    pub(crate) fn notes(&self) -> usize {
        self.state.notes.load(Ordering::SeqCst)
    }

    /// Calls of a tool that nobody may reach.
    pub(crate) fn smuggled(&self) -> usize {
        self.state.smuggled.load(Ordering::SeqCst)
    }

    /// Calls whose futures are alive.
    pub(crate) fn running(&self) -> usize {
        self.state.running.load(Ordering::SeqCst)
    }

    /// Notifications that `burst` calls got rid of.
    pub(crate) fn emitted(&self) -> usize {
        self.state.emitted.load(Ordering::SeqCst)
    }

    /// The same, of the newest call alone.
    pub(crate) fn emitted_by_last(&self) -> usize {
        self.state.emitted_by_last.load(Ordering::SeqCst)
    }

    /// Waits until so many calls are running.
    pub(crate) async fn until_running(&self, n: usize) {
        self.until(|| self.running() == n).await;
    }

    /// Waits for the puppet call of this name to start, and takes its strings.
    pub(crate) async fn puppet(&self, name: &str) -> Puppet {
        self.until(|| self.state.puppets.lock().unwrap().contains_key(name)).await;
        self.state.puppets.lock().unwrap().remove(name).unwrap()
    }

    /// Puts a notification on the standalone stream of every session that has one.
    pub(crate) fn announce(&self, text: &str) -> Vec<Delivery> {
        let message = announcement(text);
        let sessions = self.state.sessions.lock().unwrap();
        let live = sessions.iter().filter_map(Weak::upgrade);
        live.map(|session| session.notify(message.clone())).collect()
    }

    /// Sessions that opened a stream and still have live state.
    pub(crate) fn live_sessions(&self) -> usize {
        self.state
            .sessions
            .lock()
            .unwrap()
            .iter()
            .filter(|session| session.strong_count() > 0)
            .count()
    }

    pub(crate) async fn until(&self, mut holds: impl FnMut() -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.state.changed.notified());
            changed.as_mut().enable();
            if holds() {
                return;
            }
            changed.await;
        }
    }

    fn start(&self) -> Running {
        self.state.calls.fetch_add(1, Ordering::SeqCst);
        self.state.running.fetch_add(1, Ordering::SeqCst);
        self.state.changed.notify_waiters();
        Running(Arc::clone(&self.state))
    }

    async fn answer(&self, request: Request, cx: Context) -> Result<Outcome, RpcError> {
        let method = &*request.method;
        if cx.era() == Era::Modern && removed_in_modern(method) {
            return Err(RpcError::method_not_found(method));
        }
        match method {
            "initialize" if is_unwelcome(&request) => Err(RpcError::internal("not you")),
            "initialize" => self.initialize(&cx).await,
            "server/discover" => self.discover(&cx),
            "tools/call" => self.tool(&request, cx).await,
            "ping" | "tools/list" | "resources/subscribe" | "subscriptions/listen" => {
                outcome(&cx, json!({}))
            }
            "logging/setLevel" => {
                let level =
                    request.params.text(Member::Level).and_then(|text| LogLevel::parse(&text));
                let session = cx.session.as_ref();
                if let (Some(session), Some(level)) = (session, level) {
                    session.set_log_level(level);
                }
                outcome(&cx, json!({}))
            }
            "resources/read" => {
                let uri = request.params.text(Member::Uri).unwrap_or_default();
                Err(RpcError::resource_not_found(&uri, cx.era()))
            }
            _ => Err(RpcError::method_not_found(method)),
        }
    }

    async fn initialize(&self, cx: &Context) -> Result<Outcome, RpcError> {
        cx.notify("notifications/message", note("hello").to_string().as_bytes()).await;
        outcome(
            cx,
            json!({
                "protocolVersion": cx.revision.as_str(),
                "capabilities": {},
                "serverInfo": {"name": "fixture", "version": "1"},
            }),
        )
    }

    fn discover(&self, cx: &Context) -> Result<Outcome, RpcError> {
        let versions = supported_versions_json(cx.served);
        let versions: &RawValue = serde_json::from_slice(&versions).unwrap();
        outcome(cx, json!({"supportedVersions": versions, "capabilities": {}}))
    }

    async fn tool(&self, request: &Request, cx: Context) -> Result<Outcome, RpcError> {
        let arguments = request.params.get(Member::Arguments).unwrap_or(b"{}");
        let arguments: Value = serde_json::from_slice(arguments).unwrap();
        let name = request.params.text(Member::Name).unwrap_or_default();
        match &*name {
            "echo" | "region" => outcome(&cx, text(arguments["text"].as_str().unwrap_or(""))),
            "burst" => {
                let n = arguments["n"].as_u64().unwrap_or(3);
                let size = arguments["size"].as_u64().unwrap_or(0) as usize;
                self.state.emitted_by_last.store(0, Ordering::SeqCst);
                for at in 1..=n {
                    let padding = "x".repeat(size);
                    let note = note(&format!("{at}{padding}"));
                    cx.notify("notifications/message", note.to_string().as_bytes()).await;
                    self.state.emitted.fetch_add(1, Ordering::SeqCst);
                    self.state.emitted_by_last.fetch_add(1, Ordering::SeqCst);
                }
                outcome(&cx, text("done"))
            }
            "ask" => match cx.ask("elicitation/create", br#"{"message":"?"}"#).await {
                Ok(answer) => outcome(&cx, text(&String::from_utf8_lossy(&answer))),
                Err(error) => Err(error),
            },
            "tell" => {
                let told = cx.session.as_ref().map(|session| session.notify(announcement("told")));
                outcome(&cx, text(&format!("{told:?}")))
            }
            "level" => outcome(&cx, text(cx.log_level.map_or("none", LogLevel::as_str))),
            // As a server might pass it on from elsewhere: over several lines, with odd separators.
            "raw" => Ok(Outcome::json(
                "{\n  \"content\": [\r\n{\"type\":\"text\",\"text\":\"a\u{2028}b\\nc\"}]\n}",
            )),
            "smuggled" => {
                self.state.smuggled.fetch_add(1, Ordering::SeqCst);
                outcome(&cx, text("smuggled"))
            }
            "hang" => std::future::pending().await,
            "puppet" => {
                let name = arguments["name"].as_str().unwrap_or("puppet").to_owned();
                let (puppet, strings) = Puppet::new();
                self.state.puppets.lock().unwrap().insert(name, puppet);
                self.state.changed.notify_waiters();
                strings.dance(&cx).await.and_then(|result| outcome(&cx, text(&result)))
            }
            "panic" => panic!("a handler that panics"),
            "panic_later" => {
                tokio::task::yield_now().await;
                panic!("a handler that panics later")
            }
            "big" => {
                let bytes = arguments["bytes"].as_u64().unwrap_or(0) as usize;
                outcome(&cx, text(&"b".repeat(bytes)))
            }
            "refuse" => {
                let mut result = text("bad arguments");
                result["isError"] = true.into();
                outcome(&cx, result)
            }
            "fail" => Err(RpcError::internal("it failed")),
            "sample" if !cx.capabilities.has(ClientCapabilities::SAMPLING) => match cx.era() {
                Era::Modern => Err(RpcError::missing_capability(br#"{"sampling":{}}"#)),
                Era::Legacy => Err(RpcError::invalid_params("needs sampling")),
            },
            "sample" => outcome(&cx, text("sampled")),
            "forbidden" => Err(RpcError::invalid_params("Tool not allowed: forbidden")),
            _ => Err(RpcError::invalid_params(format!("Unknown tool: {name}"))),
        }
    }
}

impl Handler for Fixture {
    fn call(
        &self,
        request: Request,
        cx: Context,
    ) -> impl Future<Output = Result<Outcome, RpcError>> + Send {
        let running = self.start();
        if request.params.text(Member::Name).as_deref() == Some("panic_at_once") {
            panic!("a handler that panics before it returns a future");
        }
        async move {
            let _running = running;
            self.answer(request, cx).await
        }
    }

    async fn notify(&self, notification: Notification, _: Context) {
        self.state.notes.fetch_add(1, Ordering::SeqCst);
        self.state.changed.notify_waiters();
        match &*notification.method {
            "notifications/panic" => panic!("a handler that panics on a notification"),
            "notifications/hang" => {
                self.state.running.fetch_add(1, Ordering::SeqCst);
                let _running = Running(Arc::clone(&self.state));
                std::future::pending().await
            }
            _ => {}
        }
    }

    fn stream_opened(&self, session: &Arc<Session>) {
        let mut sessions = self.state.sessions.lock().unwrap();
        sessions.retain(|known| known.strong_count() > 0);
        if !sessions.iter().any(|known| std::ptr::eq(known.as_ptr(), &raw const **session)) {
            sessions.push(Arc::downgrade(session));
        }
        self.state.changed.notify_waiters();
    }

    fn param_headers(&self, call: &Request) -> Option<Arc<ParamHeaders>> {
        call.params.text_is(Member::Name, "region").then(|| Arc::clone(&self.state.region))
    }

    fn about(&self) -> About<'_> {
        About { name: "fixture", version: "1", description: "For tests.", details: Vec::new() }
    }
}

fn is_unwelcome(request: &Request) -> bool {
    let client: Option<Value> =
        request.params.get(Member::ClientInfo).and_then(|raw| serde_json::from_slice(raw).ok());
    client.is_some_and(|client| client["name"] == "unwelcome")
}

/// A whole log notification.
fn announcement(data: &str) -> Bytes {
    let params = note(data);
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
        .to_string()
        .into()
}

/// The params of a log notification.
pub(crate) fn note(data: &str) -> Value {
    json!({"level": "info", "data": data})
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn outcome(cx: &Context, mut result: Value) -> Result<Outcome, RpcError> {
    if cx.era() == Era::Modern {
        result["resultType"] = "complete".into();
    }
    Outcome::of(&result)
}
