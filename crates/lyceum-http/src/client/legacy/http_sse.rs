//! [`HttpSse`]: the transport of 2024-11-05. One stream brings everything; messages are posted to
//! the endpoint that the stream names first.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use lyceum_wire::{Revision, encode};

use super::handshake;
use super::link::{CancelOnDrop, Link};
use super::pending::{Pending, Waiting};
use super::task::Task;
use super::traffic::{Answering, Traffic};
use super::{Call, Failure};
use crate::client::core::Core;
use crate::client::endpoint;
use crate::client::error::ClientError;
use crate::client::exchange::Content;
use crate::client::options::CallOptions;
use crate::client::params::CallerParams;
use crate::client::response::result_of;
use crate::client::silence::Silence;
use crate::client::stream::Messages;

/// One session: it lives as long as its stream.
#[derive(Debug)]
pub(crate) struct HttpSse {
    stream: Stream,
    pub(crate) revision: Revision,
    pub(crate) greeting: Bytes,
}

/// The stream and the endpoint that belongs to it.
#[derive(Debug)]
struct Stream {
    link: Arc<Link>,
    pending: Arc<Pending>,
    reader: Task,
}

impl HttpSse {
    pub(crate) async fn open(core: &Arc<Core>) -> Result<HttpSse, ClientError> {
        let opening = Silence::new(core.limits.probe);
        let stream = opening.watch(Stream::open(core)).await?;
        let params = handshake::params(core)?;
        let call = Call {
            method: handshake::METHOD,
            raw: &params,
            params: CallerParams::parse(&params)?,
            options: &CallOptions::new(),
            silence: Silence::new(core.limits.silence),
        };
        let greeting = call.silence.watch(async { Ok(stream.call(&call).await?) }).await?;
        let revision = handshake::accept(core, &greeting)?;
        stream.link.tell(handshake::initialized()).await?;
        Ok(HttpSse { stream, revision, greeting })
    }

    pub(crate) async fn call(&self, call: &Call<'_>) -> Result<Bytes, Failure> {
        self.stream.call(call).await
    }

    pub(crate) fn link(&self) -> &Link {
        &self.stream.link
    }

    pub(crate) fn close(&self) {
        self.stream.reader.stop();
        self.stream.pending.end();
    }
}

impl Stream {
    async fn open(core: &Arc<Core>) -> Result<Stream, ClientError> {
        let reply = core.exchange.get_events(&core.url, &core.headers).await?;
        let mut messages = match reply.content {
            Content::Events(messages) => *messages,
            Content::Refused(refused) => return Err(refused.into()),
            Content::Nothing | Content::Json(_) => {
                return Err(ClientError::protocol("it answered GET with no event stream"));
            }
        };
        let named = match messages.next_event().await? {
            Some(event) if event.name == "endpoint" => event.data,
            _ => return Err(ClientError::protocol("its stream does not start with an endpoint")),
        };
        let endpoint = endpoint::resolve(&core.url, &String::from_utf8_lossy(&named))?;
        let link = Arc::new(Link::new(core, endpoint));
        let pending = Arc::new(Pending::new(core.limits.pending));
        let reader = Task::spawn(read(messages, Arc::clone(&link), Arc::clone(&pending)));
        Ok(Stream { link, pending, reader })
    }

    async fn call(&self, call: &Call<'_>) -> Result<Bytes, Failure> {
        let id = self.link.core.next_id();
        let body = encode::request(&id, call.method, call.params_with(&id).as_deref());
        let waiting = Waiting::of(call, &id);
        let Some(answer) = self.pending.enter(&id, waiting)? else { return Err(Failure::Gone) };
        let mut cancel = CancelOnDrop::new(&self.link, &id);
        if call.method == handshake::METHOD {
            cancel.disarm();
        }
        match self.link.post(body).await {
            Ok(reply) => {
                if let Content::Refused(refused) = reply.content {
                    cancel.disarm();
                    // The stream is there, but the server no longer knows it.
                    return Err(match refused.status.status {
                        StatusCode::NOT_FOUND => Failure::Gone,
                        _ => Failure::Failed(refused.into()),
                    });
                }
            }
            Err(error) => return Err(error.into()),
        }
        call.silence.heard();
        let response = answer.wait().await?;
        cancel.disarm();
        Ok(result_of(&response)?)
    }
}

/// Reads the stream until it ends, and wakes whoever waits for what it brings.
async fn read(mut messages: Messages, link: Arc<Link>, pending: Arc<Pending>) {
    let mut traffic = Traffic::new(&link, &Arc::<Answering>::default());
    loop {
        match messages.next().await {
            Ok(Some(message)) => pending.take(message, &mut traffic).await,
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(%error, "lost the session's stream");
                break;
            }
        }
    }
    pending.end();
}
