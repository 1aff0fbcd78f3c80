//! Progress: which token a call has, and who hears of it.

use bytes::Bytes;
use lyceum_wire::{Id, Object};

use super::call::Call;
use super::handler::ServerNotification;
use super::options::{ProgressSink, ProgressWish};

const METHOD: &str = "notifications/progress";

/// The token of a call that wants to hear of its progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// The id of the request, so that no two calls of this client share one.
    Id,
    /// The caller's own, as raw JSON.
    Given(Bytes),
}

/// A call whose progress goes to a sink of its own.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The token's raw JSON.
    token: Bytes,
    sink: ProgressSink,
}

impl Token {
    /// None if the call does not want to hear of progress.
    pub(crate) fn of(call: &Call<'_>) -> Option<Token> {
        match (&call.options.progress, call.params.progress_token()) {
            (ProgressWish::None, _) => None,
            (ProgressWish::Sink(_), Some(given)) => {
                Some(Token::Given(Bytes::copy_from_slice(given.as_bytes())))
            }
            (ProgressWish::Sink(_) | ProgressWish::Handler, _) => Some(Token::Id),
        }
    }
}

impl Progress {
    /// None if the call has no sink.
    pub(crate) fn of(call: &Call<'_>, id: &Id) -> Option<Progress> {
        let ProgressWish::Sink(sink) = &call.options.progress else { return None };
        let token = match Token::of(call)? {
            Token::Id => Bytes::copy_from_slice(id.as_bytes()),
            Token::Given(token) => token,
        };
        Some(Progress { token, sink: sink.clone() })
    }

    /// Hands on a progress notification of this call; false if it is anything else.
    pub(crate) fn takes(&self, note: &ServerNotification) -> bool {
        let Some(params) = &note.params else { return false };
        let mine = token_in(&note.method, Some(params)).is_some_and(|token| token == self.token);
        if mine {
            (self.sink.0)(params.clone());
        }
        mine
    }
}

/// The raw token of a progress notification; None for any other notification.
pub(crate) fn token_in(method: &str, params: Option<&Bytes>) -> Option<Bytes> {
    if method != METHOD {
        return None;
    }
    let params = params?;
    let token = Object::parse(params).ok()?.get("progressToken")?;
    Some(params.slice_ref(token.as_bytes()))
}
