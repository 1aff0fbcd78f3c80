//! A client in process. [`Talk`] stands in for the transport: it hands requests to a server with a
//! context of its own making, records what the server sends, and answers what it asks.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lyceum_http::{
    ByteBudgets, Context, Delivery, Handler, Limits, Outlet, OutletFuture, Principal, Sealer,
    Session,
};
use lyceum_server::Server;
use lyceum_wire::{
    ClientCapabilities, Id, LogLevel, Params, Request, Revision, RevisionSet, RpcError,
};
use serde_json::Value;

/// One client of one server.
#[derive(Clone)]
pub(crate) struct Talk {
    pub(crate) server: Server,
    pub(crate) revision: Revision,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) principal: Option<Principal>,
    pub(crate) endpoint: Arc<str>,
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) progress_token: Option<Bytes>,
    pub(crate) session_key: Option<[u8; 16]>,
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) outlet: Arc<Recorder>,
}

/// Keeps what is sent, and answers questions from a script.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) sent: Mutex<Vec<String>>,
    pub(crate) asked: Mutex<Vec<String>>,
    pub(crate) answers: Mutex<VecDeque<Value>>,
    /// Whether a question without an answer stays open instead of being refused.
    pub(crate) patient: AtomicBool,
    pub(crate) arrived: tokio::sync::Notify,
}

impl Talk {
    pub(crate) fn new(server: &Server, revision: Revision) -> Self {
        Self {
            server: server.clone(),
            revision,
            capabilities: ClientCapabilities::default(),
            principal: None,
            endpoint: "/mcp".into(),
            log_level: None,
            progress_token: None,
            session_key: None,
            session: None,
            sealer: Arc::new(Sealer::new(&[[7; 32]])),
            outlet: Arc::default(),
        }
    }

    pub(crate) fn modern(server: &Server) -> Self {
        Self::new(server, Revision::V2026_07_28)
    }

    pub(crate) fn can(mut self, capabilities: ClientCapabilities) -> Self {
        self.capabilities = self.capabilities | capabilities;
        self
    }

    pub(crate) fn named(mut self, principal: &str) -> Self {
        self.principal = Some(Principal::new(principal));
        self
    }

    pub(crate) fn answers(self, answers: impl IntoIterator<Item = Value>) -> Self {
        self.outlet.answers.lock().unwrap().extend(answers);
        self
    }

    /// Calls a method and returns the result, or the error as `{"error": …}`.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        serde_json::from_str(&self.raw(method, params).await).unwrap()
    }

    /// The same, as the text on the wire.
    pub(crate) async fn raw(&self, method: &str, params: Value) -> String {
        let params = Bytes::from(params.to_string());
        let request = Request {
            id: Id::number(1),
            method: method.into(),
            params: Params::from_raw(params).unwrap(),
        };
        match self.server.call(request, self.context()).await {
            Ok(outcome) => String::from_utf8(outcome.as_bytes().to_vec()).unwrap(),
            Err(error) => {
                let whole = lyceum_wire::encode::error(None, &error);
                let whole: Value = serde_json::from_slice(&whole).unwrap();
                serde_json::json!({ "error": whole["error"] }).to_string()
            }
        }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", serde_json::json!({ "name": tool, "arguments": arguments })).await
    }

    /// What the server sent before its results, oldest first.
    pub(crate) fn sent(&self) -> Vec<String> {
        self.outlet.sent.lock().unwrap().clone()
    }

    /// What the server asked.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.outlet.asked.lock().unwrap().clone()
    }

    /// Waits until the server has sent `n` messages.
    pub(crate) async fn sent_at_least(&self, n: usize) -> Vec<String> {
        loop {
            let arrived = self.outlet.arrived.notified();
            let sent = self.sent();
            if sent.len() >= n {
                return sent;
            }
            arrived.await;
        }
    }

    pub(crate) fn context(&self) -> Context {
        Context {
            revision: self.revision,
            served: RevisionSet::ALL,
            capabilities: self.capabilities,
            log_level: self.log_level,
            progress_token: self.progress_token.clone(),
            principal: self.principal.clone(),
            peer: None,
            budgets: Arc::new(ByteBudgets::new(&Limits::default())),
            endpoint: Arc::clone(&self.endpoint),
            session_key: self.session_key,
            session: self.session.clone(),
            sealer: Arc::clone(&self.sealer),
            outlet: self.outlet.clone(),
        }
    }
}

impl Outlet for Recorder {
    fn send(&self, message: Bytes) -> OutletFuture<'_, Delivery> {
        self.sent.lock().unwrap().push(String::from_utf8(message.to_vec()).unwrap());
        self.arrived.notify_one();
        Box::pin(std::future::ready(Delivery::Queued))
    }

    fn ask<'a>(
        &'a self,
        method: &'a str,
        params: &'a [u8],
    ) -> OutletFuture<'a, Result<Bytes, RpcError>> {
        let asked = format!("{method} {}", String::from_utf8_lossy(params));
        self.asked.lock().unwrap().push(asked);
        let answer = self.answers.lock().unwrap().pop_front();
        if answer.is_none() && self.patient.load(Ordering::Relaxed) {
            return Box::pin(std::future::pending());
        }
        let answer = answer.map(|answer| Bytes::from(answer.to_string()));
        let answer = answer.ok_or_else(|| RpcError::internal("the script has no answer"));
        Box::pin(std::future::ready(answer))
    }
}
