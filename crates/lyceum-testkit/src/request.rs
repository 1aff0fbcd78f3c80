//! A request as it will stand on the wire.

use serde_json::{Value, json};

const META: &str = "io.modelcontextprotocol";

/// A request, built line by line. Headers are sent as given: in order, repeated, right or wrong.
#[derive(Debug, Clone)]
pub struct Request {
    /// The HTTP method.
    pub method: String,
    /// The request target.
    pub target: String,
    /// The header lines after the request line.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// A request with a Host line only.
    pub fn new(method: &str, target: &str) -> Self {
        let host = ("host".to_owned(), "127.0.0.1".to_owned());
        Self { method: method.into(), target: target.into(), headers: vec![host], body: Vec::new() }
    }

    /// A POST of JSON by a client that takes JSON and SSE.
    pub fn post(target: &str, body: impl Into<Vec<u8>>) -> Self {
        let request = Self::new("POST", target)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        Self { body: body.into(), ..request }
    }

    /// A 2026-07-28 request with all it needs: metadata and the headers that mirror the body.
    pub fn modern(target: &str, id: impl Into<Value>, method: &str, mut params: Value) -> Self {
        let name = ["name", "uri", "taskId"].into_iter().find_map(|key| params[key].as_str());
        let name = name.map(str::to_owned);
        params["_meta"][format!("{META}/protocolVersion")] = "2026-07-28".into();
        let capabilities = &mut params["_meta"][format!("{META}/clientCapabilities")];
        if capabilities.is_null() {
            *capabilities = json!({});
        }
        let id: Value = id.into();
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let request = Self::post(target, body.to_string())
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method);
        match name {
            Some(name) => request.header("mcp-name", &name),
            None => request,
        }
    }

    /// A legacy request.
    pub fn legacy(target: &str, id: impl Into<Value>, method: &str, params: Value) -> Self {
        let id: Value = id.into();
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        Self::post(target, body.to_string())
    }

    /// Adds a header line.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Replaces every line of a header by one, in the place of the first.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        let place = self.headers.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
        self = self.without(name);
        let place = place.unwrap_or(self.headers.len()).min(self.headers.len());
        self.headers.insert(place, (name.into(), value.into()));
        self
    }

    /// Removes every line of a header.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// Replaces the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The bytes of an HTTP/1.1 request; a body gets its length unless the headers frame it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        let framed = |(name, _): &(String, String)| {
            name.eq_ignore_ascii_case("content-length")
                || name.eq_ignore_ascii_case("transfer-encoding")
        };
        if !self.body.is_empty() && !self.headers.iter().any(framed) {
            out.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        out.push_str("\r\n");
        let mut out = out.into_bytes();
        out.extend_from_slice(&self.body);
        out
    }
}
