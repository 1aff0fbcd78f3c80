//! [`Post`]: where messages go that get no answer of their own.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lyceum_wire::{Id, encode};

use super::core::{Core, number};
use super::error::ClientError;
use super::legacy::Link;
use super::line::{Line, Ticket};

/// How long a goodbye may take.
pub(crate) const PARTING: Duration = Duration::from_secs(5);

/// The way to a server that takes notifications and responses.
#[derive(Clone, Debug)]
pub(crate) enum Post {
    /// Posted to a session.
    Link(Arc<Link>),
    /// Written as a line.
    Line(Arc<Line>),
}

impl Post {
    pub(crate) fn core(&self) -> &Core {
        match self {
            Post::Link(link) => &link.remote.core,
            Post::Line(line) => &line.core,
        }
    }

    /// Sends a notification or response.
    pub(crate) async fn tell(&self, body: Bytes) -> Result<(), ClientError> {
        match self {
            Post::Link(link) => link.tell(body).await,
            Post::Line(line) => line.tell(body).await,
        }
    }

    /// Takes back a request that has not left yet; false if it may have.
    fn withdraw(&self, ticket: Option<Ticket>) -> bool {
        match (self, ticket) {
            (Post::Line(line), Some(ticket)) => line.withdraw(ticket),
            _ => false,
        }
    }
}

/// Tells the server that a request is no longer wanted, unless it is disarmed before it is dropped:
/// a server that is not told goes on, whatever becomes of a connection.
#[derive(Debug)]
pub(crate) struct CancelOnDrop {
    post: Post,
    /// The number that is the request's id.
    number: u64,
    ticket: Option<Ticket>,
    armed: bool,
}

impl CancelOnDrop {
    pub(crate) fn new(post: Post, id: &Id) -> CancelOnDrop {
        CancelOnDrop { post, number: number(id.as_bytes()).unwrap_or(0), ticket: None, armed: true }
    }

    /// The request went into a queue.
    pub(crate) fn queued(mut self, ticket: Ticket) -> CancelOnDrop {
        self.ticket = Some(ticket);
        self
    }

    /// The request has ended, or never began.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.armed || self.post.withdraw(self.ticket) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let params = format!(r#"{{"requestId":{},"reason":"the caller gave up"}}"#, self.number);
        let body = encode::notification("notifications/cancelled", Some(params.as_bytes()));
        let post = self.post.clone();
        runtime.spawn(async move {
            if let Ok(Err(error)) = tokio::time::timeout(PARTING, post.tell(body)).await {
                tracing::debug!(%error, "could not cancel a request");
            }
        });
    }
}
