//! What an endpoint counts. Handles are taken once, so counting is one atomic addition.

use metrics::{Counter, Gauge};

use crate::accept::AcceptMode;
use crate::dialect::Decision;

/// The counters of one endpoint.
pub(crate) struct Counters {
    accept: [Counter; AcceptMode::ALL.len()],
    json: Counter,
    sse: Counter,
    choice: Counter,
    refused: Counter,
    /// Notifications an answer could not carry.
    pub(crate) dropped: Counter,
    /// Handlers that panicked.
    pub(crate) panics: Counter,
    /// Event streams open now.
    pub(crate) streams: Gauge,
}

impl Counters {
    pub(crate) fn new(endpoint: &str) -> Self {
        let endpoint = endpoint.to_owned();
        let mode = |mode: AcceptMode| metrics::counter!("lyceum_accept_total", "endpoint" => endpoint.clone(), "mode" => mode.as_str());
        let decision = |decision: &'static str| metrics::counter!("lyceum_decisions_total", "endpoint" => endpoint.clone(), "decision" => decision);
        Self {
            accept: AcceptMode::ALL.map(mode),
            json: decision("json"),
            sse: decision("sse"),
            choice: decision("server-choice"),
            refused: decision("not-acceptable"),
            dropped: metrics::counter!("lyceum_notifications_dropped_total", "endpoint" => endpoint.clone()),
            panics: metrics::counter!("lyceum_handler_panics_total", "endpoint" => endpoint.clone()),
            streams: metrics::gauge!("lyceum_streams_open", "endpoint" => endpoint.clone()),
        }
    }

    pub(crate) fn accepted(&self, mode: AcceptMode) {
        self.accept[mode as usize].increment(1);
    }

    pub(crate) fn decided(&self, decision: Decision) {
        match decision {
            Decision::Json => &self.json,
            Decision::Sse => &self.sse,
            Decision::ServersChoice => &self.choice,
            Decision::NotAcceptable => &self.refused,
        }
        .increment(1);
    }

    /// Counts a stream for as long as the guard lives.
    pub(crate) fn stream_opened(&self) -> OpenStream {
        self.streams.increment(1.0);
        OpenStream(self.streams.clone())
    }
}

/// One open stream, in the gauge.
pub(crate) struct OpenStream(Gauge);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
