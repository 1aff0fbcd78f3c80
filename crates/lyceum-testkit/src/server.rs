//! A server under test: anything that serves a listener, on a port of its own.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::Connection;

/// Completes when the server is asked to stop.
pub type Shutdown = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A running server. Dropping it ends it at once.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Binds a free loopback port and runs `serve` on it.
    ///
    /// # Panics
    /// When no port can be bound.
    pub async fn start<F, R>(serve: F) -> Self
    where
        F: FnOnce(TcpListener, Shutdown) -> R,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let (stop, stopped) = oneshot::channel();
        let shutdown = Box::pin(async move { drop(stopped.await) });
        let task = tokio::spawn(serve(listener, shutdown));
        Self { address, stop: Some(stop), task }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection to it.
    pub async fn connect(&self) -> Connection {
        Connection::open(self.address).await
    }

    /// Asks the server to stop, without waiting for it.
    pub fn begin_stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until a server that was asked to stop has done so.
    pub async fn stopped(&mut self) {
        (&mut self.task).await.expect("the server did not panic");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}
