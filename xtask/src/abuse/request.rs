//! Requests as bytes: MCP calls of both eras and plain HTTP, made once and sent many times.

use std::sync::Arc;

use serde_json::{Value, json};

/// Stands in a request where each sending of it has a fresh number.
pub(super) const NONCE: &str = "@@FRESH@NUMBER@@";

const MODERN: &str = "2026-07-28";
/// The one revision with batches.
pub(super) const BATCHING: &str = "2025-03-26";

/// The bytes of one request. Copies share them.
#[derive(Debug, Clone)]
pub(super) struct RequestBytes {
    bytes: Arc<[u8]>,
    nonce: Option<usize>,
    /// Where the body begins.
    pub(super) body: usize,
}

/// The head of a request, without what its body adds.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestHead<'a> {
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    pub(super) key: &'a str,
    /// Further header lines, each with its end.
    pub(super) headers: &'a str,
}

impl RequestBytes {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let nonce = std::str::from_utf8(&bytes).ok().and_then(|text| text.find(NONCE));
        let body = bytes.windows(4).position(|found| found == b"\r\n\r\n");
        let body = body.map_or(bytes.len(), |at| at + 4);
        Self { bytes: bytes.into(), nonce, body }
    }

    /// Bytes that are sent as they are, whatever they look like.
    pub(super) fn opaque(bytes: Vec<u8>) -> Self {
        Self { body: bytes.len(), bytes: bytes.into(), nonce: None }
    }

    /// The request in pieces, with this number in its place.
    pub(super) fn pieces<'a>(&'a self, number: &'a str) -> [&'a [u8]; 3] {
        debug_assert_eq!(number.len(), NONCE.len());
        match self.nonce {
            Some(at) => [&self.bytes[..at], number.as_bytes(), &self.bytes[at + NONCE.len()..]],
            None => [&self.bytes, b"", b""],
        }
    }

    /// Everything in one piece.
    pub(super) fn whole(&self, number: u64) -> Vec<u8> {
        self.pieces(&fresh(number)).concat()
    }
}

/// A number as long as the place for it.
pub(super) fn fresh(number: u64) -> String {
    format!("{number:0width$}", width = NONCE.len())
}

/// A request with a body as it is.
pub(super) fn raw(head: RequestHead<'_>, body: &[u8]) -> RequestBytes {
    let RequestHead { method, target, key, headers } = head;
    let mut bytes = format!(
        "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n\
         {headers}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    RequestBytes::new(bytes)
}

/// A request with a JSON body.
pub(super) fn rest(method: &str, target: &str, key: &str, body: &str) -> RequestBytes {
    let headers = "Content-Type: application/json\r\nAccept: application/json\r\n";
    raw(RequestHead { method, target, key, headers }, body.as_bytes())
}

/// A call of a tool.
pub(super) fn call(key: &str, tool: &str, arguments: &Value) -> RequestBytes {
    rpc(key, "tools/call", tool, json!({ "name": tool, "arguments": arguments }))
}

/// Any request of the modern era; `name` is what its routing header mirrors, if anything.
pub(super) fn rpc(key: &str, method: &str, name: &str, params: Value) -> RequestBytes {
    modern(key, method, name, rpc_body(method, params).to_string().as_bytes())
}

/// The body of a request of the modern era.
pub(super) fn rpc_body(method: &str, mut params: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    match params["_meta"].as_object_mut() {
        Some(given) => given.extend(meta.as_object().cloned().unwrap_or_default()),
        None => params["_meta"] = meta,
    }
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// A body of the modern era, whatever it says.
pub(super) fn modern(key: &str, method: &str, name: &str, body: &[u8]) -> RequestBytes {
    let name = match name {
        "" => String::new(),
        name => format!("Mcp-Name: {}\r\n", mirrored(name)),
    };
    let headers = format!(
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: {MODERN}\r\nMcp-Method: {method}\r\n{name}"
    );
    raw(RequestHead { method: "POST", target: "/mcp", key, headers: &headers }, body)
}

/// Header values carry what is plain ASCII; a long name cannot be mirrored at all, so it is cut
/// and the server refuses the mismatch.
fn mirrored(name: &str) -> String {
    name.chars().filter(char::is_ascii_graphic).take(8 * 1024).collect()
}

/// A body of the handshake era, in a session or without one.
pub(super) fn legacy(key: &str, session: Option<&str>, body: &str) -> RequestBytes {
    let session = session.map_or(String::new(), |id| format!("Mcp-Session-Id: {id}\r\n"));
    let headers = format!(
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: {BATCHING}\r\n{session}"
    );
    raw(RequestHead { method: "POST", target: "/mcp", key, headers: &headers }, body.as_bytes())
}

/// The first message of a session.
pub(super) fn initialize(key: &str) -> RequestBytes {
    let params = json!({
        "protocolVersion": BATCHING,
        "capabilities": {},
        "clientInfo": { "name": "abuse", "version": "0" },
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let headers =
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
    let head = RequestHead { method: "POST", target: "/mcp", key, headers };
    raw(head, body.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_number_takes_the_place_and_keeps_the_length() {
        let request = call("k", "search_knowledge", &json!({ "query": format!("w{NONCE}") }));
        let (one, two) = (request.whole(1), request.whole(2));
        assert_ne!(one, two);
        assert_eq!(one.len(), two.len());
        assert!(String::from_utf8(two).unwrap().contains("w0000000000000002"));
    }

    #[test]
    fn a_call_says_its_length_and_mirrors_its_name() {
        let text = String::from_utf8(call("k", "t", &json!({})).whole(0)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        assert!(head.contains("Mcp-Name: t") && head.contains("Bearer k"));
    }
}
