//! [`Progress`]: hands a call's progress notifications to whoever asked for them.

use bytes::Bytes;
use lyceum_wire::{Id, Object, Params};

use super::options::{CallOptions, ProgressSink};
use super::params::CallerParams;

/// A call that wants to hear of its progress.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// The token's raw JSON.
    token: Bytes,
    sink: ProgressSink,
}

impl Progress {
    /// None if the call does not want to hear of progress. Its token is the caller's own or, without
    /// one, the id of the request.
    pub(crate) fn of(
        options: &CallOptions,
        params: &CallerParams<'_>,
        id: &Id,
    ) -> Option<Progress> {
        let sink = options.progress.clone()?;
        let own = params.progress_token().unwrap_or(id.as_str());
        Some(Progress { token: Bytes::copy_from_slice(own.as_bytes()), sink })
    }

    /// Hands on a progress notification of this call; false if it is anything else.
    pub(crate) fn takes(&self, method: &str, params: &Params) -> bool {
        let mine = self.is_about(method, params);
        if mine {
            self.pass_on(params);
        }
        mine
    }

    /// Whether a notification is about the progress of this call.
    pub(crate) fn is_about(&self, method: &str, params: &Params) -> bool {
        token(method, params).is_some_and(|token| token == self.token)
    }

    pub(crate) fn pass_on(&self, params: &Params) {
        (self.sink.0)(params.raw().unwrap_or_default());
    }
}

/// The raw token of a progress notification; None for any other notification.
fn token(method: &str, params: &Params) -> Option<Bytes> {
    if method != "notifications/progress" {
        return None;
    }
    let params = params.raw()?;
    let token = Object::parse(&params).ok()?.get("progressToken")?;
    Some(params.slice_ref(token.as_bytes()))
}
