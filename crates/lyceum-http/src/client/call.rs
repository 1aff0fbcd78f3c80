//! [`Call`]: one call of the client's owner, in whatever rounds and attempts it takes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use lyceum_wire::Id;

use super::core::Core;
use super::error::ClientError;
use super::handler::{Handler, ServerNotification};
use super::options::CallOptions;
use super::params::CallParams;
use super::progress::Progress;
use super::silence::Silence;
use crate::byte_budget::Payer;

/// What is to be called, and how.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) core: &'a Core,
    pub(crate) method: &'a str,
    pub(crate) params: &'a CallParams<'a>,
    pub(crate) options: &'a CallOptions,
    pub(crate) silence: Arc<Silence>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        core: &'a Core,
        method: &'a str,
        params: &'a CallParams<'a>,
        options: &'a CallOptions,
    ) -> Call<'a> {
        let silence = Silence::new(options.silence.unwrap_or(core.limits.silence));
        Call { core, method, params, options, silence }
    }

    /// It is made again.
    pub(crate) fn repeated(&self) {
        if let Some(repeats) = &self.options.repeats {
            repeats.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs the call until it ends or the server's silence is too long.
    pub(crate) fn watch<T>(
        &self,
        call: Pin<&mut impl Future<Output = Result<T, ClientError>>>,
    ) -> impl Future<Output = Result<T, ClientError>> {
        self.silence.watch(&self.core.timers, call)
    }

    /// Who is charged for what comes back.
    pub(crate) fn payer(&self) -> Option<Payer> {
        let budget = Arc::clone(&self.core.payer.as_ref()?.budget);
        Some(Payer { budget, caller: self.options.charged.clone()? })
    }

    /// The legacy request.
    pub(crate) fn legacy_body(&self, id: &Id) -> Bytes {
        self.params.legacy(id, self.method, &self.options.progress)
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
