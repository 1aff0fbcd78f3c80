//! [`Link`]: where a legacy session's messages are posted, and with which headers.

use std::sync::Arc;

use bytes::Bytes;
use http::Uri;
use http::header::{HeaderMap, HeaderValue};
use lyceum_wire::{Id, Revision};

use crate::byte_budget::Payer;
use crate::client::endpoint;
use crate::client::error::ClientError;
use crate::client::exchange::{LAST_EVENT_ID, for_posts};
use crate::client::post::PARTING;
use crate::client::remote::{PROTOCOL_VERSION, Remote, SESSION_ID};
use crate::client::reply::{Content, Refused, Reply};

/// The way to one session.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) remote: Arc<Remote>,
    url: Uri,
    headers: HeaderMap,
    /// Those of a POST.
    for_posts: HeaderMap,
}

impl Link {
    /// Before there is a session.
    pub(crate) fn new(remote: &Arc<Remote>, url: Uri) -> Link {
        let headers = remote.headers.clone();
        Link { remote: Arc::clone(remote), url, for_posts: for_posts(&headers), headers }
    }

    /// The link after the handshake: with the session id the server gave, if it gave one, and the
    /// version header from the revision on that has it.
    pub(crate) fn established(self, id: Option<HeaderValue>, revision: Revision) -> Link {
        let mut headers = self.headers;
        if let Some(id) = id {
            headers.insert(SESSION_ID, id);
        }
        if revision >= Revision::V2025_06_18 {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        }
        Link { for_posts: for_posts(&headers), headers, ..self }
    }

    pub(crate) fn has_session(&self) -> bool {
        self.headers.contains_key(&SESSION_ID)
    }

    /// Posts a request; `payer` is charged for its answer.
    pub(crate) fn post(
        &self,
        body: Bytes,
        payer: Option<Payer>,
    ) -> impl Future<Output = Result<Reply, ClientError>> + Send {
        self.remote.exchange.post(&self.url, self.for_posts.clone(), body, payer)
    }

    /// Posts the request that begins a session.
    pub(crate) async fn greet(&self, body: Bytes) -> Result<Reply, ClientError> {
        self.remote.exchange.greet(&self.url, self.for_posts.clone(), body).await
    }

    /// Posts a message that is not answered here; the refusal, if it was refused.
    pub(crate) async fn deliver(&self, body: Bytes) -> Result<Option<Refused>, ClientError> {
        self.remote.exchange.deliver(&self.url, self.for_posts.clone(), body).await
    }

    /// Posts a notification or response, which gets no answer.
    pub(crate) async fn tell(&self, body: Bytes) -> Result<(), ClientError> {
        self.deliver(body).await?.map_or(Ok(()), |refused| Err(refused.into()))
    }

    /// Fetches what the server has to say from another place of its own.
    pub(crate) async fn fetch(&self, place: &[u8]) -> Result<Bytes, ClientError> {
        let url = endpoint::resolve(&self.url, &String::from_utf8_lossy(place))?;
        match self.remote.exchange.get_json(&url, self.headers.clone()).await?.content {
            Content::Json(body) => Ok(body),
            Content::Refused(refused) => Err(refused.into()),
            Content::Nothing | Content::Events(_) => {
                Err(ClientError::protocol("there is no message where it said"))
            }
        }
    }

    /// Opens an event stream, after the event `last` if there is one; `payer` is charged for it.
    pub(crate) async fn get(
        &self,
        last: Option<&str>,
        payer: Option<Payer>,
    ) -> Result<Reply, ClientError> {
        let mut headers = self.headers.clone();
        if let Some(last) = last {
            let last = HeaderValue::from_bytes(last.as_bytes())
                .map_err(|_| ClientError::protocol("it gave an event an id no header can carry"))?;
            headers.insert(LAST_EVENT_ID, last);
        }
        self.remote.exchange.get_events(&self.url, headers, payer).await
    }

    /// Whether a refusal, of request `id` if it was one, means that the session is no more.
    pub(crate) fn is_gone(&self, refused: &Refused, id: Option<&Id>) -> bool {
        self.has_session() && refused.is_about_session(id)
    }

    /// Ends the session, if the server lets clients do that.
    pub(crate) async fn end(&self) {
        if self.has_session() {
            let ended = self.remote.exchange.delete(&self.url, self.headers.clone());
            if let Ok(Err(error)) = tokio::time::timeout(PARTING, ended).await {
                tracing::debug!(%error, "could not end a session");
            }
        }
    }
}
