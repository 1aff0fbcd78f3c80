//! The accept loop: HTTP/1.1 and HTTP/2 on one port, with deadlines for slow clients and a drain.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Duration, MissedTickBehavior, interval, sleep, timeout};
use tower_service::Service;

use crate::absorb::Absorber;
use crate::caller::polled_for;
use crate::connections::{Connections, Entry, Order};
use crate::flow_stall::{self, Streams};
use crate::stall::StallGuard;
use crate::watched::Watched;

/// How connections are treated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeOptions {
    /// The longest time a request's head may take, and a new connection until its first.
    pub head: Duration,
    /// The longest time a kept connection may wait for its next request.
    pub idle: Duration,
    /// The longest time a client may refuse to take bytes before it is disconnected.
    pub write_stall: Duration,
    /// How long running requests may go on once the server drains.
    pub drain: Duration,
    /// Connections held at once. For a further one the longest idle one is closed; if all are busy, it
    /// waits to be accepted. When three quarters are held, an address other than loopback that holds a
    /// quarter gets a further one only in the place of an idle one of its own.
    pub connections: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
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
    let protocols = Protocols::new(&options);
    let connections = Arc::new(Connections::new(options.connections));
    let (pause, idle_sweeps) = Connections::sweeps(options.head, options.idle);
    let mut sweeps = interval(pause);
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // A few more than there may be: each new one has an idle one closed, which takes a moment.
    let beyond = (options.connections / 16).clamp(1, 64);
    let slots = Arc::new(Semaphore::new(options.connections + beyond));
    let mut refusals = AcceptFailures::default();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, accept(&listener).await)
        };
        let (slot, accepted) = tokio::select! {
            accepted = accepted => accepted,
            _ = sweeps.tick() => {
                connections.sweep(idle_sweeps);
                continue;
            }
            () = &mut shutdown => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => {
                refusals.end();
                accepted
            }
            Err(error) if is_passing(&error) => {
                if refusals.note(&error) {
                    connections.relieve();
                }
                tokio::select! {
                    () = sleep(Duration::from_millis(100)) => continue,
                    () = &mut shutdown => break,
                }
            }
            Err(error) => return Err(error),
        };
        // Dropped, which closes it: its address has more than its share.
        let Some(entry) = connections.enter(peer.ip()) else { continue };
        let connection = protocols.clone().connection(stream, service.clone(), entry);
        tokio::spawn(async move {
            connection.await;
            drop(slot);
        });
    }
    drop(listener);
    if timeout(options.drain, connections.drain()).await.is_err() {
        tracing::warn!("requests still running after the drain deadline were dropped");
        connections.close();
    }
    Ok(())
}

/// Drives a connection and follows the orders of its entry. A macro, because hyper's two kinds of
/// connection share no trait for `graceful_shutdown`.
macro_rules! follow {
    ($connection:ident, $entry:ident, $peer:expr, $absorber:expr) => {{
        let mut absorber: Option<Absorber> = $absorber;
        let (mut registered, mut finishing) = (false, false);
        std::future::poll_fn(|cx| {
            match $entry.watch().order(cx, &mut registered) {
                Order::Serve => {}
                Order::Finish if finishing => {}
                Order::Finish => {
                    finishing = true;
                    $connection.as_mut().graceful_shutdown();
                }
                Order::Close => return Poll::Ready(Ok(())),
            }
            let waker = match &mut absorber {
                Some(absorber) => absorber.waker(cx.waker()),
                None => cx.waker(),
            };
            polled_for($peer, || $connection.as_mut().poll(&mut Context::from_waker(waker)))
        })
        .await
    }};
}

/// How each protocol is spoken.
#[derive(Clone)]
struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<Streams>,
    head: Duration,
    write_stall: Duration,
}

