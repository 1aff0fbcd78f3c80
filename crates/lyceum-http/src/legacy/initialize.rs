//! The handshake: negotiates a revision and mints the session id that carries it.

use std::borrow::Cow;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode};
use lyceum_wire::{
    ClientCapabilities, Era, LogLevel, Member, Message, Request, Revision, RpcError, negotiate,
};

use super::origin::Origin;
use super::token::SessionToken;
use crate::call::{Answer, respond};
use crate::context::{Context, Principal};
use crate::dialect::{Decision, Verdict};
use crate::endpoint::Shared;
use crate::fields::Known;
use crate::handler::Handler;
use crate::pipeline::{Arrival, Next, Reply, SESSION, plain_error};

/// What a client said about itself in `initialize`.
pub(super) struct Handshake {
    pub(super) revision: Revision,
    pub(super) capabilities: ClientCapabilities,
}

impl<H: Handler> Shared<H> {
    /// Takes `initialize`, which starts a session.
    pub(crate) fn initialize(
        self: &Arc<Self>,
        mut arrival: Arrival<'_>,
        message: Message,
    ) -> Result<Next, Reply> {
        arrival.trace.era = "legacy";
        let Message::Request(request) = message else {
            let text = "initialize must be a request with an id";
            return Err(plain_error(StatusCode::BAD_REQUEST, text));
        };
        let carried = arrival.fields.first(Known::Session).cloned();
        if let Some(reply) = self.refuse_second_handshake(&arrival, carried.as_ref()) {
            return Err(reply);
        }
        let verdict = self.negotiate(&mut arrival, request.method.as_bytes())?;
        let Handshake { revision, capabilities } =
            self.handshake(&request, self.policy.assumed_revision).map_err(|error| {
                let answer = Answer::error(&request.id, &error, Era::Legacy);
                respond(HeaderMap::new(), answer, verdict.decision)
            })?;
        let principal = arrival.principal.take();
        let id = || {
            let token = SessionToken::mint(revision, capabilities);
            carried.unwrap_or_else(|| self.mint(&token, principal.as_ref()))
        };
        let id = self.policy.mints_session.then(id);
        let sessions = Arc::clone(&self.sessions);
        let origin = Origin {
            revision,
            token: None,
            session: None,
            principal: None,
            peer: arrival.peer,
            sessions,
        };
        // Before there is a session, nothing but the result has a place to go.
        let quiet = Verdict { decision: Decision::Json, can_stream: false, ..verdict };
        let cx = Context {
            revision,
            served: self.served,
            capabilities,
            log_level: Some(LogLevel::Info),
            progress_token: None,
            principal,
            peer: arrival.peer,
            budgets: Arc::clone(&self.budgets),
            endpoint: Arc::clone(&self.name),
            session_key: None,
            session: None,
            sealer: Arc::clone(&self.sealer),
            outlet: self.outlet(quiet, origin),
        };
        let call = self.start(request, cx);
        Ok(Next::Later(Box::pin(async move {
            let answer = call.await;
            let id = id.filter(|_| answer.succeeded);
            let mut reply = respond(HeaderMap::new(), answer, verdict.decision);
            if let Some(id) = id {
                reply.headers_mut().insert(SESSION, id);
            }
            reply
        })))
    }

    /// Reads what the client asks for and settles on a revision; one that asks for none gets
    /// `assumed`.
    pub(super) fn handshake(
        &self,
        request: &Request,
        assumed: Option<Revision>,
    ) -> Result<Handshake, RpcError> {
        let requested: Cow<'_, str> = request
            .params
            .text(Member::ProtocolVersion)
            .or(assumed.map(|revision| revision.as_str().into()))
            .ok_or_else(|| {
                RpcError::invalid_params("initialize needs params.protocolVersion, a string")
            })?;
        let revision = negotiate(&requested, self.served)
            .ok_or_else(|| RpcError::unsupported_version(&requested, self.served))?;
        let capabilities = match request.params.get(Member::Capabilities) {
            None => ClientCapabilities::default(),
            Some(raw) => ClientCapabilities::parse(raw)
                .ok_or_else(|| RpcError::invalid_params("params.capabilities must be an object"))?,
        };
        Ok(Handshake { revision, capabilities })
    }

    /// A client that is in a session already has been initialized; one whose session is gone must
    /// not go on using its id.
    fn refuse_second_handshake(
        &self,
        arrival: &Arrival<'_>,
        carried: Option<&HeaderValue>,
    ) -> Option<Reply> {
        if carried.is_none() || self.policy.echoes_session || !self.policy.mints_session {
            return None;
        }
        Some(match self.session_of(arrival) {
            Ok(_) => plain_error(
                StatusCode::BAD_REQUEST,
                "already initialized; leave out the Mcp-Session-Id header to start a new session",
            ),
            Err(reply) => reply,
        })
    }

    /// Seals a session id for `principal`.
    pub(super) fn mint(&self, token: &SessionToken, principal: Option<&Principal>) -> HeaderValue {
        let id = token.seal(&self.sealer, &self.binding(principal));
        HeaderValue::try_from(id).expect("URL-safe base64 is a header value")
    }

    /// What a session id of this endpoint is bound to.
    pub(super) fn binding<'a>(&'a self, principal: Option<&'a Principal>) -> [&'a [u8]; 2] {
        [self.name.as_bytes(), principal.map_or("", Principal::as_str).as_bytes()]
    }
}
