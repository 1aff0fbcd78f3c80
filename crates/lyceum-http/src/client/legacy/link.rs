//! [`Link`]: where a legacy session's messages are posted, and with which headers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Uri};
use lyceum_wire::{Id, Revision, encode};

use crate::client::core::{Core, PROTOCOL_VERSION};
use crate::client::error::ClientError;
use crate::client::exchange::{Content, LAST_EVENT_ID, Refused, Reply};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// How long a goodbye may take.
const PARTING: Duration = Duration::from_secs(5);

/// The way to one session.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) core: Arc<Core>,
    url: Uri,
    headers: HeaderMap,
}

impl Link {
    /// Before there is a session.
    pub(crate) fn new(core: &Arc<Core>, url: Uri) -> Link {
        Link { core: Arc::clone(core), url, headers: core.headers.clone() }
    }

    /// The link after the handshake: with the session id the server gave, if it gave one, and the
    /// version header from the revision on that has it.
    pub(crate) fn established(self, reply: &HeaderMap, revision: Revision) -> Link {
        let mut headers = self.headers;
        if let Some(id) = reply.get(&SESSION_ID) {
            headers.insert(SESSION_ID, id.clone());
        }
        if revision >= Revision::V2025_06_18 {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        }
        Link { headers, ..self }
    }

    pub(crate) fn has_session(&self) -> bool {
        self.headers.contains_key(&SESSION_ID)
    }

    pub(crate) async fn post(&self, body: Bytes) -> Result<Reply, ClientError> {
        self.core.exchange.post(&self.url, &self.headers, body).await
    }

    /// Posts a notification or response, which gets no answer.
    pub(crate) async fn tell(&self, body: Bytes) -> Result<(), ClientError> {
        match self.post(body).await?.content {
            Content::Refused(refused) => Err(refused.into()),
            // Some servers answer 200 with a body nobody needs.
            Content::Nothing | Content::Json(_) | Content::Events(_) => Ok(()),
        }
    }

    /// Opens an event stream, after the event `last` if there is one.
    pub(crate) async fn get(&self, last: Option<&str>) -> Result<Reply, ClientError> {
        let mut headers = self.headers.clone();
        if let Some(last) = last {
            let last = HeaderValue::from_bytes(last.as_bytes())
                .map_err(|_| ClientError::protocol("it gave an event an id no header can carry"))?;
            headers.insert(LAST_EVENT_ID, last);
        }
        self.core.exchange.get_events(&self.url, &headers).await
    }

    /// Whether a refusal means that the session is no more.
    pub(crate) fn is_gone(&self, refused: &Refused) -> bool {
        self.has_session() && refused.status.status == StatusCode::NOT_FOUND
    }

    /// Ends the session, if the server lets clients do that.
    pub(crate) async fn end(&self) {
        if self.has_session() {
            let ended = self.core.exchange.delete(&self.url, &self.headers);
            if let Ok(Err(error)) = tokio::time::timeout(PARTING, ended).await {
                tracing::debug!(%error, "could not end a session");
            }
        }
    }
}

/// Tells the server that a request is no longer wanted, unless it is disarmed before it is dropped:
/// in the legacy eras a lost connection means nothing.
#[derive(Debug)]
pub(crate) struct CancelOnDrop {
    link: Arc<Link>,
    id: Id,
    armed: bool,
}

impl CancelOnDrop {
    pub(crate) fn new(link: &Arc<Link>, id: &Id) -> CancelOnDrop {
        CancelOnDrop { link: Arc::clone(link), id: id.clone(), armed: true }
    }

    /// The request has ended, or never began.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !self.armed {
            return;
        }
        let params = format!(r#"{{"requestId":{},"reason":"the caller gave up"}}"#, self.id);
        let body = encode::notification("notifications/cancelled", Some(params.as_bytes()));
        let link = Arc::clone(&self.link);
        runtime.spawn(async move {
            if let Ok(Err(error)) = tokio::time::timeout(PARTING, link.tell(body)).await {
                tracing::debug!(%error, "could not cancel a request");
            }
        });
    }
}
