//! [`Streamable`]: a session over Streamable HTTP (2025-03-26 to 2025-11-25).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lyceum_wire::{Id, Revision, encode};
use tokio::sync::oneshot;

use super::handshake;
use super::link::{CancelOnDrop, Link};
use super::pending::{Pending, Waiting};
use super::position::Position;
use super::standing;
use super::task::Task;
use super::traffic::{Answering, Traffic};
use super::{Call, Failure};
use crate::client::core::Core;
use crate::client::error::ClientError;
use crate::client::exchange::{Content, Refused};
use crate::client::progress::Progress;
use crate::client::response::{result_in, result_of};
use crate::client::silence::Silence;
use crate::client::stream::Messages;

/// How long a new session waits for its standing stream.
const NOTICE: Duration = Duration::from_secs(1);

/// One session. Its standing stream ends with it.
#[derive(Debug)]
pub(crate) struct Streamable {
    pub(crate) link: Arc<Link>,
    pub(crate) revision: Revision,
    pub(crate) greeting: Bytes,
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
    pub(crate) async fn open(core: &Arc<Core>) -> Result<Streamable, NoSession> {
        let link = Link::new(core, core.url.clone());
        let id = core.next_id();
        let body = encode::request(&id, handshake::METHOD, Some(&handshake::params(core)?));
        let reply = link.post(body).await?;
        let greeting = match reply.content {
            Content::Json(body) => result_in(&body, &id)?,
            Content::Events(messages) => first_answer(*messages, &id).await?,
            Content::Refused(refused) => return Err(NoSession::Refused(refused)),
            Content::Nothing => Err(ClientError::protocol("it did not answer initialize"))?,
        };
        let revision = handshake::accept(core, &greeting)?;
        let link = Arc::new(link.established(&reply.headers, revision));
        link.tell(handshake::initialized()).await?;
        let mut session = Streamable {
            link,
            revision,
            greeting,
            answering: Arc::default(),
            pending: Arc::new(Pending::new(core.limits.pending)),
            standing: None,
        };
        if core.standing_stream {
            session.stand().await;
        }
        Ok(session)
    }

    pub(crate) async fn call(&self, call: &Call<'_>) -> Result<Bytes, Failure> {
        let id = self.link.core.next_id();
        let body = encode::request(&id, call.method, call.params_with(&id).as_deref());
        let waiting = Waiting::of(call, &id);
        let Some(elsewhere) = self.pending.enter(&id, waiting)? else { return Err(Failure::Gone) };
        let mut cancel = CancelOnDrop::new(&self.link, &id);
        let ended = tokio::select! {
            biased;
            ended = self.exchange(call, &id, body) => ended,
            response = elsewhere.wait() => Ok(result_of(&response?)?),
        };
        if ended.as_ref().err().is_none_or(Failure::is_final) {
            cancel.disarm();
        }
        ended
    }

    /// Opens the standing stream and waits until the server has taken notice, if it does so soon:
    /// what it has to say unasked, it can only say there.
    async fn stand(&mut self) {
        let (opened, opening) = oneshot::channel();
        let traffic = Traffic::new(&self.link, &self.answering);
        let (link, pending) = (Arc::clone(&self.link), Arc::clone(&self.pending));
        let standing = standing::listen(link, traffic, pending, opened);
        self.standing = Some(Task::spawn(standing));
        let _ = tokio::time::timeout(NOTICE, opening).await;
    }

    /// Ends the session.
    pub(crate) async fn close(&self) {
        if let Some(standing) = &self.standing {
            standing.stop();
        }
        self.link.end().await;
    }

    async fn exchange(&self, call: &Call<'_>, id: &Id, body: Bytes) -> Result<Bytes, Failure> {
        let reply = self.link.post(body).await?;
        call.silence.heard();
        match reply.content {
            Content::Json(body) => Ok(result_in(&body, id)?),
            Content::Events(messages) => Ok(self.follow(call, id, *messages).await?),
            Content::Refused(refused) if self.link.is_gone(&refused) => Err(Failure::Gone),
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
        let progress = Progress::of(call.options, &call.params, id);
        let mut traffic = Traffic::new(&self.link, &self.answering).of_call(
            call.options.handler.clone(),
            progress,
            &call.silence,
        );
        let mut position = Position::default();
        loop {
            match next_answer(&mut messages, &mut traffic, id).await {
                Ok(Some(result)) => {
                    messages.release();
                    return result;
                }
                Ok(None) | Err(ClientError::Broken(_)) => position.note(&messages),
                Err(error) => return Err(error),
            }
            messages = self.resume(&mut position, &call.silence).await?;
        }
    }

    async fn resume(
        &self,
        position: &mut Position,
        silence: &Arc<Silence>,
    ) -> Result<Messages, ClientError> {
        if position.last_event_id().is_none() {
            return Err(ClientError::Interrupted);
        }
        while position.n_fruitless() < self.link.core.limits.resumes {
            {
                // We were told to be away for so long.
                let _busy = silence.busy();
                position.wait().await;
            }
            match self.link.get(position.last_event_id()).await.map(|reply| reply.content) {
                Ok(Content::Events(messages)) => {
                    silence.heard();
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
    id: &Id,
) -> Result<Option<Result<Bytes, ClientError>>, ClientError> {
    while let Some(message) = messages.next().await? {
        match traffic.take(message).await {
            Some(response) if response.id == *id => return Ok(Some(result_of(&response))),
            Some(response) => tracing::debug!(id = %response.id, "an answer to no request of ours"),
            None => {}
        }
    }
    Ok(None)
}

/// The answer on a stream on which nothing else is expected.
async fn first_answer(mut messages: Messages, id: &Id) -> Result<Bytes, ClientError> {
    while let Some(message) = messages.next().await? {
        if let lyceum_wire::Message::Response(response) = message
            && response.id == *id
        {
            messages.release();
            return result_of(&response);
        }
    }
    Err(ClientError::Interrupted)
}
