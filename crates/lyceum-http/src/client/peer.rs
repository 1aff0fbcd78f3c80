//! [`Peer`]: a server the client is connected to, whatever its era.

use std::sync::Arc;

use bytes::Bytes;
use lyceum_wire::{Era, Object, Revision, Writer};

use super::core::Core;
use super::error::ClientError;
use super::legacy::Legacy;
use super::life::End;
use super::listen::Subscription;
use super::listing::Pages;
use super::modern::Modern;
use super::options::CallOptions;
use super::params::CallParams;
use super::tools::{self, Tool};

/// A server that can be called. Cheap to clone; the connection lives as long as any clone.
///
/// Params and results are raw JSON objects, and nothing in them is lost or reordered that the client
/// does not know. Dropping the future of a call cancels the call.
#[derive(Clone, Debug)]
pub struct Peer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    core: Arc<Core>,
    wire: Wire,
}

/// How the server is spoken to.
#[derive(Debug)]
pub(crate) enum Wire {
    Modern(Modern),
    Legacy(Legacy),
}

impl Peer {
    pub(crate) fn new(core: Arc<Core>, wire: Wire) -> Peer {
        Peer(Arc::new(Inner { core, wire }))
    }

    /// Calls a method with raw params (no bytes at all: none) and returns the raw result.
    ///
    /// Whatever it takes is done on the way: sessions renewed, broken streams resumed, another
    /// version tried, input the server asks for gathered from the handler.
    pub async fn call(&self, method: &str, params: impl AsRef<[u8]>) -> Result<Bytes, ClientError> {
        self.call_with(method, params, &CallOptions::new()).await
    }

    /// [`call`](Self::call) with options.
    pub async fn call_with(
        &self,
        method: &str,
        params: impl AsRef<[u8]>,
        options: &CallOptions,
    ) -> Result<Bytes, ClientError> {
        let params = CallParams::parse(params.as_ref())?;
        self.call_params(method, &params, options).await
    }

    /// [`call_with`](Self::call_with) with params that were taken apart already.
    pub async fn call_params(
        &self,
        method: &str,
        params: &CallParams<'_>,
        options: &CallOptions,
    ) -> Result<Bytes, ClientError> {
        match &self.0.wire {
            Wire::Modern(modern) => modern.call(method, params, options).await,
            Wire::Legacy(legacy) => legacy.call(method, params, options).await,
        }
    }

