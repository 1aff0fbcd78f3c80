//! A writer's connection, over MCP or the HTTP API, to a server that may die in the middle.

use std::net::SocketAddr;

use lyceum_testkit::{Connection, Request};
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

/// Which way in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Door {
    Mcp,
    Rest,
}

/// A tool and its arguments.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
}

/// What became of an operation.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The answer.
    Done(Value),
    Refused {
        code: String,
        message: String,
    },
    /// No answer came, or half of one.
    Lost,
}

/// A connection that stays open.
#[derive(Debug)]
pub(super) struct Line {
    connection: Connection,
    door: Door,
}

impl Line {
    pub(super) async fn open(address: SocketAddr, door: Door) -> Self {
        Self { connection: Connection::open(address).await, door }
    }

    pub(super) async fn attempt(&mut self, operation: &Operation) -> Outcome {
        if self.connection.try_send(operation.request(self.door).to_bytes()).await.is_err() {
            return Outcome::Lost;
        }
        let Some(response) = self.connection.try_response().await else { return Outcome::Lost };
        let Ok(answer) = serde_json::from_slice::<Value>(&response.body) else {
            return Outcome::Lost;
        };
        match self.door {
            Door::Rest => judge(&answer),
            Door::Mcp => {
                let text = answer["result"]["content"][0]["text"].as_str();
                let text = text.unwrap_or_else(|| panic!("a tool's answer: {answer}"));
                judge(&serde_json::from_str(text).unwrap())
            }
        }
    }

    /// Does what cannot fail.
    pub(super) async fn ask(&mut self, tool: &'static str, arguments: Value) -> Value {
        match self.attempt(&Operation { tool, arguments }).await {
            Outcome::Done(answer) => answer,
            other => panic!("{tool}: {other:?}"),
        }
    }

    /// Sends the operation, waits a moment and cuts the connection without reading an answer.
    pub(super) async fn abandon(mut self, operation: &Operation, after: Duration) {
        self.connection.send(operation.request(self.door).to_bytes()).await;
        sleep(after).await;
        self.connection.reset();
    }
}

fn judge(answer: &Value) -> Outcome {
    let error = &answer["error"];
    if error.is_null() {
        return Outcome::Done(answer.clone());
    }
    let text = |value: &Value| value.as_str().expect("errors have code and message").to_owned();
    Outcome::Refused { code: text(&error["code"]), message: text(&error["message"]) }
}

impl Operation {
    fn request(&self, door: Door) -> Request {
        match door {
            Door::Mcp => {
                let params = json!({ "name": self.tool, "arguments": self.arguments });
                let request = Request::modern("/mcp", 1, "tools/call", params);
                request.set("accept", "application/json")
            }
            Door::Rest => self.rest(),
        }
    }

    fn rest(&self) -> Request {
        let (method, target) = match self.tool {
            "upload_document" => ("POST", "/documents".to_owned()),
            "batch_read" => ("POST", "/documents/batch".to_owned()),
            "update_document" => ("PUT", self.document()),
            "patch_document" => ("PATCH", self.document()),
            "delete_document" => ("DELETE", self.document()),
            other => panic!("{other} has no route here"),
        };
        let request = Request { method: method.to_owned(), ..Request::post(&target, "") };
        request.body(self.arguments.to_string())
    }

    fn document(&self) -> String {
        format!("/documents/{}", self.arguments["path"].as_str().unwrap())
    }
}
