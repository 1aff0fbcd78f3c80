//! [`Call`]: one call of the client's owner, in whatever rounds and attempts it takes.

use std::borrow::Cow;
use std::sync::Arc;

use lyceum_wire::Id;

use super::core::Core;
use super::error::ClientError;
use super::handler::{Handler, ServerNotification};
use super::options::CallOptions;
use super::params::CallerParams;
use super::progress::Progress;
use super::silence::Silence;

/// What is to be called, and how.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) core: &'a Core,
    pub(crate) method: &'a str,
    raw: &'a [u8],
    pub(crate) params: CallerParams<'a>,
    pub(crate) options: &'a CallOptions,
    pub(crate) silence: Arc<Silence>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        core: &'a Core,
        method: &'a str,
        raw: &'a [u8],
        options: &'a CallOptions,
    ) -> Result<Call<'a>, ClientError> {
        let silence = Silence::new(options.silence.unwrap_or(core.limits.silence));
        Ok(Call { core, method, raw, params: CallerParams::parse(raw)?, options, silence })
    }

    /// The params of a legacy request: the caller's own, with a progress token if it wants to hear
    /// of progress.
    pub(crate) fn legacy_params(&self, id: &Id) -> Option<Cow<'a, [u8]>> {
        if self.options.progress.is_some() {
            return Some(Cow::Owned(self.params.legacy(id, &self.options.progress)));
        }
        (!self.raw.is_empty()).then_some(Cow::Borrowed(self.raw))
    }

    /// Whoever answers and hears what belongs to this call.
    pub(crate) fn handler(&self) -> &Handler {
        self.options.handler.as_ref().unwrap_or(&self.core.handler)
    }

    /// Hands on a notification that belongs to this call. While it is being taken in, the silence is
    /// not the server's.
    pub(crate) async fn hear(&self, note: ServerNotification, progress: Option<&Progress>) {
        self.silence.heard();
        if progress.is_some_and(|mine| mine.takes(&note)) {
            return;
        }
        let _busy = self.silence.busy();
        self.handler().notification(note).await;
    }
}
