//! What the file, the environment and the command line may set, before anything is checked.
//!
//! The doc comment of a field is its `--help` and its entry in `docs/configuration.md`; a field's
//! default stands in `defaults.toml`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::given::{Given, layer};
use crate::config::values::{DialectName, Glob, Listen, Preset};

/// A count or a number of seconds; zero would mean a server that serves nothing.
pub(crate) type Positive = NonZeroU32;

/// One layer of configuration.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Address to listen on. Port 0 picks a free port and prints it.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<Given<Listen>>,

    /// Directory for everything that must survive a restart, created for its owner only. Without
    /// it: `$XDG_DATA_HOME/lyceum`, or `~/.local/share/lyceum`.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<Given<PathBuf>>,

    /// Whose habits to serve: `strict` (what the official SDKs' servers demand), `agent-data`,
    /// `knox`. It sets the dialect of every endpoint that names none. Without a preset, `/mcp` is
    /// `standard` and 2024-11-05 clients find `/sse` and `/messages`.
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<Given<Preset>>,

    /// Event streams as answers: `true` leaves it to the client's `Accept` header, `false`
    /// (`--no-sse`) forces JSON everywhere.
    #[arg(long = "no-sse", num_args = 0, default_missing_value = "false")]
    pub(crate) sse: Option<Given<bool>>,

    /// What to log on stderr: `error`, `warn`, `info`, `debug`, `trace`, or a filter such as
    /// `info,lyceum_http=debug`.
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<Given<String>>,

    /// Serve anyone who can reach a public address, without any credentials. Without it, an
    /// address beyond loopback is refused.
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub(crate) i_know_unauthenticated: Option<Given<bool>>,

    /// Host names clients may use besides those of loopback and the listening address, e.g.
    /// `mcp.example.org`; every other `Host` is refused (421).
    #[arg(skip)]
    pub(crate) hosts: Option<Given<Vec<String>>>,

    /// Web origins that may call besides those of loopback, e.g. `https://app.example.org`; every
    /// other `Origin` is refused (403).
    #[arg(skip)]
    pub(crate) origins: Option<Given<Vec<String>>>,

    /// The MCP endpoints. Without any: one on `/mcp`.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) endpoint: Vec<EndpointSettings>,

    /// What the server will hold, and how long it will wait.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) limits: LimitSettings,
}

layer!(Settings {
    listen,
    data,
    preset,
    sse,
    log,
    i_know_unauthenticated,
    hosts,
    origins,
    endpoint,
    limits,
});

/// One MCP endpoint.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndpointSettings {
    /// Where it is served, e.g. `/mcp`.
    pub(crate) path: Given<String>,
    /// Its manners: `standard`, `agent-data`, `knox`, `turul` or `strict`. Without it: what the
    /// preset says.
    pub(crate) dialect: Option<Given<DialectName>>,
    /// Whether its answers may be event streams. Without it: what the whole server does.
    pub(crate) sse: Option<Given<bool>>,
    /// Whether responses say in `Lyceum-Decision` why they have the form they have. Without it:
    /// no.
    pub(crate) explain: Option<Given<bool>>,
    /// The tools it offers, as names or globs (`search_*`). Without it: all.
    pub(crate) tools: Option<Given<Vec<Glob>>>,
    /// Whether 2024-11-05 clients reach it on `/sse` and `/messages` too; at most one endpoint can
    /// have them. Without it: no.
    pub(crate) http_sse: Option<Given<bool>>,
}

layer!(EndpointSettings { path, dialect, sse, explain, tools, http_sse });

/// Bounds, for the whole server.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitSettings {
    /// Bytes of a request body; a longer one is refused (413).
    pub(crate) body_bytes: Option<Given<Positive>>,
    /// Seconds between two pieces of a request body; a slower one is refused (408).
    pub(crate) body_idle_seconds: Option<Given<Positive>>,
    /// Seconds a whole request body may take; a slower one is refused (408).
    pub(crate) body_total_seconds: Option<Given<Positive>>,
    /// Unread bytes one stream holds before its sender waits.
    pub(crate) stream_bytes: Option<Given<Positive>>,
    /// Bytes all streams together keep for clients that come back.
    pub(crate) replay_bytes: Option<Given<Positive>>,
    /// Legacy sessions with live state; a further one is refused (503).
    pub(crate) sessions: Option<Given<Positive>>,
    /// Streams of one legacy session; a further one is refused (429).
    pub(crate) streams_per_session: Option<Given<Positive>>,
    /// Seconds an idle session's live state is kept.
    pub(crate) session_idle_seconds: Option<Given<Positive>>,
    /// Seconds a session id is good for.
    pub(crate) session_lifetime_seconds: Option<Given<Positive>>,
    /// Seconds of silence on a stream after which a comment is sent.
    pub(crate) keep_alive_seconds: Option<Given<Positive>>,
    /// Seconds a client may take to answer a question of the server.
    pub(crate) question_seconds: Option<Given<Positive>>,
    /// Seconds running calls get to finish when the server is told to stop.
    pub(crate) drain_seconds: Option<Given<Positive>>,
}

layer!(LimitSettings {
    body_bytes,
    body_idle_seconds,
    body_total_seconds,
    stream_bytes,
    replay_bytes,
    sessions,
    streams_per_session,
    session_idle_seconds,
    session_lifetime_seconds,
    keep_alive_seconds,
    question_seconds,
    drain_seconds,
});
