//! [`Life`]: whether a connection is still there, and what ended it.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::error::ClientError;

/// Why a connection is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server's output ended.
    HungUp,
    /// Something went wrong.
    Failed(Arc<str>),
    /// We closed it.
    Closed,
}

/// The life of one connection.
#[derive(Debug)]
pub(crate) struct Life(watch::Sender<Option<End>>);

impl Life {
    pub(crate) fn new() -> Life {
        Life(watch::Sender::new(None))
    }

    /// Ends it; what ended it first counts.
    pub(crate) fn end(&self, why: End) {
        self.0.send_if_modified(|end| {
            let alive = end.is_none();
            end.get_or_insert(why);
            alive
        });
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.borrow().is_some()
    }

    pub(crate) fn why(&self) -> Option<End> {
        self.0.borrow().clone()
    }

    /// Waits for the end.
    pub(crate) async fn over(&self) {
        // The sender is ours, so this cannot fail.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }
}

impl End {
    /// What becomes of a call whose request may have reached the server.
    pub(crate) fn interrupted(self) -> ClientError {
        match self {
            End::HungUp | End::Closed => ClientError::Interrupted,
            End::Failed(why) => ClientError::Broken(why.to_string().into()),
        }
    }

    /// What becomes of a call whose request surely did not.
    pub(crate) fn unsent(self) -> ClientError {
        match self {
            End::Closed => ClientError::Closed,
            end => ClientError::Unsent(end.to_string()),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::HungUp => f.write_str("the server hung up"),
            End::Failed(why) => f.write_str(why),
            End::Closed => f.write_str("it was closed"),
        }
    }
}
