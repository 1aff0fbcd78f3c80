//! The calls as bytes on the wire.

use serde_json::{Value, json};

use super::corpus::{self, Document};
use super::operation::Ask;
use super::rng::Rng;
use crate::answer::Answer;
use crate::echo;

pub(super) const ENDPOINT: &str = "/mcp";

/// Kinds of numbers; those of the documents are others.
const ASKING: u64 = 100;

/// One client's next call, and the one after that.
#[derive(Debug)]
pub(super) struct Requests {
    ask: Ask,
    port: u16,
    documents: usize,
    rng: Rng,
    /// What makes this client's new documents its own.
    stamp: String,
    count: usize,
    cursor: Option<String>,
}

impl Requests {
    /// No two clients ask the same; what was written already would not be a write.
    pub(super) fn new(ask: Ask, client: usize, port: u16, documents: usize) -> Self {
        let rng = Rng::new(ASKING + ask as u64, client as u64);
        let stamp = format!("{ask:?}-{client}").to_lowercase();
        Self { ask, port, documents, rng, stamp, count: 0, cursor: None }
    }

    pub(super) fn next(&mut self) -> Vec<u8> {
        self.count += 1;
        match self.ask {
            Ask::Initialize => echo::initialize(self.port, ENDPOINT),
            Ask::ListTools => call(self.port, "tools/list", &json!({})),
            _ => {
                let (tool, arguments) = self.arguments();
                call_tool(self.port, tool, &arguments)
            }
        }
    }

    /// Looks at the answer for what the next call needs of it.
    pub(super) fn answered(&mut self, answer: &Answer) {
        if self.ask == Ask::ListCursor {
            let answer: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let next = &answer["result"]["structuredContent"]["next_cursor"];
            self.cursor = next.as_str().map(str::to_owned);
        }
    }

    fn arguments(&mut self) -> (&'static str, Value) {
        let rng = &mut self.rng;
        let number = rng.below(self.documents);
        match self.ask {
            Ask::Initialize | Ask::ListTools => ("", Value::Null),
            Ask::List => ("list_documents", json!({})),
            Ask::ListFolder => ("list_documents", json!({ "prefix": corpus::folder(rng) })),
            Ask::ListOffset => ("list_documents", json!({ "offset": 9_900, "limit": 100 })),
            Ask::ListCursor => match &self.cursor {
                None => ("list_documents", json!({})),
                Some(cursor) => ("list_documents", json!({ "cursor": cursor })),
            },
            Ask::Get => ("get_document", json!({ "document_id": corpus::path(number) })),
            Ask::Batch => {
                let paths = [(); 3].map(|()| corpus::path(rng.below(self.documents)));
                ("batch_read", json!({ "paths": paths }))
            }
            Ask::Search => ("search_knowledge", json!({ "query": corpus::question(rng) })),
            Ask::SearchFiltered => ("search_knowledge", filtered(rng, self.count)),
            Ask::SearchCommon => {
                ("search_knowledge", json!({ "query": corpus::common_question(rng) }))
            }
            Ask::Upload => {
                let path = format!("written/{}-{}.md", self.stamp, self.count);
                ("upload_document", Document::at(path, self.fresh(number)).arguments())
            }
            Ask::Update => {
                let content = Document::at(String::new(), self.fresh(number)).into_body();
                ("update_document", json!({ "path": corpus::path(number), "content": content }))
            }
        }
    }

    /// The number of a text that no document has yet.
    fn fresh(&mut self, number: usize) -> usize {
        number + (self.rng.next() >> 16) as usize
    }
}

/// Each filter in its turn: a tag, a prefix, a time that lets everything pass, all three.
fn filtered(rng: &mut Rng, count: usize) -> Value {
    let mut arguments = json!({ "query": corpus::question(rng) });
    let (tags, prefix, since) = (json!([corpus::tag(rng)]), corpus::area(rng), "2020-01-01");
    match count % 4 {
        0 => arguments["tags"] = tags,
        1 => arguments["prefix"] = json!(prefix),
        2 => arguments["updated_since"] = json!(since),
        _ => {
            arguments["tags"] = tags;
            arguments["prefix"] = json!(prefix);
            arguments["updated_since"] = json!(since);
        }
    }
    arguments
}

/// A `tools/call` with these arguments.
pub(super) fn call_tool(port: u16, tool: &str, arguments: &Value) -> Vec<u8> {
    call(port, "tools/call", &json!({ "name": tool, "arguments": arguments }))
}

fn call(port: u16, method: &str, params: &Value) -> Vec<u8> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    echo::legacy_post(port, ENDPOINT, &body.to_string())
}