    /// Calls a tool with raw arguments (no bytes at all: none).
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: impl AsRef<[u8]>,
        options: &CallOptions,
    ) -> Result<Bytes, ClientError> {
        let mut params = Writer::new();
        params.text("name", name);
        if !arguments.as_ref().is_empty() {
            params.raw("arguments", arguments);
        }
        self.call_with("tools/call", params.finish(), options).await
    }

    /// Sends a notification. Modern servers take none.
    pub async fn notify(&self, method: &str, params: impl AsRef<[u8]>) -> Result<(), ClientError> {
        match &self.0.wire {
            Wire::Legacy(legacy) => legacy.notify(method, params.as_ref()).await,
            Wire::Modern(modern) => Err(ClientError::NotInRevision {
                what: "a notification from the client",
                revision: modern.revision(),
            }),
        }
    }

    /// Subscribes to change notifications; `filter` is the raw `notifications` object. Legacy
    /// servers send theirs to the handler, unasked.
    pub async fn listen(&self, filter: impl AsRef<[u8]>) -> Result<Subscription, ClientError> {
        match &self.0.wire {
            Wire::Modern(modern) => Subscription::open(modern, filter.as_ref()).await,
            Wire::Legacy(_) => Err(ClientError::NotInRevision {
                what: "subscriptions/listen",
                revision: self.revision(),
            }),
        }
    }

    /// All tools, page by page. Tools that a modern client must not use are left out.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, ClientError> {
        match &self.0.wire {
            Wire::Modern(modern) => modern.list_tools().await,
            Wire::Legacy(_) => Ok(tools::read(self.list("tools/list", "tools").await?)),
        }
    }

    /// All prompts, as raw definitions.
    pub async fn list_prompts(&self) -> Result<Vec<Bytes>, ClientError> {
        self.list("prompts/list", "prompts").await
    }

    /// All resources, as raw definitions.
    pub async fn list_resources(&self) -> Result<Vec<Bytes>, ClientError> {
        self.list("resources/list", "resources").await
    }

    /// All resource templates, as raw definitions.
    pub async fn list_resource_templates(&self) -> Result<Vec<Bytes>, ClientError> {
        self.list("resources/templates/list", "resourceTemplates").await
    }

    /// The revision in use. (Of a closed legacy peer: the oldest there is.)
    pub fn revision(&self) -> Revision {
        match &self.0.wire {
            Wire::Modern(modern) => modern.revision(),
            Wire::Legacy(legacy) => {
                legacy.greeting().map_or(Revision::V2024_11_05, |(revision, _)| revision)
            }
        }
    }

    /// The era of that revision.
    pub fn era(&self) -> Era {
        self.revision().era()
    }

    /// Whether the server is spoken to over the old HTTP+SSE transport.
    pub fn is_http_sse(&self) -> bool {
        matches!(&self.0.wire, Wire::Legacy(legacy) if legacy.is_http_sse())
    }

    /// What the server said about itself: the raw result of `server/discover` or `initialize`.
    pub fn greeting(&self) -> Bytes {
        match &self.0.wire {
            Wire::Modern(modern) => modern.greeting.clone(),
            Wire::Legacy(legacy) => legacy.greeting().map(|(_, raw)| raw).unwrap_or_default(),
        }
    }

    /// The server's raw `capabilities` object.
    pub fn capabilities(&self) -> Option<Bytes> {
        let greeting = self.greeting();
        let capabilities = Object::parse(&greeting).ok()?.get("capabilities")?;
        Some(greeting.slice_ref(capabilities.as_bytes()))
    }

    /// Whether the connection is no more: lines or an HTTP+SSE stream that ended, a session whose
    /// server stays unreachable, a peer that was closed. Calls over lines fail from then on; over
    /// HTTP the next call still tries again. A modern server over HTTP has no connection to lose.
    pub fn is_closed(&self) -> bool {
        match &self.0.wire {
            Wire::Modern(modern) => modern.connection().is_some_and(|it| it.line.life.is_over()),
            Wire::Legacy(legacy) => legacy.is_closed(),
        }
    }

    /// What went wrong with a connection that is no more; None if the server just hung up, and while
    /// there is a connection.
    pub fn fault(&self) -> Option<String> {
        let end = match &self.0.wire {
            Wire::Modern(modern) => modern.connection()?.line.life.why(),
            Wire::Legacy(legacy) => legacy.ended(),
        };
        match end? {
            End::Failed(why) => Some(why.to_string()),
            End::HungUp | End::Closed => None,
        }
    }

    /// Waits until the connection is no more, if that ever happens.
    pub async fn closed(&self) {
        match &self.0.wire {
            Wire::Modern(modern) => match modern.connection() {
                Some(connection) => connection.line.life.over().await,
                None => std::future::pending().await,
            },
            Wire::Legacy(legacy) => legacy.closed().await,
        }
    }

    /// Opens the session of a legacy server over HTTP again if its connection is no more; calls that
    /// find out at the same time share the new one. Over lines there is nothing to open again.
    pub async fn reopen(&self) -> Result<(), ClientError> {
        match &self.0.wire {
            Wire::Modern(_) if self.is_closed() => Err(ClientError::Closed),
            Wire::Modern(_) => Ok(()),
            Wire::Legacy(legacy) => legacy.reopen().await,
        }
    }

    /// Waits until the session of a legacy server was opened again more than `n` times, because the
    /// server had forgotten it or it was [reopened](Self::reopen), and says how often it was.
    /// Subscriptions and the log level are forgotten with it, and what the server offers may be
    /// something else.
    pub async fn renewed(&self, n: u64) -> u64 {
        match &self.0.wire {
            Wire::Modern(_) => std::future::pending().await,
            Wire::Legacy(legacy) => legacy.renewed(n).await,
        }
    }

    /// Waits until the stream on which a legacy server says what changed was interrupted more than `n`
    /// times without a way to tell what was missed, and says how often it was. Modern servers are
    /// [listened](Self::listen) to instead.
    pub async fn missed(&self, n: u64) -> u64 {
        match &self.0.wire {
            Wire::Modern(_) => std::future::pending().await,
            Wire::Legacy(legacy) => legacy.missed(n).await,
        }
    }

    /// Ends the session of a legacy server, or the connection over lines; otherwise there is nothing
    /// to end. Calls of other clones fail from then on. A peer that is merely dropped leaves its
    /// session to expire.
    pub async fn close(self) {
        match &self.0.wire {
            Wire::Modern(modern) => {
                if let Some(connection) = modern.connection() {
                    connection.close().await;
                }
            }
            Wire::Legacy(legacy) => legacy.close().await,
        }
    }

    async fn list(&self, method: &str, field: &'static str) -> Result<Vec<Bytes>, ClientError> {
        let mut pages = Pages::new(field, &self.0.core.limits);
        while let Some(params) = pages.next() {
            pages.take(&self.call(method, &params).await?)?;
        }
        Ok(pages.into_items())
    }
}
