//! [`HttpSse`]: the transport of 2024-11-05. One stream brings everything; messages are posted to
//! the endpoint that the stream names first, or to a fixed place.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;

use super::link::Link;
use super::{Failure, Greeting, handshake};
use crate::client::call::Call;
use crate::client::endpoint;
use crate::client::error::ClientError;
use crate::client::intake::Incoming;
use crate::client::life::{End, Life};
use crate::client::mailbox::Keeping;
use crate::client::options::CallOptions;
use crate::client::params::CallParams;
use crate::client::pending::Pending;
use crate::client::post::{CancelOnDrop, PARTING, Post};
use crate::client::remote::Remote;
use crate::client::reply::{Content, Refused};
use crate::client::response::result_of;
use crate::client::silence::Silence;
use crate::client::stream::Messages;
use crate::client::task::Task;
use crate::client::traffic::{Answering, Traffic};

/// Where the stream and the endpoint are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Places {
    /// The stream is at the URL and names the endpoint.
    Named,
    /// Both are below the URL, at `sse` and `message`.
    Fixed,
}

/// One session: it lives as long as its stream.
#[derive(Debug)]
pub(crate) struct HttpSse {
    stream: Stream,
    places: Places,
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
    pub(crate) async fn open(remote: &Arc<Remote>, places: Places) -> Result<HttpSse, ClientError> {
        let core = &remote.core;
        let opening = Silence::new(core.limits.probe);
        let stream = opening.watch(&core.timers, pin!(Stream::open(remote, places))).await?;
        let params = handshake::params(core)?;
        let options = CallOptions::new();
        let params = CallParams::parse(&params)?;
        let hello = Call::new(core, handshake::METHOD, &params, &options);
        let raw = hello.watch(pin!(async { Ok(stream.call(&hello).await?) })).await?;
        let revision = handshake::accept(core, &raw)?;
        stream.link.tell(handshake::initialized()).await?;
        Ok(HttpSse { stream, places, greeting: Greeting { revision, raw } })
    }

    /// The same again, in place of a session that is gone.
    pub(crate) async fn reopen(&self) -> Result<HttpSse, ClientError> {
        HttpSse::open(&self.stream.link.remote, self.places).await
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
    async fn open(remote: &Arc<Remote>, places: Places) -> Result<Stream, ClientError> {
        let limits = &remote.core.limits;
        let url = match places {
            Places::Named => remote.url.clone(),
            Places::Fixed => endpoint::below(&remote.url, "sse")?,
        };
        let payer = remote.core.payer.clone();
        let reply = remote.exchange.get_events(&url, remote.headers.clone(), payer).await?;
        let mut messages = match reply.content {
            Content::Events(messages) => *messages,
            Content::Refused(refused) => return Err(refused.into()),
            Content::Nothing | Content::Json(_) => {
                return Err(ClientError::protocol("it answered GET with no event stream"));
            }
        };
        let endpoint = match places {
            Places::Named => {
                messages.allow(limits.greeting.min(limits.event));
                let named = endpoint_named(&mut messages).await?;
                messages.allow(limits.event);
                endpoint::resolve(&url, &named)?
            }
            Places::Fixed => endpoint::below(&remote.url, "message")?,
        };
        let link = Arc::new(Link::new(remote, endpoint));
        let pending = Arc::new(Pending::new(limits.pending));
        let life = Arc::new(Life::new());
        let read = read(messages, Arc::clone(&link), Arc::clone(&pending), Arc::clone(&life));
        Ok(Stream { link, pending, life, reader: Task::spawn(read) })
    }

    async fn call(&self, call: &Call<'_>) -> Result<Bytes, Failure> {
        let id = call.core.next_id();
        let body = call.legacy_body(&id);
        let place = self.pending.enter(&id, call, Keeping::Calls)?;
        let Some(place) = place else { return Err(Failure::Gone) };
        let mut cancel = CancelOnDrop::new(Post::Link(Arc::clone(&self.link)), &id);
        if call.method == handshake::METHOD {
            cancel.disarm();
        }
        let link = Arc::clone(&self.link);
        let mut posting = Box::pin(async move { link.deliver(body).await });
        let mut waiting = std::pin::pin!(place.wait(call, &id));
        let answer = tokio::select! {
            // The answer may be quicker than the word that the request was accepted.
            answer = &mut waiting => {
                tokio::spawn(tokio::time::timeout(PARTING, posting));
                answer
            }
            posted = &mut posting => {
                if posted.as_ref().is_err_and(ClientError::is_unsent) {
                    cancel.disarm();
                }
                if let Some(refused) = posted? {
                    cancel.disarm();
                    return Err(failure(refused, call.method));
                }
                call.silence.heard();
                waiting.await
            }
        };
        let answer = answer.ok_or_else(|| self.life.why().unwrap_or(End::HungUp).interrupted())?;
        cancel.disarm();
        Ok(result_of(&answer?)?)
    }
}

/// What a refused message means: the stream is there, but the server may no longer know it.
fn failure(refused: Refused, method: &str) -> Failure {
    let stale = match refused.status.status {
        StatusCode::NOT_FOUND | StatusCode::GONE => true,
        StatusCode::BAD_REQUEST => refused.error.is_none(),
        _ => false,
    };
    // A stream that has only just been opened is not stale.
    if stale && method != handshake::METHOD {
        Failure::Gone
    } else {
        ClientError::from(refused).into()
    }
}

/// What the stream's `endpoint` event says. Events of unknown names are none of our business.
async fn endpoint_named(messages: &mut Messages) -> Result<String, ClientError> {
    while let Some(event) = messages.next_event().await? {
        match &*event.name {
            "endpoint" => return Ok(String::from_utf8_lossy(&event.data).into_owned()),
            "message" => break,
            _ => {}
        }
    }
    Err(ClientError::protocol("its stream does not start with an endpoint"))
}

/// Reads the stream until it ends, and wakes whoever waits for what it brings.
async fn read(mut messages: Messages, link: Arc<Link>, pending: Arc<Pending>, life: Arc<Life>) {
    let mut traffic = Traffic::new(Post::Link(Arc::clone(&link)), &Arc::<Answering>::default());
    let ended = async {
        while let Some(incoming) = next(&mut messages, &link).await? {
            pending.take(incoming, &mut traffic).await?;
        }
        Ok::<_, ClientError>(())
    };
    let why = match ended.await {
        Ok(()) => End::HungUp,
        Err(error) => {
            tracing::warn!(%error, "lost the session's stream");
            End::Failed(error.to_string().into())
        }
    };
    life.end(why);
    pending.end();
}

/// What should be the next message. One that only says where the message is, is fetched from there.
async fn next(messages: &mut Messages, link: &Link) -> Result<Option<Incoming>, ClientError> {
    while let Some(incoming) = messages.next_shared().await? {
        let data = match incoming {
            Incoming::Message(data, None) if data.starts_with(b"/") => data,
            incoming => return Ok(Some(incoming)),
        };
        let core = &link.remote.core;
        let fetching = Silence::new(core.limits.probe);
        match fetching.watch(&core.timers, pin!(link.fetch(&data))).await {
            Ok(body) => return Ok(Some(Incoming::Message(body, None))),
            Err(error) => tracing::warn!(%error, "could not fetch a message of the server"),
        }
    }
    Ok(None)
}