impl Protocols {
    fn new(options: &ServeOptions) -> Self {
        let mut http1 = http1::Builder::new();
        // Slow heads are the sweep's business; hyper's own timer would be set for every request.
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_buf_size(64 << 10)
            .max_header_size(16 << 10);
        let mut http2 = http2::Builder::new(Streams::new(options.write_stall));
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(128)
            .max_header_list_size(16 << 10)
            .max_pending_accept_reset_streams(16)
            .keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(20));
        Self { http1, http2, head: options.head, write_stall: options.write_stall }
    }

    /// Serves one connection to its end.
    async fn connection<S, B>(self, stream: TcpStream, service: S, entry: Entry)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
            + Clone
            + Send
            + 'static,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let is_http2 = tokio::select! {
            is_http2 = wants_http2(&stream, self.head) => is_http2,
            // Nothing was asked yet, so there is nothing to finish.
            () = entry.watch().told() => None,
        };
        let Some(is_http2) = is_http2 else { return };
        let peer = stream.peer_addr().ok().map(|address| address.ip().to_canonical());
        let watch = Arc::clone(entry.watch());
        let io = TokioIo::new(StallGuard::new(stream, self.write_stall, watch, !is_http2));
        let piece = if is_http2 { flow_stall::PIECE } else { usize::MAX };
        let service = Watched::new(service, Arc::clone(entry.watch()), piece);
        let ended = if is_http2 {
            // Boxed, so that the many HTTP/1.1 connections do not pay for the size of this one.
            let mut connection = Box::pin(self.http2.serve_connection(io, service));
            follow!(connection, entry, peer, None)
        } else {
            let mut connection = pin!(self.http1.serve_connection(io, service));
            follow!(connection, entry, peer, Some(Absorber::default()))
        };
        if let Err(error) = ended {
            tracing::debug!("connection ended: {error}");
        }
    }
}

/// Whether a client opens with the HTTP/2 preface; `None` when it says nothing in time.
///
/// Looked at without being taken, because handing read bytes back to hyper would double the read
/// buffer of every connection.
async fn wants_http2(stream: &TcpStream, patience: Duration) -> Option<bool> {
    const PREFACE: &[u8] = b"PRI ";
    let mut start = [0; PREFACE.len()];
    let mut pause = Duration::from_millis(1);
    let looks = async {
        loop {
            let length = stream.peek(&mut start).await.ok().filter(|length| *length > 0)?;
            if length == PREFACE.len() || !PREFACE.starts_with(&start[..length]) {
                return Some(start == PREFACE);
            }
            // A sliver of a possible preface. It stays readable, so peeking again at once would spin,
            // and a client that leaves it at that must not cost much.
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    };
    timeout(patience, looks).await.ok()?
}

/// Accepts one connection.
async fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    // Answers are written whole; waiting to fill packets only delays them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("TCP_NODELAY: {error}");
    }
    Ok((stream, peer))
}

/// Counts connections that could not be accepted in a row, and logs the first and the last of them.
#[derive(Debug, Default)]
struct AcceptFailures(u64);

impl AcceptFailures {
    /// Notes a failure; `true` when it is for want of something that closing connections frees.
    fn note(&mut self, error: &io::Error) -> bool {
        let is_want = is_want(error);
        if is_want && self.0 == 0 {
            tracing::warn!(
                "cannot accept connections: {error}; closing idle ones and trying again"
            );
        }
        self.0 += u64::from(is_want);
        is_want
    }

    fn end(&mut self) {
        if self.0 > 0 {
            tracing::info!("accepting connections again after {} attempts", self.0);
            self.0 = 0;
        }
    }
}

/// Whether an error of `accept` is transient: the client is gone, or a resource is short for a while.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    ) || is_want(error)
}

/// Whether the process or the system has too few descriptors, or too little memory.
fn is_want(error: &io::Error) -> bool {
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    const ENOMEM: i32 = 12;
    const ENOBUFS: i32 = 105;
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE | ENOMEM | ENOBUFS))
}
