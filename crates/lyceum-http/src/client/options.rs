//! [`CallOptions`]: what one call may do differently.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use bytes::Bytes;
use lyceum_wire::LogLevel;

use super::handler::{ClientHandler, Handler};
use crate::caller::CallerId;

/// Settings of one call. The default suits most calls.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    pub(crate) progress: ProgressWish,
    pub(crate) handler: Option<Handler>,
    pub(crate) caller: Option<u128>,
    pub(crate) silence: Option<Duration>,
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) capabilities: Option<Bytes>,
    pub(crate) hand_back_input: bool,
    pub(crate) repeats: Option<Arc<AtomicU32>>,
    pub(crate) charged: Option<CallerId>,
}

/// Whether a call asks for progress, and who hears of it.
#[derive(Clone, Debug, Default)]
pub(crate) enum ProgressWish {
    #[default]
    None,
    Sink(ProgressSink),
    /// The call's handler, like of everything else.
    Handler,
}

/// A function that hears of progress.
#[derive(Clone)]
pub(crate) struct ProgressSink(pub(crate) Arc<dyn Fn(Bytes) + Send + Sync>);

impl CallOptions {
    /// The defaults.
    pub fn new() -> CallOptions {
        CallOptions::default()
    }

    /// Asks for progress and hands the raw params of each progress notification to `sink`. The
    /// stream waits for `sink`, so it should only pass things on. A progress token in the call's own
    /// `_meta` is kept; without one the client makes one up.
    #[must_use]
    pub fn on_progress(mut self, sink: impl Fn(Bytes) + Send + Sync + 'static) -> CallOptions {
        self.progress = ProgressWish::Sink(ProgressSink(Arc::new(sink)));
        self
    }

    /// Asks for progress and hands the notifications to the handler, like any other notification of
    /// the call and all of them before its result. The token is the client's own: one in the call's
    /// `_meta` is not sent, and the notifications carry ours.
    #[must_use]
    pub fn progress_to_handler(mut self) -> CallOptions {
        self.progress = ProgressWish::Handler;
        self
    }

    /// Lets another handler than the client's own answer and hear what belongs to this call.
    ///
    /// On a stream that many calls share (lines, HTTP+SSE, the standing stream of a session) a
    /// request or log message of the server does not say which call it belongs to. If all calls with
    /// handlers of their own that are under way have the same [`caller`](Self::caller), or there is
    /// only one such call, it goes to the newest of them; otherwise to the client's own handler.
    #[must_use]
    pub fn handler(self, handler: impl ClientHandler) -> CallOptions {
        self.shared_handler(Arc::new(handler))
    }

    /// [`handler`](Self::handler), for one that others have, too.
    #[must_use]
    pub fn shared_handler(mut self, handler: Arc<impl ClientHandler>) -> CallOptions {
        self.handler = Some(Handler(handler));
        self
    }

    /// Adds to `count` each time the client makes the call again by itself, because the server turned
    /// it away unread: it had forgotten the session, or wants another version or other headers.
    #[must_use]
    pub fn count_repeats(mut self, count: Arc<AtomicU32>) -> CallOptions {
        self.repeats = Some(count);
        self
    }

    /// On whose behalf the call is made. What the server asks or says without naming a call never
    /// reaches a call of another caller. A call without this has a caller of its own.
    #[must_use]
    pub fn caller(mut self, key: u128) -> CallOptions {
        self.caller = Some(key);
        self
    }

    /// Who is charged for the answer while it arrives, in the client's
    /// [budget](super::ClientBuilder::budget).
    #[must_use]
    pub fn charge_to(mut self, caller: CallerId) -> CallOptions {
        self.charged = Some(caller);
        self
    }

    /// How long the server may be silent; see [`Limits::silence`](super::Limits::silence).
    #[must_use]
    pub fn silence(mut self, limit: Duration) -> CallOptions {
        self.silence = Some(limit);
        self
    }

    /// Asks a modern server for log messages from this level on. Legacy servers are told once, by
    /// `logging/setLevel`.
    #[must_use]
    pub fn log_level(mut self, level: LogLevel) -> CallOptions {
        self.log_level = Some(level);
        self
    }

    /// Declares other capabilities (a raw JSON object) for this call than the client's own. Modern
    /// servers only: a legacy server was told in the handshake.
    #[must_use]
    pub fn capabilities(mut self, raw: impl Into<Bytes>) -> CallOptions {
        self.capabilities = Some(raw.into());
        self
    }

    /// Hands an `input_required` result back to the caller instead of asking the handler.
    #[must_use]
    pub fn hand_back_input_requests(mut self) -> CallOptions {
        self.hand_back_input = true;
        self
    }
}

impl ProgressWish {
    pub(crate) fn is_some(&self) -> bool {
        !matches!(self, ProgressWish::None)
    }
}

impl fmt::Debug for ProgressSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressSink")
    }
}
