//! [`Plain`]: HTTP/1.1 to one origin, over connections that are kept for the next request.
//!
//! A client only ever talks to one origin, so its connections need no keys and no lookups; that makes
//! a call a fifth cheaper than with a general pool. No TLS, no proxies: for those there is
//! [`Exchange::over`](super::exchange::Exchange::over).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http::header::HeaderValue;
use http_body::{Body, Frame, SizeHint};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::time::Instant;
use tower_service::Service;

use super::error::{BoxError, ClientError};
use super::http1::{Head, Http1, Outgoing};
use super::reply::{Reply, Wanted, receive};
use crate::byte_budget::Payer;

/// How long an idle connection is kept. Many servers hang up after five seconds, and a request that
/// crosses with the hang-up is lost.
const IDLE: Duration = Duration::from_secs(4);
/// How many of them are kept.
const MAX_IDLE: usize = 32;
const CONNECT: Duration = Duration::from_secs(10);
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// The connections to one origin.
#[derive(Clone, Debug)]
pub(crate) struct Plain(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    connector: HttpConnector,
    url: Uri,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// With the time since which they are idle; the newest is last.
    connections: Vec<(Box<Http1>, Instant)>,
    /// Whether somebody will clear away what is idle for too long.
    swept: bool,
}

/// The body of a response. Once it is read to its end, its connection can be used again; if it is not,
/// the connection is closed.
#[derive(Debug)]
pub(crate) struct Kept {
    connection: Option<Box<Http1>>,
    pool: Arc<Pool>,
}

impl Plain {
    /// To the origin of this URL.
    pub(crate) fn new(url: &Uri) -> Plain {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_keepalive(Some(KEEP_ALIVE));
        Plain(Arc::new(Pool { connector, url: url.clone(), idle: Mutex::default() }))
    }

    /// Sends a request, whose headers name the [`host`], and takes in the answer.
    #[expect(clippy::manual_async_fn, reason = "an async fn would keep room for the request twice")]
    pub(super) fn send(
        &self,
        outgoing: Outgoing<'_>,
        wanted: Wanted,
        payer: Option<Payer>,
    ) -> impl Future<Output = Result<Reply, ClientError>> + Send {
        async move {
            let (head, connection) = loop {
                let Some(mut connection) = self.0.take() else {
                    // Boxed, because it is rare and would make every call larger.
                    break Box::pin(self.send_first(&outgoing)).await?;
                };
                connection.send(&outgoing);
                match poll_fn(|cx| connection.poll_head(cx)).await {
                    Ok(head) => break (head, connection),
                    // It was closed before anything was written.
                    Err(unanswered) if unanswered.is_unsent => {}
                    Err(unanswered) => return Err(ClientError::Broken(unanswered.error)),
                }
            };
            let kept = Kept { connection: Some(connection), pool: Arc::clone(&self.0) };
            receive(head.status, head.told, kept, wanted, payer).await
        }
    }

    /// Sends a request over a connection of its own.
    async fn send_first(&self, outgoing: &Outgoing<'_>) -> Result<(Head, Box<Http1>), ClientError> {
        let mut connector = self.0.connector.clone();
        let stream = connector.call(self.0.url.clone()).await;
        let stream = stream.map_err(|error| ClientError::Unreachable(error.into()))?;
        let mut connection = Box::new(Http1::new(stream.into_inner()));
        connection.send(outgoing);
        match poll_fn(|cx| connection.poll_head(cx)).await {
            Ok(head) => Ok((head, connection)),
            Err(unanswered) => Err(ClientError::Broken(unanswered.error)),
        }
    }
}

impl Pool {
    /// The connection that was used last, of those that are still good.
    fn take(&self) -> Option<Box<Http1>> {
        let mut idle = self.lock();
        while let Some((connection, since)) = idle.connections.pop() {
            if since.elapsed() >= IDLE {
                // All others are older.
                idle.connections.clear();
            } else if connection.is_quiet() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection for the next request, if it may have one.
    fn put(self: &Arc<Pool>, mut connection: Box<Http1>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !connection.rest() {
            return;
        }
        let mut idle = self.lock();
        if idle.connections.len() >= MAX_IDLE {
            return;
        }
        idle.connections.push((connection, Instant::now()));
        if !std::mem::replace(&mut idle.swept, true) {
            runtime.spawn(sweep(Arc::downgrade(self)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the `Host` header of requests to this URL says.
pub(crate) fn host(url: &Uri) -> Result<HeaderValue, ClientError> {
    let host = match (url.host().unwrap_or_default(), url.port_u16()) {
        (host, None | Some(80)) => host.to_owned(),
        (host, Some(port)) => format!("{host}:{port}"),
    };
    HeaderValue::try_from(host).map_err(|_| ClientError::Setup(format!("\"{url}\" names no host")))
}

/// Clears away connections that are idle for too long, until none is left.
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.lock();
        idle.connections.retain(|(_, since)| since.elapsed() < IDLE);
        if idle.connections.is_empty() {
            idle.swept = false;
            return;
        }
    }
}

impl Body for Kept {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
        connection.poll_piece(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.is_at_end())
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.connection.as_ref().and_then(|connection| connection.left());
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.put(connection);
        }
    }
}
