//! The Knox surface: the paths, headers and plain HTTP calls that clients of the Knox MCP proxy know.
//!
//! MCP itself is the endpoint's business; this only says which path is which, adds the headers those
//! clients look for, and answers the calls that are not MCP (`calls`).

mod calls;
mod documents;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use http_body::Body;
use lyceum_gateway::{Door, Gateway};
use lyceum_http::{Endpoint, HttpSse, InfoDocument, ResponseFuture};
use lyceum_server::Server;
use tower_service::Service;

use crate::rest::Doorkeeper;

/// Where messages for open streams go, below the base.
const MESSAGE: &str = "/message";
const VERSION: HeaderName = HeaderName::from_static("mcp-version");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// What a client that names no version is taken to speak.
const OLDEST: HeaderValue = HeaderValue::from_static("2024-11-05");

/// Everything below one base path. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Surface(Arc<Inner>);

struct Inner {
    base: String,
    endpoint: Endpoint<Door>,
    streams: HttpSse<Door>,
    door: Door,
    gateway: Gateway,
    keeper: Doorkeeper,
    /// Whether the log has said that the two old paths are old.
    warned: AtomicBool,
}

/// What is at a path below the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place<'a> {
    /// MCP, in any revision.
    Mcp,
    /// The stream of the 2024-11-05 transport.
    Sse,
    /// Its messages.
    Message,
    /// Not MCP.
    Call(calls::Call<'a>),
}

/// A server that has nothing of its own to offer.
pub(crate) fn server() -> Server {
    Server::builder("lyceum", env!("CARGO_PKG_VERSION"))
        .title("Lyceum")
        .description("One door to the MCP servers behind it.")
        .build()
}

/// Where the endpoint at `base` takes messages for its streams.
pub(crate) fn messages(base: &str) -> String {
    format!("{base}{MESSAGE}")
}

/// What a GET that wants JSON is told.
pub(crate) fn info(base: &str, door: &Door, gateway: &Gateway) -> InfoDocument {
    let (base, door, gateway) = (base.to_owned(), door.clone(), gateway.clone());
    Arc::new(move || documents::service(&base, &door, &gateway))
}

impl Surface {
    pub(crate) fn new(
        endpoint: Endpoint<Door>,
        door: Door,
        gateway: Gateway,
        keeper: Doorkeeper,
    ) -> Self {
        let base = endpoint.path().to_owned();
        let streams = endpoint.http_sse(messages(&base));
        let warned = AtomicBool::new(false);
        Self(Arc::new(Inner { base, endpoint, streams, door, gateway, keeper, warned }))
    }

    /// Whether `path` is answered here.
    pub(crate) fn claims(&self, path: &str) -> bool {
        self.0.place(path).is_some()
    }

    /// Answers one request.
    pub(crate) fn respond<B>(&self, request: Request<B>) -> ResponseFuture
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let inner = Arc::clone(&self.0);
        let path = request.uri().path().to_owned();
        match inner.place(&path) {
            None | Some(Place::Mcp) => {
                let version = version(&request);
                answering(inner.endpoint.respond(request), version)
            }
            Some(place @ (Place::Sse | Place::Message)) => {
                inner.warn_once(&path);
                let version = version(&request);
                let answer = inner.streams.clone().call(request);
                if place == Place::Sse { answer } else { answering(answer, version) }
            }
            Some(Place::Call(_)) => Box::pin(async move { Ok(inner.call(request).await) }),
        }
    }
}

impl Inner {
    fn place<'a>(&self, path: &'a str) -> Option<Place<'a>> {
        Some(match path.strip_prefix(self.base.as_str())? {
            "" | "/" | "/mcp" | "/api" => Place::Mcp,
            "/sse" => Place::Sse,
            MESSAGE => Place::Message,
            below => Place::Call(calls::Call::at(below)?),
        })
    }

    /// Says once that there is a newer way, so that a busy client does not fill the log.
    fn warn_once(&self, path: &str) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            let instead = &self.base;
            tracing::warn!(path, instead, "the 2024-11-05 transport is deprecated but in use");
        }
    }
}

/// The version to name in the answer: what the client named, in Knox's header or in MCP's own.
fn version<B>(request: &Request<B>) -> HeaderValue {
    let headers = request.headers();
    headers.get(VERSION).or_else(|| headers.get(PROTOCOL_VERSION)).cloned().unwrap_or(OLDEST)
}

fn answering(answer: ResponseFuture, version: HeaderValue) -> ResponseFuture {
    Box::pin(async move {
        let mut answer = answer.await?;
        answer.headers_mut().insert(VERSION, version);
        Ok(answer)
    })
}
