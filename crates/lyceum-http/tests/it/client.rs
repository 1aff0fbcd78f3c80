//! The client against scripted servers: what it sends byte by byte, and what it makes of answers.

// Whose business a message is that names no call.
mod attribution;
// What a hostile or broken server can and cannot make the client do.
mod bounds;
// What answers are charged to while they arrive.
mod charged;
// Connections used again.
mod connections;
// Our own endpoint.
mod endpoint;
// The transport of 2024-11-05, and how the client gets there.
mod http_sse;
// Servers with sessions.
mod legacy;
// Servers over two byte streams.
mod lines;
// Stateless servers.
mod modern;
// The server's end of two byte streams.
mod pipe;
// A server that plays a script.
mod script;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use lyceum_http::client::{
    Client, ClientBuilder, ClientHandler, Limits, Peer, ServerNotification, ServerRequest,
};
use lyceum_wire::{RevisionSet, RpcError};
use script::Script;

/// A client named like the one in the expected requests.
fn client(script: &Script) -> ClientBuilder {
    Client::builder(script.url("/mcp")).name("c", "1").versions(RevisionSet::ALL)
}

async fn connect(script: &Script) -> Peer {
    client(script).build().unwrap().connect().await.unwrap()
}

/// A connection without a standing stream, for tests that do not care about one.
async fn connect_quietly(script: &Script) -> Peer {
    client(script).standing_stream(false).build().unwrap().connect().await.unwrap()
}

fn limits(set: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    set(&mut limits);
    limits
}

/// Answers every request with its own params under `echo`, and remembers notifications.
#[derive(Clone, Default)]
struct Echo(Arc<Mutex<Vec<String>>>);

impl Echo {
    fn heard(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// The same, but says by its name who answered. The undecided one never answers.
struct Named(&'static str, Echo);

impl ClientHandler for Named {
    async fn request(&self, _: ServerRequest) -> Result<Bytes, RpcError> {
        if self.0 == "undecided" {
            std::future::pending::<()>().await;
        }
        Ok(format!(r#"{{"by":"{}"}}"#, self.0).into())
    }

    async fn notification(&self, notification: ServerNotification) {
        ClientHandler::notification(&self.1, notification).await;
    }
}

impl ClientHandler for Echo {
    async fn request(&self, request: ServerRequest) -> Result<Bytes, RpcError> {
        if request.method == "sampling/createMessage" {
            return Err(RpcError::internal("no model here"));
        }
        let params = request.params.unwrap_or(Bytes::from_static(b"null"));
        Ok(format!(r#"{{"echo":{}}}"#, String::from_utf8_lossy(&params)).into())
    }

    async fn notification(&self, notification: ServerNotification) {
        let params = notification.params.unwrap_or_default();
        let text = format!("{} {}", notification.method, String::from_utf8_lossy(&params));
        self.0.lock().unwrap().push(text);
    }
}
