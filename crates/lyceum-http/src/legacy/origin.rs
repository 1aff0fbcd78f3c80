//! Where a legacy call came from: the session it belongs to, if any, and what that allows.

use std::net::IpAddr;
use std::sync::Arc;

use lyceum_wire::{Id, Request, Revision, RpcError};
use tokio::time::Duration;

use super::registry::Sessions;
use super::running::RunningCall;
use super::session::Session;
use super::token::SessionToken;
use crate::byte_budget::Payer;
use crate::context::Principal;
use crate::outbox::Outbox;
use crate::seal::random;
use crate::too_many::TooMany;

/// Methods that need a place to keep what they set.
const STATEFUL: [&str; 3] = ["logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// The origin of one legacy call.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) revision: Revision,
    /// `None` for a call outside any session.
    pub(crate) token: Option<SessionToken>,
    /// The session's live state, if it had any when the message arrived.
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) principal: Option<Principal>,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) sessions: Arc<Sessions>,
}

impl Origin {
    /// A stream that can be resumed; `None` when there is no session to resume it in.
    pub(crate) fn replayable(&self, payer: &Payer) -> Option<(u64, Arc<Outbox>)> {
        let session = self.live()?;
        let outbox = Arc::new(self.sessions.outbox(payer.clone()));
        let number = u64::from_ne_bytes(random());
        let limit = self.sessions.limits.streams_per_session;
        session.add_stream(number, Arc::clone(&outbox), limit).then_some((number, outbox))
    }

    /// Whether the client may be sent away to poll for the rest of a stream.
    pub(crate) fn polls(&self) -> bool {
        self.token.is_some() && self.revision >= Revision::V2025_11_25
    }

    /// The session whose client can be asked, and how long to wait for it.
    pub(crate) fn session_to_ask(
        &self,
        method: &str,
    ) -> Result<(Arc<Session>, Duration), RpcError> {
        let token = self.token.as_ref().ok_or_else(|| {
            RpcError::internal(format!(
                "cannot send {method}: the request came outside a session; \
                 initialize first and send the Mcp-Session-Id header"
            ))
        })?;
        let session = self.sessions.live(token, self.principal.as_ref())?;
        Ok((session, self.sessions.limits.question))
    }

    /// Finds a place for the call `id` among the running ones. Notifications have no id.
    pub(super) fn admit(&self, id: Option<Id>) -> Result<RunningCall, TooMany> {
        let session = self.session.clone().or_else(|| self.live());
        RunningCall::admit(&self.sessions, self.principal.as_ref(), session, id)
    }

    /// The session's live state, for a request to be made in it: created only if the request has
    /// something to keep there.
    pub(super) fn session_for(&self, request: &Request) -> Result<Option<Arc<Session>>, TooMany> {
        match &self.token {
            Some(token) if STATEFUL.iter().any(|stateful| request.method == *stateful) => {
                self.sessions.live(token, self.principal.as_ref()).map(Some)
            }
            _ => Ok(self.session.clone()),
        }
    }

    /// Finds live state that the session got after the message arrived.
    pub(super) fn look_again(&mut self) {
        if let (None, Some(token)) = (&self.session, &self.token) {
            self.session = self.sessions.get(token.key);
        }
    }

    /// The session's live state, created if need be.
    pub(crate) fn live(&self) -> Option<Arc<Session>> {
        self.sessions.live(self.token.as_ref()?, self.principal.as_ref()).ok()
    }
}
