//! [`Succession`]: another connection in the place of one that has had its time.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;

use lyceum_http::random;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::dial::{CAPABILITIES, DialError};
use super::{Connection, Upstream, describe};

type Dialled = Result<Connection, DialError>;

/// The other one is made while the old one serves, and the old one serves on as long as none can be
/// made: a connection that works is worth more than a young one.
#[derive(Default)]
pub(super) struct Succession {
    dialling: Option<Pin<Box<dyn Future<Output = Dialled> + Send>>>,
    /// When to try again.
    due: Option<Instant>,
    backoff: Backoff,
}

impl Succession {
    /// Whether it was tried already to make another one.
    pub(super) fn has_begun(&self) -> bool {
        self.dialling.is_some() || self.due.is_some()
    }

    /// Begins to make another one, unless that is under way or was in vain only just now.
    pub(super) fn begin(&mut self, upstream: &Arc<Upstream>) {
        let is_due = self.due.is_none_or(|due| Instant::now() >= due);
        if self.dialling.is_none() && is_due {
            let upstream = Arc::clone(upstream);
            let dialling = async move { upstream.dial(CAPABILITIES, &upstream.news).await };
            self.dialling = Some(Box::pin(dialling));
        }
    }

    /// The other one, once it is there.
    pub(super) async fn successor(&mut self, upstream: &Upstream) -> Connection {
        let Some(dialling) = &mut self.dialling else { return pending().await };
        let dialled = dialling.as_mut().await;
        self.dialling = None;
        match dialled {
            Ok(connection) => connection,
            Err(error) => {
                let [chance] = random();
                let (wait, reason) = (self.backoff.next(chance), describe(&error));
                self.due = Some(Instant::now() + wait);
                tracing::warn!(
                    upstream = upstream.config.name,
                    reason,
                    retry = ?wait,
                    "no other connection can be made; the old one serves on"
                );
                upstream.note_error(reason);
                pending().await
            }
        }
    }
}
