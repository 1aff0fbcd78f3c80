//! The requests the doctor sends, built from a correct one by spoiling it on purpose.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

/// What every modern request says about itself.
const MODERN: &str = "2026-07-28";
const BOTH: &str = "application/json, text/event-stream";

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) method: Method,
    /// The path, where it is not the endpoint's.
    pub(super) path: Option<String>,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Bytes,
    /// Whether the answer's head is all that matters.
    pub(super) head_only: bool,
}

impl Ask {
    /// A POST of `body`, acceptable to everyone.
    pub(super) fn post(body: impl Into<Bytes>) -> Self {
        let ask = Self::bare(Method::POST, body.into());
        ask.with("content-type", "application/json").with("accept", BOTH)
    }

    /// A request without a body.
    pub(super) fn method(method: Method) -> Self {
        Self::bare(method, Bytes::new())
    }

    /// A GET for an event stream.
    pub(super) fn stream() -> Self {
        let ask = Self::method(Method::GET).with("accept", "text/event-stream");
        Self { head_only: true, ..ask }
    }

    /// A complete 2026-07-28 request.
    pub(super) fn modern(method: &str) -> Self {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": client_info(),
        });
        let body = request(method, Some(json!({ "_meta": meta })));
        Self::post(body).with("mcp-protocol-version", MODERN).with("mcp-method", method)
    }

    /// A legacy request.
    pub(super) fn legacy(method: &str) -> Self {
        Self::post(request(method, None))
    }

    /// A legacy notification.
    pub(super) fn notification(method: &str) -> Self {
        Self::post(json!({ "jsonrpc": "2.0", "method": method }).to_string())
    }

    /// A legacy handshake.
    pub(super) fn initialize(version: &str) -> Self {
        let params = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": client_info(),
        });
        Self::post(request("initialize", Some(params)))
    }

    /// The same request with a header set, or replaced.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self = self.without(name);
        self.headers.push((name, value.into()));
        self
    }

    /// The same request without a header.
    pub(super) fn without(mut self, name: &'static str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self
    }

    /// The same request with another body.
    pub(super) fn saying(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    fn bare(method: Method, body: Bytes) -> Self {
        Self { method, path: None, headers: Vec::new(), body, head_only: false }
    }
}

fn client_info() -> Value {
    json!({ "name": "lyceum-doctor", "version": env!("CARGO_PKG_VERSION") })
}

fn request(method: &str, params: Option<Value>) -> String {
    let mut request = json!({ "jsonrpc": "2.0", "id": 1, "method": method });
    if let Some(params) = params {
        request["params"] = params;
    }
    request.to_string()
}
