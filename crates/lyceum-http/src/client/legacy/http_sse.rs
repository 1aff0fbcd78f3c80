//! [`HttpSse`]: the transport of 2024-11-05. One stream brings everything; messages are posted to
//! the endpoint that the stream names first.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use lyceum_wire::encode;

use super::link::Link;
use super::{Failure, Greeting, handshake};
use crate::client::call::Call;
use crate::client::endpoint;
use crate::client::error::ClientError;
use crate::client::exchange::Content;
use crate::client::life::{End, Life};
use crate::client::mailbox::Keeping;
use crate::client::options::CallOptions;
use crate::client::pending::Pending;
use crate::client::post::{CancelOnDrop, Post};
use crate::client::remote::Remote;
use crate::client::response::result_of;
use crate::client::silence::Silence;
use crate::client::stream::Messages;
use crate::client::task::Task;
use crate::client::traffic::{Answering, Traffic};

/// One session: it lives as long as its stream.
#[derive(Debug)]
pub(crate) struct HttpSse {
    stream: Stream,
    pub(super) greeting: Greeting,
}

/// The stream and the endpoint that belongs to it.
#[derive(Debug)]
struct Stream {
    link: Arc<Link>,
    pending: Arc<Pending>,
    life: Arc<Life>,
    reader: Task,
}

impl HttpSse {
    pub(crate) async fn open(remote: &Arc<Remote>) -> Result<HttpSse, ClientError> {
        let core = &remote.core;
        let opening = Silence::new(core.limits.probe);
        let stream = opening.watch(Stream::open(remote)).await?;
        let params = handshake::params(core)?;
        let options = CallOptions::new();
        let hello = Call::new(core, handshake::METHOD, &params, &options)?;
        let raw = hello.silence.watch(async { Ok(stream.call(&hello).await?) }).await?;
        let revision = handshake::accept(core, &raw)?;
        stream.link.tell(handshake::initialized()).await?;
        Ok(HttpSse { stream, greeting: Greeting { revision, raw } })
    }

    pub(crate) async fn call(&self, call: &Call<'_>) -> Result<Bytes, Failure> {
        self.stream.call(call).await
    }

    pub(crate) fn link(&self) -> &Link {
        &self.stream.link
    }

    pub(crate) fn life(&self) -> &Life {
        &self.stream.life
    }

    pub(crate) fn close(&self) {
        self.stream.reader.stop();
        self.stream.life.end(End::Closed);
        self.stream.pending.end();
    }
}

impl Stream {
    async fn open(remote: &Arc<Remote>) -> Result<Stream, ClientError> {
        let reply = remote.exchange.get_events(&remote.url, &remote.headers).await?;
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
        let endpoint = endpoint::resolve(&remote.url, &String::from_utf8_lossy(&named))?;
        let link = Arc::new(Link::new(remote, endpoint));
        let pending = Arc::new(Pending::new(remote.core.limits.pending));
        let life = Arc::new(Life::new());
        let read = read(messages, Arc::clone(&link), Arc::clone(&pending), Arc::clone(&life));
        Ok(Stream { link, pending, life, reader: Task::spawn(read) })
    }

    async fn call(&self, call: &Call<'_>) -> Result<Bytes, Failure> {
        let id = call.core.next_id();
        let body = encode::request(&id, call.method, call.legacy_params(&id).as_deref());
        let place = self.pending.enter(&id, call, Keeping::Calls)?;
        let Some(place) = place else { return Err(Failure::Gone) };
        let mut cancel = CancelOnDrop::new(Post::Link(Arc::clone(&self.link)), &id);
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
        let response = place.wait(call, &id).await.ok_or(ClientError::Interrupted)?;
        cancel.disarm();
        Ok(result_of(&response)?)
    }
}

/// Reads the stream until it ends, and wakes whoever waits for what it brings.
async fn read(mut messages: Messages, link: Arc<Link>, pending: Arc<Pending>, life: Arc<Life>) {
    let mut traffic = Traffic::new(Post::Link(link), &Arc::<Answering>::default());
    let why = loop {
        match messages.next().await {
            Ok(Some(message)) => pending.take(message, &mut traffic).await,
            Ok(None) => break End::HungUp,
            Err(error) => {
                tracing::warn!(%error, "lost the session's stream");
                break End::Failed(error.to_string().into());
            }
        }
    };
    life.end(why);
    pending.end();
}
