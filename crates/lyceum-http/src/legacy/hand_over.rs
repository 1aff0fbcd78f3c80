//! Messages handed over to a stream: how the Knox proxy's clients use one path for both transports.
//!
//! A GET that prefers SSE opens a stream of 2024-11-05 there, and a POST that prefers SSE and names
//! such a stream is only accepted: its answer arrives on the stream. Whatever names no stream is
//! answered as everywhere else.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use lyceum_wire::Message;

use super::http_sse::HttpSse;
use crate::dialect::{Decision, Verdict};
use crate::endpoint::Shared;
use crate::fields::Known;
use crate::handler::Handler;
use crate::pipeline::{Arrival, Next, Reply, SESSION, plain_error};

const STREAM: HeaderName = HeaderName::from_static("x-session-id");
/// The parameter of the address that an `endpoint` event names.
pub(super) const PARAMETER: &str = "session";

impl<H: Handler> Shared<H> {
    /// The 2024-11-05 form of this endpoint, where messages can be handed over to it.
    pub(super) fn pair(self: &Arc<Self>) -> Option<HttpSse<H>> {
        let messages = self.hand_over.as_ref()?;
        Some(HttpSse::new(Arc::clone(self), Arc::clone(messages)))
    }

    /// Hands a legacy message over to the stream it names; `otherwise` takes one that names none.
    pub(crate) fn hand_over<'a>(
        self: &Arc<Self>,
        arrival: Arrival<'a>,
        message: Message,
        verdict: Verdict,
        otherwise: impl FnOnce(Arrival<'a>, Message) -> Result<Next, Reply>,
    ) -> Result<Next, Reply> {
        let pair = self.pair().filter(|_| verdict.decision == Decision::Sse);
        let Some(pair) = pair else { return otherwise(arrival, message) };
        let carried = arrival.fields.first(Known::Session).map(HeaderValue::as_bytes);
        let id = carried.or_else(|| stream_id(arrival.fields.all, arrival.uri));
        let Some(id) = id else { return otherwise(arrival, message) };
        let Some(session) = pair.open_session(id, arrival.principal.as_ref()) else {
            if self.session_of(&arrival).is_ok() {
                return otherwise(arrival, message);
            }
            let text = "Session not found: open a stream with GET, or leave the session id out";
            return Err(plain_error(StatusCode::NOT_FOUND, text));
        };
        arrival.trace.era = "http+sse";
        arrival.trace.rule = "handed-over";
        let (id, principal, peer) = (HeaderValue::from_bytes(id), arrival.principal, arrival.peer);
        Ok(Next::Later(Box::pin(async move {
            let taken = pair.take(message, session, principal, peer).await;
            let mut reply = taken.unwrap_or_else(|reply| reply);
            if let Ok(id) = id {
                reply.headers_mut().insert(SESSION, id);
            }
            reply
        })))
    }
}

/// The stream a request names in the places that are for streams only.
pub(super) fn stream_id<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a [u8]> {
    let named = || parameter(uri, &[PARAMETER, "session_id", "sessionId"]);
    headers.get(STREAM).map(HeaderValue::as_bytes).or_else(|| named().map(str::as_bytes))
}

/// The first query parameter with one of these names.
pub(super) fn parameter<'a>(uri: &'a Uri, names: &[&str]) -> Option<&'a str> {
    let parameters = uri.query().unwrap_or_default().split('&');
    let mut pairs = parameters.filter_map(|parameter| parameter.split_once('='));
    pairs.find(|(name, _)| names.contains(name)).map(|(_, value)| value)
}
