//! The stream a legacy session keeps open for what the server says unasked.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::link::Link;
use super::position::Position;
use crate::client::error::ClientError;
use crate::client::life::{End, Life};
use crate::client::pending::Pending;
use crate::client::reply::Content;
use crate::client::stream::Messages;
use crate::client::traffic::Traffic;

/// Listens as long as the server lets us; comes back after interruptions. `opened` hears of the
/// server's first answer, and `life` ends when it cannot be reached again and again.
pub(crate) async fn listen(
    link: Arc<Link>,
    mut traffic: Traffic,
    pending: Arc<Pending>,
    life: Arc<Life>,
    opened: oneshot::Sender<()>,
) {
    let mut opened = Some(opened);
    let mut n_failures = 0;
    let mut position = Position::default();
    loop {
        let reply = link.get(position.last_event_id()).await;
        // Nobody may be waiting any more.
        opened.take().map(|opened| opened.send(()));
        match reply.map(|reply| reply.content) {
            Ok(Content::Events(messages)) => {
                n_failures = 0;
                let ended = follow(*messages, &mut traffic, &pending, &mut position).await;
                if let Err(error) = ended {
                    tracing::warn!(%error, "gave up the session's stream");
                    return;
                }
            }
            Ok(Content::Refused(refused)) if refused.status.status.is_client_error() => {
                // 405 is how a server says that it has nothing to say unasked.
                tracing::debug!(status = %refused.status, "the server keeps no stream open");
                return;
            }
            Ok(Content::Nothing | Content::Json(_)) => return,
            Ok(Content::Refused(_)) | Err(_) => n_failures += 1,
        }
        if n_failures > link.remote.core.limits.resumes {
            life.end(End::Failed("the server cannot be reached".into()));
        }
        position.wait().await;
    }
}

async fn follow(
    mut messages: Messages,
    traffic: &mut Traffic,
    pending: &Pending,
    position: &mut Position,
) -> Result<(), ClientError> {
    loop {
        let next = messages.next().await;
        position.note(&messages);
        match next {
            Ok(Some(message)) => {
                position.progressed();
                pending.take(message, traffic).await;
            }
            Ok(None) | Err(ClientError::Broken(_)) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
