//! The knowledge base over MCP: every tool, profile, form of answer and revision.

mod audit; // what is written down about refused calls
mod conforms; // whether answers are what their schemas say
mod errors; // what goes wrong, and in which shape it is told
mod listing; // L-cases: pages, prefixes, bounds, cursors
mod matrix; // every tool × profile × form × revision
mod negotiation; // the agent-data vectors on `/mcp-gpt`
mod principals; // what belongs to whom, with API keys and path tokens
mod resources; // documents as resources, prompts, completions
mod rights; // what endpoints show of documents beside their tools
mod tools; // what each tool takes and answers
mod toolset; // M-cases: names, profiles, schemas, hash
mod writers; // many writers on one document

use std::collections::HashMap;

use lyceum_testkit::{Connection, Request, Response};
use serde_json::{Value, json};

use crate::lyceum::Lyceum;

pub(crate) const REVISIONS: [&str; 5] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN];
pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const PROFILES: [&str; 4] = ["/mcp", "/mcp-readonly", "/mcp-gpt", "/mcp-gpt-full"];
pub(crate) const JSON: &str = "application/json";
pub(crate) const SSE: &str = "text/event-stream";

/// A client of one profile, in one revision, that takes answers in one form.
pub(crate) struct Client {
    connection: Connection,
    pub(crate) profile: &'static str,
    pub(crate) revision: &'static str,
    pub(crate) accept: &'static str,
    key: String,
    /// The output schemas of the profile's tools.
    schemas: HashMap<String, Value>,
}

impl Client {
    pub(crate) async fn of(lyceum: &Lyceum, profile: &'static str) -> Self {
        Self::with_key(lyceum, profile, "").await
    }

    /// A client that shows `key`.
    pub(crate) async fn with_key(lyceum: &Lyceum, profile: &'static str, key: &str) -> Self {
        let mut client = Self {
            connection: lyceum.connect().await,
            profile,
            revision: MODERN,
            accept: JSON,
            key: key.to_owned(),
            schemas: HashMap::new(),
        };
        let list = client.ask("tools/list", json!({})).await;
        let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list}"));
        let schema = |tool: &Value| {
            (tool["name"].as_str().unwrap().to_owned(), tool["outputSchema"].clone())
        };
        client.schemas = tools.iter().map(schema).collect();
        client
    }

    pub(crate) async fn send(&mut self, method: &str, params: Value) -> Response {
        let request = request(self.profile, self.revision, method, params);
        let request = request.set("accept", self.accept);
        let request =
            if self.key.is_empty() { request } else { request.header("x-api-key", &self.key) };
        self.connection.call(&request).await
    }

    /// Asks for something and returns the whole JSON-RPC message, whichever form it came in.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let response = self.send(method, params).await;
        if self.accept == JSON {
            return response.json();
        }
        let events = response.events();
        assert_eq!(events.len(), 1, "{}", response.text());
        assert_eq!(events[0].name, "message");
        events[0].json()
    }

    /// Calls a tool and returns its result.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.ask("tools/call", params).await;
        assert!(answer["error"].is_null(), "{tool}: {answer}");
        self.check_shape(tool, &answer["result"]);
        answer["result"].clone()
    }

    /// Calls a tool that succeeds and returns what it answers.
    pub(crate) async fn ok(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments.clone()).await;
        assert!(result["isError"].is_null(), "{tool} {arguments}: {result}");
        text_of(&result)
    }

    /// Calls a tool that fails and returns its error.
    pub(crate) async fn refused(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments.clone()).await;
        assert_eq!(result["isError"], true, "{tool} {arguments}: {result}");
        let error = text_of(&result)["error"].clone();
        assert!(error["message"].is_string() && error["details"].is_object(), "{error}");
        error
    }

    /// One text block that fits the tool's schema, and the same object as structured content where
    /// the revision has it.
    fn check_shape(&self, tool: &str, result: &Value) {
        assert_eq!(result["content"].as_array().unwrap().len(), 1);
        let schema = &self.schemas[tool];
        conforms::check(schema, schema, &text_of(result))
            .unwrap_or_else(|why| panic!("{tool}: {why}"));
        if self.revision >= "2025-06-18" {
            assert_eq!(result["structuredContent"], text_of(result));
        } else {
            assert!(result["structuredContent"].is_null());
        }
    }
}

pub(crate) fn request(profile: &str, revision: &str, method: &str, params: Value) -> Request {
    if revision == MODERN {
        return Request::modern(profile, 1, method, params);
    }
    Request::legacy(profile, 1, method, params).header("mcp-protocol-version", revision)
}

/// The JSON in a result's text.
pub(crate) fn text_of(result: &Value) -> Value {
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}
