//! [`Streamable`]: a session over Streamable HTTP (2025-03-26 to 2025-11-25).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lyceum_wire::{Id, encode};
use tokio::sync::oneshot;

use super::link::Link;
use super::position::Position;
use super::{Failure, Greeting, handshake, standing};
use crate::client::call::Call;
use crate::client::error::ClientError;
use crate::client::life::{End, Life};
use crate::client::mailbox::Keeping;
use crate::client::pending::{Pending, Place};
use crate::client::post::{CancelOnDrop, Post};
use crate::client::progress::Progress;
use crate::client::remote::Remote;
use crate::client::reply::{Content, Refused};
use crate::client::response::{result_in, result_of};
use crate::client::stream::Messages;
use crate::client::task::Task;
use crate::client::traffic::{Answering, Traffic};

/// How long a new session waits for its standing stream.
const NOTICE: Duration = Duration::from_secs(1);

/// One session. Its standing stream ends with it.
#[derive(Debug)]
pub(crate) struct Streamable {
    pub(crate) link: Arc<Link>,
    pub(super) greeting: Greeting,
    /// Ends when the server stays unreachable.
    pub(crate) life: Arc<Life>,
    answering: Arc<Answering>,
    /// For what comes on the standing stream although it belongs to a call.
    pending: Arc<Pending>,
    standing: Option<Task>,
}

/// Why there is no session.
#[derive(Debug)]
pub(crate) enum NoSession {
    /// `initialize` was refused: perhaps there is an older transport.
    Refused(Refused),
    Failed(ClientError),
}

impl From<ClientError> for NoSession {
    fn from(error: ClientError) -> NoSession {
        NoSession::Failed(error)
    }
}

impl From<NoSession> for ClientError {
    fn from(reason: NoSession) -> ClientError {
        match reason {
            NoSession::Refused(refused) => refused.into(),
            NoSession::Failed(error) => error,
        }
    }
}

impl Streamable {
    /// Shakes hands.
    pub(crate) async fn open(remote: &Arc<Remote>) -> Result<Streamable, NoSession> {
        let core = &remote.core;
        let link = Link::new(remote, remote.url.clone());
        let id = core.next_id();
        let body = encode::request(&id, handshake::METHOD, Some(&handshake::params(core)?));
        let reply = link.greet(body).await?;
        let raw = match reply.content {
            Content::Json(body) => result_in(&body, &id)?,
            Content::Events(messages) => first_answer(*messages, &id).await?,
            Content::Refused(refused) => return Err(NoSession::Refused(refused)),
            Content::Nothing => Err(ClientError::protocol("it did not answer initialize"))?,
        };
        let revision = handshake::accept(core, &raw)?;
        let link = Arc::new(link.established(reply.told.session, revision));
        // Plain JSON servers know requests only, and some fall over anything else. If it means more, the
        // next call shows it.
        let has_session = link.has_session();
        match link.deliver(handshake::initialized()).await {
            Ok(None) => {}
            Ok(Some(refused)) if refused.status.status.is_client_error() || !has_session => {
                tracing::debug!(status = %refused.status, "no use for initialized");
            }
            Ok(Some(refused)) => return Err(ClientError::from(refused).into()),
            Err(error) if has_session => return Err(error.into()),
            Err(error) => tracing::debug!(%error, "no use for initialized"),
        }
        let mut session = Streamable {
            link,
            greeting: Greeting { revision, raw },
            life: Arc::new(Life::new()),
            answering: Arc::default(),
            pending: Arc::new(Pending::new(core.limits.pending)),
            standing: None,
        };
        if remote.standing_stream {
            session.stand().await;
        }
        Ok(session)
    }

    pub(crate) async fn call(&self, call: &Call<'_>) -> Result<Bytes, Failure> {
        let id = call.core.next_id();
        let body = call.legacy_body(&id);
        let elsewhere = self.elsewhere(call, &id)?;
        let mut cancel = CancelOnDrop::new(Post::Link(Arc::clone(&self.link)), &id);
        let mut exchange = pin!(self.exchange(call, &id, body));
        let ended = match elsewhere {
            None => exchange.await,
            Some(elsewhere) => tokio::select! {
                biased;
                ended = &mut exchange => ended,
                Some(answer) = elsewhere.wait(call, &id) => answer.map_err(Failure::from).and_then(|response| Ok(result_of(&response)?)),
            },
        };
        if ended.as_ref().err().is_none_or(Failure::is_final) {
            cancel.disarm();
        }
        ended
    }

