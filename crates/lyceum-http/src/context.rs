//! What a handler knows about the request in hand, and its way back to the client.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use lyceum_wire::{ClientCapabilities, Era, LogLevel, Revision, RevisionSet, RpcError, encode};

use crate::byte_budget::ByteBudgets;
use crate::caller::CallerId;
use crate::legacy::Session;
use crate::seal::Sealer;

/// A future an [`Outlet`] returns; boxed because outlets are chosen at run time and used rarely.
pub type OutletFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where a call's messages to the client go before its result.
pub trait Outlet: Send + Sync {
    /// Queues a notification, waiting while the client reads too slowly.
    fn send(&self, message: Bytes) -> OutletFuture<'_, Delivery>;

    /// Sends a request of the server's own and waits for the client's answer (legacy eras only).
    fn ask<'a>(
        &'a self,
        method: &'a str,
        params: &'a [u8],
    ) -> OutletFuture<'a, Result<Bytes, RpcError>>;

    /// Lets go of the client's connection while the call runs on; a 2025-11-25 client comes back
    /// for the rest. Returns whether that was possible.
    fn release(&self) -> bool {
        false
    }
}

/// What became of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It is on its way, or kept for a client that will come back for it.
    Queued,
    /// This answer cannot carry it: the client accepts a single JSON document only.
    Dropped,
}

/// Who is calling, once authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal(Arc<str>);

impl Principal {
    /// A principal known by `name`, e.g. an API key's name or a token's subject.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whose requests belong together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Caller {
    /// One legacy session's, by its key.
    Session([u8; 16]),
    /// Those of modern clients that have the same credentials, or none, at one endpoint.
    Principal(Arc<str>, Option<Principal>),
}

/// The circumstances of one request.
#[derive(Clone)]
pub struct Context {
    /// The revision this request is served in.
    pub revision: Revision,
    /// The revisions the endpoint serves, for `server/discover`.
    pub served: RevisionSet,
    /// What the client can do, from its `initialize` or from this request.
    pub capabilities: ClientCapabilities,
    /// The least severe log message the client wants; `None` means it wants none.
    pub log_level: Option<LogLevel>,
    /// The raw JSON token to repeat in progress notifications, if the client wants any.
    pub progress_token: Option<Bytes>,
    /// Who is calling; `None` where the endpoint asks for no credentials.
    pub principal: Option<Principal>,
    /// The address the request came from, where it came from one.
    pub peer: Option<IpAddr>,
    /// What large bodies and answers are charged to.
    pub budgets: Arc<ByteBudgets>,
    /// The endpoint's name: its path, or `stdio`.
    pub endpoint: Arc<str>,
    /// Which legacy session this is, whether or not it has live state; `None` outside any. Bytes and
    /// not one number, which would align, and so lengthen, all that a call allocates.
    pub session_key: Option<[u8; 16]>,
    /// The legacy session, if there is one with state worth keeping.
    pub session: Option<Arc<Session>>,
    /// Seals what clients carry for us: cursors, request state, task ids.
    pub sealer: Arc<Sealer>,
    /// The way out for messages before the result.
    pub outlet: Arc<dyn Outlet>,
}

impl Context {
    /// The era of [`Context::revision`].
    pub fn era(&self) -> Era {
        self.revision.era()
    }

    /// Whose request this is.
    pub fn caller(&self) -> Caller {
        match self.session_key {
            Some(session) => Caller::Session(session),
            None => Caller::Principal(Arc::clone(&self.endpoint), self.principal.clone()),
        }
    }

    /// Who is charged for what this request costs.
    pub fn caller_id(&self) -> CallerId {
        CallerId::new(self.principal.clone(), self.peer)
    }

    /// Sends a notification on this call's stream. `params` is raw JSON.
    pub async fn notify(&self, method: &str, params: &[u8]) -> Delivery {
        self.outlet.send(encode::notification(method, Some(params))).await
    }

    /// Asks the client something and returns the raw JSON of its result (legacy eras).
    ///
    /// # Errors
    /// When the client answered with an error, went away, or cannot be asked on this connection.
    pub async fn ask(&self, method: &str, params: &[u8]) -> Result<Bytes, RpcError> {
        self.outlet.ask(method, params).await
    }

    /// What a sealed value handed to this caller is bound to: endpoint and principal.
    pub fn binding(&self) -> [&[u8]; 2] {
        let principal = self.principal.as_ref().map_or("", Principal::as_str);
        [self.endpoint.as_bytes(), principal.as_bytes()]
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("revision", &self.revision)
            .field("endpoint", &self.endpoint)
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}
