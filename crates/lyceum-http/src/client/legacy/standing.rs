//! The stream a legacy session keeps open for what the server says unasked.

use std::sync::Arc;

use http::StatusCode;
use tokio::sync::oneshot;

use super::link::Link;
use super::position::Position;
use crate::client::error::ClientError;
use crate::client::life::{End, Life};
use crate::client::pending::Pending;
use crate::client::reply::{Content, Refused};
use crate::client::stream::Messages;
use crate::client::traffic::Traffic;

/// Listens as long as the server lets us; comes back after interruptions. `opened` hears of the
/// server's first answer, and `life` ends when it cannot be reached again and again, or has forgotten
/// the session.
pub(crate) async fn listen(
    link: Arc<Link>,
    mut traffic: Traffic,
    pending: Arc<Pending>,
    life: Arc<Life>,
    opened: oneshot::Sender<()>,
) {
    let mut opened = Some(opened);
    let (mut n_failures, mut n_unreadable) = (0, 0);
    let mut position = Position::default();
    let mut has_stood = false;
    loop {
        let reply = link.get(position.last_event_id(), link.remote.core.payer.clone()).await;
        // Nobody may be waiting any more.
        opened.take().map(|opened| opened.send(()));
        match reply.map(|reply| reply.content) {
            Ok(Content::Events(messages)) => {
                n_failures = 0;
                note_gap(&link, has_stood && position.last_event_id().is_none());
                has_stood = true;
                match follow(*messages, &mut traffic, &pending, &mut position).await {
                    Ok(()) => n_unreadable = 0,
                    Err(error) => {
                        tracing::warn!(%error, "cannot read on; what comes next may leave a gap");
                        position.skip();
                        n_unreadable += 1;
                    }
                }
                // It would be the same for ever.
                if n_unreadable > link.remote.core.limits.resumes {
                    return note_gap(&link, true);
                }
            }
            Ok(Content::Refused(refused)) if has_none(&refused, has_stood) => {
                tracing::debug!(status = %refused.status, "the server keeps no stream open");
                return note_gap(&link, has_stood);
            }
            Ok(Content::Refused(refused)) if link.is_gone(&refused, None) => {
                return life.end(End::Failed("the server has forgotten the session".into()));
            }
            Ok(Content::Nothing | Content::Json(_)) => return note_gap(&link, has_stood),
            Ok(Content::Refused(_)) | Err(_) => n_failures += 1,
        }
        if n_failures > link.remote.core.limits.resumes {
            life.end(End::Failed("the server cannot be reached".into()));
        }
        position.wait().await;
    }
}

/// Tells whoever follows changes, if some may have been missed.
fn note_gap(link: &Link, is_one: bool) {
    if is_one {
        link.remote.n_gaps.send_modify(|n| *n += 1);
    }
}

/// Whether a refusal means that there is no such stream. 405 is how a server says that it has nothing
/// to say unasked, and others say it otherwise; but not where the stream has been before.
fn has_none(refused: &Refused, has_stood: bool) -> bool {
    let status = refused.status.status;
    status == StatusCode::METHOD_NOT_ALLOWED || (status.is_client_error() && !has_stood)
}

async fn follow(
    mut messages: Messages,
    traffic: &mut Traffic,
    pending: &Pending,
    position: &mut Position,
) -> Result<(), ClientError> {
    loop {
        let next = messages.next_shared().await;
        position.note(&messages);
        match next {
            Ok(Some(incoming)) => {
                position.progressed();
                pending.take(incoming, traffic).await?;
            }
            Ok(None) | Err(ClientError::Broken(_)) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