    /// A place for what may come to a call on the standing stream, if there is one.
    fn elsewhere(&self, call: &Call<'_>, id: &Id) -> Result<Option<Place>, Failure> {
        if self.standing.as_ref().is_none_or(Task::is_over) {
            return Ok(None);
        }
        match self.pending.enter(id, call, Keeping::Calls)? {
            None => Err(Failure::Gone),
            place => Ok(place),
        }
    }

    /// Opens the standing stream and waits until the server has taken notice, if it does so soon:
    /// what it has to say unasked, it can only say there.
    async fn stand(&mut self) {
        let (opened, opening) = oneshot::channel();
        let traffic = self.traffic();
        let (link, pending) = (Arc::clone(&self.link), Arc::clone(&self.pending));
        let standing = standing::listen(link, traffic, pending, Arc::clone(&self.life), opened);
        self.standing = Some(Task::spawn(standing));
        let _ = tokio::time::timeout(NOTICE, opening).await;
    }

    /// Ends the session.
    pub(crate) async fn close(&self) {
        if let Some(standing) = &self.standing {
            standing.stop();
        }
        self.life.end(End::Closed);
        self.link.end().await;
    }

    fn traffic(&self) -> Traffic {
        Traffic::new(Post::Link(Arc::clone(&self.link)), &self.answering)
    }

    async fn exchange(&self, call: &Call<'_>, id: &Id, body: Bytes) -> Result<Bytes, Failure> {
        match self.link.post(body, call.payer()).await?.content {
            Content::Json(body) => Ok(result_in(&body, id)?),
            Content::Events(messages) => {
                call.silence.heard();
                // Boxed, so that calls with a plain answer do not pay for its size.
                Ok(Box::pin(self.follow(call, id, *messages)).await?)
            }
            Content::Refused(refused) if self.link.is_gone(&refused, Some(id)) => {
                Err(Failure::Gone)
            }
            Content::Refused(refused) => Err(Failure::Failed(refused.into())),
            Content::Nothing => {
                Err(ClientError::protocol("it accepted a request and did not answer it").into())
            }
        }
    }

    /// Reads a call's stream to its answer, over as many connections as it takes.
    async fn follow(
        &self,
        call: &Call<'_>,
        id: &Id,
        mut messages: Messages,
    ) -> Result<Bytes, ClientError> {
        let progress = Progress::of(call, id);
        let mut traffic = self.traffic();
        let mut position = Position::default();
        loop {
            match next_answer(&mut messages, &mut traffic, call, progress.as_ref(), id).await {
                Ok(Some(result)) => {
                    messages.release();
                    return result;
                }
                Ok(None) | Err(ClientError::Broken(_)) => position.note(&messages),
                Err(error) => return Err(error),
            }
            messages = self.resume(&mut position, call).await?;
        }
    }

    async fn resume(
        &self,
        position: &mut Position,
        call: &Call<'_>,
    ) -> Result<Messages, ClientError> {
        if position.last_event_id().is_none() {
            return Err(ClientError::Interrupted);
        }
        while position.n_fruitless() < self.link.remote.core.limits.resumes {
            {
                // We were told to be away for so long.
                let _busy = call.silence.busy();
                position.wait().await;
            }
            let reply = self.link.get(position.last_event_id(), call.payer()).await;
            match reply.map(|reply| reply.content) {
                Ok(Content::Events(messages)) => {
                    call.silence.heard();
                    return Ok(*messages);
                }
                Ok(Content::Refused(refused)) if refused.status.status.is_client_error() => break,
                Ok(Content::Nothing | Content::Json(_)) => break,
                Ok(Content::Refused(_)) | Err(_) => {}
            }
        }
        Err(ClientError::Interrupted)
    }
}

/// The answer to request `id`, if the stream brings it.
async fn next_answer(
    messages: &mut Messages,
    traffic: &mut Traffic,
    call: &Call<'_>,
    progress: Option<&Progress>,
    id: &Id,
) -> Result<Option<Result<Bytes, ClientError>>, ClientError> {
    while let Some(message) = messages.next_message().await? {
        match traffic.take(message, call, progress).await {
            Some(response) if response.id == *id => return Ok(Some(result_of(&response))),
            Some(response) => tracing::debug!(id = %response.id, "an answer to no request of ours"),
            None => {}
        }
    }
    Ok(None)
}

/// The answer on a stream on which nothing else is expected.
async fn first_answer(mut messages: Messages, id: &Id) -> Result<Bytes, ClientError> {
    while let Some(message) = messages.next_message().await? {
        if let lyceum_wire::Message::Response(response) = message
            && response.id == *id
        {
            messages.release();
            return result_of(&response);
        }
    }
    Err(ClientError::Interrupted)
}
