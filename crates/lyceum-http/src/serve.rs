//! The accept loop: HTTP/1.1 and HTTP/2 on one port, with deadlines for slow clients and a drain.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Duration, sleep, timeout};
use tower_service::Service;

use crate::stall::StallGuard;

/// How connections are treated.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The longest time a request's head may take, and a kept connection may idle.
    pub head: Duration,
    /// The longest time a client may refuse to take bytes before it is disconnected.
    pub write_stall: Duration,
    /// How long running requests may go on once the server drains.
    pub drain: Duration,
    /// Connections held at once; more wait to be accepted.
    pub connections: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            write_stall: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            connections: 20_000,
        }
    }
}

/// Serves `service` until `shutdown` completes, then drains: no new connections, idle ones are
/// closed, running requests may finish within [`ServeOptions::drain`].
///
/// # Errors
/// Never for the sake of one connection; only when the listener itself is beyond use.
pub async fn serve<S, B>(
    listener: TcpListener,
    service: S,
    options: ServeOptions,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let http = http_builder(&options);
    let graceful = GracefulShutdown::new();
    let slots = std::sync::Arc::new(tokio::sync::Semaphore::new(options.connections));
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = async {
            let slot = std::sync::Arc::clone(&slots).acquire_owned().await;
            (slot, accept(&listener).await)
        };
        let (slot, stream) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut shutdown => break,
        };
        let Some(stream) = stream? else { continue };
        let io = TokioIo::new(StallGuard::new(stream, options.write_stall));
        let connection = http.serve_connection(io, TowerToHyperService::new(service.clone()));
        let connection = graceful.watch(connection.into_owned());
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("connection ended: {error}");
            }
            drop(slot);
        });
    }
    drop(listener);
    if timeout(options.drain, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests still running after the drain deadline were dropped");
    }
    Ok(())
}

fn http_builder(options: &ServeOptions) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(options.head).max_buf_size(64 << 10);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(128)
        .max_header_list_size(16 << 10)
        .max_pending_accept_reset_streams(16)
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20));
    http
}

/// Accepts one connection. A client that is gone before we answered is nobody's problem; running
/// out of descriptors passes, so it is waited out.
async fn accept(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept().await {
        Ok((stream, _)) => {
            // Answers are written whole; waiting to fill packets only delays them.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!("TCP_NODELAY: {error}");
            }
            Ok(Some(stream))
        }
        Err(error) if is_passing(&error) => {
            tracing::warn!("cannot accept a connection: {error}");
            sleep(Duration::from_millis(100)).await;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn is_passing(error: &io::Error) -> bool {
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    const ENOMEM: i32 = 12;
    const ENOBUFS: i32 = 105;
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    ) || matches!(error.raw_os_error(), Some(EMFILE | ENFILE | ENOMEM | ENOBUFS))
}
