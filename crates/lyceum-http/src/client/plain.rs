//! [`Plain`]: HTTP/1.1 to one origin, over connections that are kept for the next request.
//!
//! A client only ever talks to one origin, so its connections need no keys and no lookups; that makes
//! a call a fifth cheaper than with a general pool. No TLS, no proxies: for those there is
//! [`Exchange::over`](super::exchange::Exchange::over).

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::time::{Instant, timeout};
use tower_service::Service;

use super::driven::Driven;
use super::error::{BoxError, ClientError};
use super::exchange::RequestBody;
use super::reply::{Reply, Wanted, receive};

/// How long an idle connection is kept. Many servers hang up after five seconds, and a request that
/// crosses with the hang-up is lost.
const IDLE: Duration = Duration::from_secs(4);
/// How many of them are kept.
const MAX_IDLE: usize = 32;
/// How long a connection may take to be ready again.
const READY: Duration = Duration::from_millis(200);
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
    connections: Vec<(Box<Driven>, Instant)>,
    /// Whether somebody will clear away what is idle for too long.
    swept: bool,
}

/// The body of a response. Once it is read to its end, its connection can be used again; if it is not,
/// the connection is closed.
#[derive(Debug)]
pub(crate) struct Kept {
    body: Incoming,
    ended: bool,
    driven: Option<Box<Driven>>,
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

    /// Sends a request, which has a [`Host`](host) header and a [`target`], and takes in the response.
    #[expect(clippy::manual_async_fn, reason = "an async fn would keep room for the request twice")]
    pub(crate) fn send(
        &self,
        mut request: Request<RequestBody>,
        wanted: Wanted,
    ) -> impl Future<Output = Result<Reply, ClientError>> + Send {
        async move {
            let (response, driven) = loop {
                let Some(mut driven) = self.0.take() else {
                    // Boxed, because it is rare and would make every call larger.
                    break Box::pin(self.send_first(request)).await?;
                };
                // Its last response was read to the end, so it is ready at once or was closed; unless the
                // server answered early and never reads the rest of that request.
                let ready = |driven| Box::pin(timeout(READY, Driven::ready(driven)));
                if !driven.is_ready() && !matches!(ready(&mut driven).await, Ok(true)) {
                    continue;
                }
                let unanswered = match driven.send(request).await {
                    Ok(response) => break (response, driven),
                    Err(unanswered) => unanswered,
                };
                match unanswered.unsent {
                    // It was closed before anything was written.
                    Some(unsent) => request = *unsent,
                    None => return Err(ClientError::Broken(unanswered.error)),
                }
            };
            receive(self.keep(response, driven), wanted).await
        }
    }

    /// Sends a request over a connection of its own.
    async fn send_first(
        &self,
        request: Request<RequestBody>,
    ) -> Result<(Response<Incoming>, Box<Driven>), ClientError> {
        let mut driven = self.connect().await?;
        match driven.send(request).await {
            Ok(response) => Ok((response, driven)),
            Err(unanswered) => Err(ClientError::Broken(unanswered.error)),
        }
    }

    async fn connect(&self) -> Result<Box<Driven>, ClientError> {
        let mut connector = self.0.connector.clone();
        let stream = connector.call(self.0.url.clone()).await;
        let stream = stream.map_err(|error| ClientError::Unreachable(error.into()))?;
        let driven = Driven::new(stream).await;
        driven.map(Box::new).map_err(|error| ClientError::Unreachable(error.into()))
    }

    fn keep(&self, response: Response<Incoming>, driven: Box<Driven>) -> Response<Kept> {
        let pool = Arc::clone(&self.0);
        response.map(|body| Kept { body, ended: false, driven: Some(driven), pool })
    }
}

impl Pool {
    /// The connection that was used last.
    fn take(&self) -> Option<Box<Driven>> {
        let mut idle = self.lock();
        let (driven, since) = idle.connections.pop()?;
        if since.elapsed() < IDLE {
            return Some(driven);
        }
        // All others are older.
        idle.connections.clear();
        None
    }

    fn put(self: &Arc<Pool>, mut driven: Box<Driven>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        driven.rest();
        let mut idle = self.lock();
        if idle.connections.len() >= MAX_IDLE || driven.is_over() {
            return;
        }
        idle.connections.push((driven, Instant::now()));
        if !std::mem::replace(&mut idle.swept, true) {
            runtime.spawn(sweep(Arc::downgrade(self)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a request to this URL names it to its origin.
pub(crate) fn target(url: &Uri) -> Uri {
    url.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")).into()
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
        let kept = &mut *self;
        let Some(driven) = &mut kept.driven else { return Poll::Ready(None) };
        let frame = ready!(driven.poll_frame(&mut kept.body, cx));
        kept.ended = frame.is_none();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(driven) = self.driven.take()
            && (self.ended || self.body.is_end_stream())
        {
            self.pool.put(driven);
        }
    }
}
