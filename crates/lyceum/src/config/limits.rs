//! The limits and intervals as the transport, the gateway and the store want them.

use lyceum_gateway::process;
use lyceum_http::{Limits, ServeOptions};
use tokio::time::Duration;

use crate::config::error::ConfigError;
use crate::config::given::Given;
use crate::config::required;
use crate::config::settings::{LimitSettings, MaintenanceSettings, Positive, StdioSettings};

/// Bytes of the largest answer an upstream may give.
const RELAYED_BYTES: usize = 16 << 20;

/// The limits of endpoints, and those of connections. No text has more than `max_text` bytes.
///
/// # Errors
/// When what all calls share is less than what one call may take.
pub(crate) fn check(
    settings: LimitSettings,
    max_text: usize,
) -> Result<(Limits, ServeOptions), ConfigError> {
    let body_bytes = count(settings.body_bytes);
    let answer_bytes = count(settings.answer_bytes);
    let stream_bytes = count(settings.stream_bytes);
    let limits = Limits {
        body_bytes,
        bodies_bytes: shared("bodies_bytes", settings.bodies_bytes, 6 * body_bytes)?,
        answer_bytes,
        answers_bytes: shared("answers_bytes", settings.answers_bytes, 4 * answer_bytes)?,
        work_bytes: shared("work_bytes", settings.work_bytes, 32 * max_text)?,
        relay_bytes: shared("relay_bytes", settings.relay_bytes, 6 * RELAYED_BYTES)?,
        body_idle: seconds(settings.body_idle_seconds),
        body_total: seconds(settings.body_total_seconds),
        stream_bytes,
        streams_bytes: shared("streams_bytes", settings.streams_bytes, 4 * stream_bytes)?,
        replay_bytes: count(settings.replay_bytes),
        sessions: count(settings.sessions),
        sessions_per_principal: count(settings.sessions_per_principal),
        streams_per_session: count(settings.streams_per_session),
        session_idle: seconds(settings.session_idle_seconds),
        session_lifetime: seconds(settings.session_lifetime_seconds),
        keep_alive: seconds(settings.keep_alive_seconds),
        calls_per_principal: count(settings.calls_per_principal),
        question: seconds(settings.question_seconds),
        ..Limits::default()
    };
    let connections = ServeOptions {
        idle: seconds(settings.connection_idle_seconds),
        drain: seconds(settings.drain_seconds),
        ..ServeOptions::default()
    };
    Ok((limits, connections))
}

/// Bytes all calls share; fewer than `least` could not serve the largest call.
fn shared(
    name: &str,
    setting: Option<Given<Positive>>,
    least: usize,
) -> Result<usize, ConfigError> {
    let given = required(setting);
    let bytes = given.value.get() as usize;
    if bytes < least {
        let text = format!(
            "limits.{name} is {bytes}, too little for the largest call: write {least} or more, or \
             lower what one call may take"
        );
        return Err(ConfigError::at(&given.source, text));
    }
    Ok(bytes)
}

/// How often the server looks after itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Maintenance {
    /// When everything stored is checked for the first time: not while the server is busy starting.
    pub(crate) first_integrity_check: Duration,
    pub(crate) integrity_checks: Duration,
    /// How often documents that lack vectors are looked for.
    pub(crate) reindex: Duration,
    /// How often everything upstreams offer is listed again.
    pub(crate) relist: Duration,
}

/// The intervals; the last is how long answers are kept for requests that are repeated.
pub(crate) fn maintenance(settings: MaintenanceSettings) -> (Maintenance, Duration) {
    let maintenance = Maintenance {
        first_integrity_check: seconds(settings.integrity_first_seconds),
        integrity_checks: seconds(settings.integrity_seconds),
        reindex: seconds(settings.reindex_seconds),
        relist: seconds(settings.relist_seconds),
    };
    (maintenance, seconds(settings.idempotency_seconds))
}

/// The most memory the process takes, in bytes, without vectors, connections and streams, which
/// grow with what is served. `docs/operations.md` says what each term is and where it is kept.
#[cfg(test)]
pub(crate) fn memory(limits: &Limits, max_text: usize) -> usize {
    const MIB: usize = 1 << 20;
    const PROGRAM: usize = 256 * MIB;
    const WRITES: usize = (64 + 2) * MIB;
    const INDEXING: usize = 128 * MIB;
    const CONVERSIONS: usize = 4 * (16 + 32) * MIB;
    const TASK_RESULTS: usize = 64 * MIB;
    let calls = 2 * limits.bodies_bytes + limits.answers_bytes + limits.work_bytes;
    let relayed = limits.relay_bytes + 5 * limits.answer_bytes;
    let streams = limits.streams_bytes + limits.replay_bytes;
    let background = WRITES + max_text + INDEXING + CONVERSIONS + TASK_RESULTS;
    PROGRAM + calls + relayed + streams + background
}

/// What each process behind the gateway may use.
pub(crate) fn processes(settings: &StdioSettings) -> process::Limits {
    let given = |setting: &Option<Given<Positive>>| {
        setting.as_ref().map(|given| u64::from(given.value.get()))
    };
    process::Limits {
        memory: given(&settings.max_memory_mb).map(|mb| mb << 20),
        open_files: given(&settings.max_open_files),
        processes: given(&settings.max_processes),
    }
}

fn count(setting: Option<Given<Positive>>) -> usize {
    required(setting).value.get() as usize
}

fn seconds(setting: Option<Given<Positive>>) -> Duration {
    Duration::from_secs(u64::from(required(setting).value.get()))
}
