//! Every bound of an endpoint, in one place.

use tokio::time::Duration;

/// What one endpoint will hold and how long it will wait.
///
/// Memory is bounded by `bodies_bytes + answers_bytes + work_bytes + relay_bytes +
/// streams_bytes + replay_bytes`,
/// [`UNCOUNTED_BYTES`](crate::UNCOUNTED_BYTES) twice for each request in flight, and
/// [`UNCOUNTED_STREAM_BYTES`](crate::UNCOUNTED_STREAM_BYTES) for each stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request body (413 beyond).
    pub body_bytes: usize,
    /// Bytes of request bodies that all callers together may have under way (503 beyond, or 429 for
    /// a caller that has more than it leaves free).
    pub bodies_bytes: usize,
    /// Bytes of one answer, as they are sent; a quarter of it is for a whole batch.
    pub answer_bytes: usize,
    /// Bytes of answers that all callers together may have under way (503 beyond, or 429 for a
    /// caller that has more than it leaves free).
    pub answers_bytes: usize,
    /// Bytes that all calls together may work with before they answer (503 beyond, or 429 for a
    /// caller that has more than it leaves free).
    pub work_bytes: usize,
    /// Bytes of answers of other servers that may be arriving for all callers together (an error
    /// beyond).
    pub relay_bytes: usize,
    /// The longest pause between two pieces of a request body (408 beyond).
    pub body_idle: Duration,
    /// The longest time a whole request body may take (408 beyond).
    pub body_total: Duration,
    /// Unread bytes a stream may hold before its sender waits.
    pub stream_bytes: usize,
    /// Unread bytes all streams together may hold. A stream that waits for some longer than
    /// [`PATIENCE`](crate::PATIENCE) ends.
    pub streams_bytes: usize,
    /// Bytes all streams together may keep for clients that come back.
    pub replay_bytes: usize,
    /// Legacy sessions with live state (503 beyond).
    pub sessions: usize,
    /// Those of one authenticated principal (429 beyond).
    pub sessions_per_principal: usize,
    /// Call streams one legacy session may have, running or kept for replay; beyond, the oldest
    /// finished one is forgotten, and with none finished a call's stream cannot be resumed.
    pub streams_per_session: usize,
    /// How long an idle session's live state and finished streams are kept.
    pub session_idle: Duration,
    /// How long a session id is good for.
    pub session_lifetime: Duration,
    /// Silence on a stream after which a comment is sent.
    pub keep_alive: Duration,
    /// Legacy calls that may run at once on tasks of their own, which outlive their connections, and
    /// notifications that take time (503 beyond).
    pub calls: usize,
    /// Those of one session (429 beyond).
    pub calls_per_session: usize,
    /// Calls of one authenticated principal that may take time at once, in both eras (429 beyond).
    pub calls_per_principal: usize,
    /// How long a client may take to answer a question of the server.
    pub question: Duration,
    /// What 2025-11-25 clients are told to wait before they reconnect.
    pub retry: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 4 << 20,
            bodies_bytes: 128 << 20,
            answer_bytes: 32 << 20,
            answers_bytes: 256 << 20,
            work_bytes: 256 << 20,
            relay_bytes: 192 << 20,
            body_idle: Duration::from_secs(15),
            body_total: Duration::from_secs(60),
            stream_bytes: 256 << 10,
            streams_bytes: 64 << 20,
            replay_bytes: 64 << 20,
            sessions: 16_384,
            sessions_per_principal: 64,
            streams_per_session: 64,
            session_idle: Duration::from_secs(300),
            session_lifetime: Duration::from_secs(24 * 3600),
            keep_alive: Duration::from_secs(15),
            calls: 16_384,
            calls_per_session: 256,
            calls_per_principal: 1024,
            question: Duration::from_secs(300),
            retry: Duration::from_millis(500),
        }
    }
}
