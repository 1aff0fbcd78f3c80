//! Who is charged for memory and work: the authenticated principal, else the address of the peer.
//!
//! The address is not put into the request, whose extensions would cost two allocations each. A
//! connection says whose it is while it is polled, and services read it when they are called.

use std::cell::Cell;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::context::Principal;

thread_local! {
    /// The peer of the connection that is being polled on this thread. A poll neither moves between
    /// threads nor waits, so this is as good as an argument, which hyper leaves no room for.
    static PEER: Cell<Option<IpAddr>> = const { Cell::new(None) };
}

/// Identifies whom bytes and slots are charged to, whatever endpoint, session or connection a
/// request came through.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CallerId {
    /// An authenticated caller, by name.
    Principal(Principal),
    /// Callers without credentials, by their address.
    Address(IpAddr),
    /// A server behind this one, for what it sends before it is known for whom.
    Upstream(Arc<str>),
    /// Callers of which nothing is known, such as the one at the other end of stdio.
    Anonymous,
}

impl CallerId {
    /// The principal if there is one, else the address.
    pub fn new(principal: Option<Principal>, peer: Option<IpAddr>) -> Self {
        match (principal, peer) {
            (Some(principal), _) => Self::Principal(principal),
            (None, Some(peer)) => Self::Address(peer),
            (None, None) => Self::Anonymous,
        }
    }
}

impl fmt::Display for CallerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Principal(principal) => f.write_str(principal.as_str()),
            Self::Address(peer) => peer.fmt(f),
            Self::Upstream(name) => write!(f, "upstream {name}"),
            Self::Anonymous => f.write_str("anonymous"),
        }
    }
}

/// The address a request comes from. Ask where a service is called, not in the future it returns.
pub fn peer() -> Option<IpAddr> {
    PEER.get()
}

/// Runs `poll`, during which [`peer`] is the address of the connection being polled.
#[cfg(feature = "server")]
pub(crate) fn polled_for<T>(address: Option<IpAddr>, poll: impl FnOnce() -> T) -> T {
    PEER.set(address);
    let polled = poll();
    PEER.set(None);
    polled
}
