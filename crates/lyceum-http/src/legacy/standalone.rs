//! GET and DELETE: a session's standalone stream, resuming a lost stream, and the session's end.

use std::sync::Arc;

use http::StatusCode;
use lyceum_wire::{Era, is_modern_get};

use super::session::Session;
use super::token::SessionToken;
use crate::answer;
use crate::byte_budget::Payer;
use crate::dialect::{GetAnswer, GetOther, decide_get};
use crate::endpoint::Shared;
use crate::fields::Known;
use crate::handler::Handler;
use crate::info;
use crate::outbox::Outbox;
use crate::pipeline::{Arrival, LAST_EVENT, Reply, SESSION, plain_error};
use crate::stream::{EventStream, parse_event_id};

/// The number of every session's standalone stream; call streams have random ones.
const STANDALONE: u64 = 0;

impl<H: Handler> Shared<H> {
    /// Answers a GET.
    pub(crate) fn get(self: &Arc<Self>, arrival: Arrival<'_>) -> Reply {
        if is_modern_get(&arrival.fields.line(Known::Version).into()) {
            arrival.trace.era = "modern";
            return self.method_not_allowed(arrival.fields);
        }
        arrival.trace.era = "legacy";
        let (answer, rule) = decide_get(self.policy, &arrival.acceptance, self.sse);
        arrival.trace.rule = rule;
        match answer {
            GetAnswer::Stream if !self.served.serves(Era::Legacy) => {
                self.method_not_allowed(arrival.fields)
            }
            GetAnswer::Stream if self.is_look(&arrival) => {
                arrival.trace.rule = "get-look";
                answer::json(StatusCode::OK, info::document(self))
            }
            GetAnswer::Stream => match self.pair() {
                Some(pair) if self.session_of(&arrival).is_err() => {
                    pair.open(arrival.principal, arrival.peer)
                }
                _ => self.open_stream(&arrival),
            }
            .unwrap_or_else(|reply| reply),
            GetAnswer::Info => answer::json(StatusCode::OK, info::document(self)),
            GetAnswer::Html => info::page(self, arrival.uri, arrival.fields.all),
            GetAnswer::MethodNotAllowed => self.method_not_allowed(arrival.fields),
            GetAnswer::NotAcceptable => plain_error(
                StatusCode::NOT_ACCEPTABLE,
                "Not Acceptable: accept text/event-stream to open a stream",
            ),
        }
    }

    /// Whether a GET is somebody looking at the address, as `curl` does, and not a client: it takes
    /// anything, names no event stream and has no session.
    fn is_look(&self, arrival: &Arrival<'_>) -> bool {
        self.policy.get_other == GetOther::Info
            && !arrival.acceptance.sse.named()
            && arrival.fields.first(Known::Session).is_none()
    }

    /// Answers a DELETE: ends the session.
    pub(crate) fn delete(&self, arrival: &Arrival<'_>) -> Reply {
        let modern = is_modern_get(&arrival.fields.line(Known::Version).into());
        if modern || !self.served.serves(Era::Legacy) || !self.policy.mints_session {
            return self.method_not_allowed(arrival.fields);
        }
        match self.session_of(arrival) {
            Ok((token, _)) => {
                self.sessions.revoke(&token);
                self.handler.session_ended(token.key);
                answer::empty(StatusCode::OK)
            }
            Err(reply) => reply,
        }
    }

    fn open_stream(self: &Arc<Self>, arrival: &Arrival<'_>) -> Result<Reply, Reply> {
        let (token, found) = self.session_of(arrival)?;
        let live = || self.sessions.live(&token, arrival.principal.as_ref());
        let session = found.map_or_else(live, Ok).map_err(|full| full.reply(None))?;
        let payer = || self.stream_payer(arrival.principal.clone(), arrival.peer);
        let events = match arrival.fields.all.get(LAST_EVENT) {
            None => self.standalone(&session, &token, payer()),
            Some(last) => {
                let last = last.to_str().ok().and_then(parse_event_id);
                let (number, after) = last.ok_or_else(|| {
                    plain_error(
                        StatusCode::BAD_REQUEST,
                        "Last-Event-ID is not one of this server's",
                    )
                })?;
                self.resumed(&session, &token, number, after, payer())
            }
        };
        let mut reply = self.stream_reply(events);
        if let Some(id) = arrival.fields.first(Known::Session) {
            reply.headers_mut().insert(SESSION, id.clone());
        }
        Ok(reply)
    }

    /// The session's standalone stream, from where its last reader left off.
    fn standalone(
        &self,
        session: &Arc<Session>,
        token: &SessionToken,
        payer: Payer,
    ) -> EventStream {
        let outbox = session.standalone(|| self.sessions.outbox(payer));
        let (reader, after) = outbox.resume_at();
        self.handler.stream_opened(session);
        let events = EventStream::new(reader, self.limits.keep_alive);
        self.resumable(events, STANDALONE, after, token.revision)
    }

    /// The rest of a stream. One whose messages are gone ends at once: a gap is never papered over.
    fn resumed(
        &self,
        session: &Arc<Session>,
        token: &SessionToken,
        number: u64,
        after: u64,
        payer: Payer,
    ) -> EventStream {
        let outbox = match number {
            STANDALONE => Some(session.standalone(|| self.sessions.outbox(payer))),
            _ => session.stream(number),
        };
        match outbox.and_then(|outbox| outbox.reader(after)) {
            Some(reader) => {
                if number == STANDALONE {
                    self.handler.stream_opened(session);
                }
                let events = EventStream::new(reader, self.limits.keep_alive);
                self.resumable(events, number, after, token.revision)
            }
            None => {
                let nothing = Arc::new(Outbox::new(0));
                nothing.finish();
                EventStream::new(nothing.resume(), self.limits.keep_alive)
            }
        }
    }
}
