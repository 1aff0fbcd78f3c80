//! [`Network`]: how names become addresses, and addresses connections.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::net::{TcpStream, lookup_host};

/// A future that belongs to a [`Network`].
pub type NetworkFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// The two things a dialer asks of the operating system, apart so that it can look at what the first
/// says before it does the second. Tests bring their own.
pub trait Network: Send + Sync + 'static {
    /// All addresses of a name. Asked once per request; what it says is what is connected to.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> NetworkFuture<'a, Vec<SocketAddr>>;

    /// A connection to exactly this address.
    fn connect(&self, address: SocketAddr) -> NetworkFuture<'_, TcpStream>;
}

/// The network this machine is on.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNetwork;

impl Network for SystemNetwork {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> NetworkFuture<'a, Vec<SocketAddr>> {
        Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) })
    }

    fn connect(&self, address: SocketAddr) -> NetworkFuture<'_, TcpStream> {
        Box::pin(TcpStream::connect(address))
    }
}
