//! [`ClientHandler`]: what the client's owner does when the server asks or tells something.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use lyceum_wire::{Notification, RpcError};

/// Answers a server's requests and hears its notifications, in both eras.
///
/// `()` declines every request and ignores every notification. A handler that is dropped half-way
/// was cancelled: by the server, or because the call it belonged to is over.
pub trait ClientHandler: Send + Sync + 'static {
    /// Answers `elicitation/create`, `sampling/createMessage` or `roots/list` with a raw JSON result
    /// object. `ping` is answered without asking.
    fn request(
        &self,
        request: ServerRequest,
    ) -> impl Future<Output = Result<Bytes, RpcError>> + Send {
        async move { Err(RpcError::method_not_found(&request.method)) }
    }

    /// Hears a notification. The stream it came on waits meanwhile, so this should be short.
    fn notification(&self, notification: ServerNotification) -> impl Future<Output = ()> + Send {
        let _ = notification;
        async {}
    }
}

impl ClientHandler for () {}

/// Something the server wants to know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerRequest {
    /// The method.
    pub method: String,
    /// The raw params object, if any.
    pub params: Option<Bytes>,
    /// Its key among the input requests of a modern call; None for a request of a legacy server.
    pub key: Option<String>,
}

/// Something the server says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerNotification {
    /// The method.
    pub method: String,
    /// The raw params object, if any.
    pub params: Option<Bytes>,
}

impl From<Notification> for ServerNotification {
    fn from(notification: Notification) -> ServerNotification {
        let Notification { method, params } = notification;
        ServerNotification { method: method.to_string(), params: params.raw() }
    }
}

/// A handler of any type.
#[derive(Clone)]
pub(crate) struct Handler(pub(super) Arc<dyn Erased>);

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub(super) trait Erased: Send + Sync {
    fn request(&self, request: ServerRequest) -> Boxed<'_, Result<Bytes, RpcError>>;
    fn notification(&self, notification: ServerNotification) -> Boxed<'_, ()>;
}

impl<H: ClientHandler> Erased for H {
    fn request(&self, request: ServerRequest) -> Boxed<'_, Result<Bytes, RpcError>> {
        Box::pin(ClientHandler::request(self, request))
    }

    fn notification(&self, notification: ServerNotification) -> Boxed<'_, ()> {
        Box::pin(ClientHandler::notification(self, notification))
    }
}

impl Handler {
    pub(crate) fn new(handler: impl ClientHandler) -> Handler {
        Handler(Arc::new(handler))
    }

    pub(crate) async fn request(&self, request: ServerRequest) -> Result<Bytes, RpcError> {
        self.0.request(request).await
    }

    pub(crate) async fn notification(&self, notification: ServerNotification) {
        self.0.notification(notification).await;
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}
