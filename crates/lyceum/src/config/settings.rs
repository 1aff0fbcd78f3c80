//! What the file, the environment and the command line may set, before anything is checked.
//!
//! The doc comment of a field is its `--help` and its entry in `docs/configuration.md`; a field's
//! default stands in `defaults.toml`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::given::{Given, layer};
use crate::config::values::{
    DialectName, EmbeddingKind, EraName, GrantName, Listen, Preset, ShareName, StoreKind, ToolRule,
};

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
    /// `knox`. It sets the dialect of every endpoint that names none; `agent-data` also sets
    /// `index.skip_prefixes`, `knox` also serves the paths of that proxy below `knox.prefix`. Without a preset, `/mcp` and `/mcp-readonly` are `standard`, `/mcp-gpt`
    /// and `/mcp-gpt-full` are `agent-data`, and 2024-11-05 clients find `/sse` and `/messages`.
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<Given<Preset>>,

    /// Event streams as answers: `true` leaves it to the client's `Accept` header, `false`
    /// (`--no-sse`) forces JSON everywhere.
    #[arg(long = "no-sse", num_args = 0, default_missing_value = "false")]
    pub(crate) sse: Option<Given<bool>>,

    /// What to log on stderr: `error`, `warn`, `info`, `debug`, `trace`, or a filter such as
    /// `info,lyceum_http=debug`. Of the HTTP and TLS libraries, whose warnings any client can cause,
    /// only errors are logged unless the filter names them: `info,h2=warn`.
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<Given<String>>,

    /// Serve anyone who can reach a public address, without any credentials. Without it, an address
    /// beyond loopback is refused until there is an API key (`lyceum keys create NAME`), and so are
    /// `hosts` and `origins` beyond loopback, which a proxy's clients use.
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub(crate) i_know_unauthenticated: Option<Given<bool>>,

    /// Host names clients may use besides those of loopback and the listening address, e.g.
    /// `mcp.example.org`; every other `Host` is refused (421). Such a name makes a public server, which
    /// starts only with an API key, whatever address it listens on.
    #[arg(skip)]
    pub(crate) hosts: Option<Given<Vec<String>>>,

    /// Web origins that may call besides those of loopback, e.g. `https://app.example.org`; every
    /// other `Origin` is refused (403). Such an origin makes a public server, which starts only with an
    /// API key.
    #[arg(skip)]
    pub(crate) origins: Option<Given<Vec<String>>>,

    /// Where knowledge is kept: `sqlite`, a file in the data directory.
    #[arg(skip)]
    pub(crate) store: Option<Given<StoreKind>>,

    /// How texts become vectors.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) embeddings: EmbeddingSettings,

    /// What gets vectors.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) index: IndexSettings,

    /// What documents may be.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) documents: DocumentSettings,

    /// The HTTP API beside MCP.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) rest: RestSettings,

    /// The MCP endpoints. Without any: the profiles `/mcp` (all tools), `/mcp-readonly` (the five
    /// that read), `/mcp-gpt` (those and upload, update, patch) and, on loopback only,
    /// `/mcp-gpt-full` (all). An endpoint at the path of a profile has its tools and dialect unless
    /// it names its own.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) endpoint: Vec<EndpointSettings>,

    /// Other MCP servers to put behind the same endpoints; docs/gateway.md tells more. One that is
    /// down costs only its own tools.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) upstream: Vec<UpstreamSettings>,

    /// The file with the approved definitions of upstreams' tools, which `lyceum upstreams lock`
    /// writes. Without it: `upstreams.lock` in the data directory.
    #[arg(skip)]
    pub(crate) lockfile: Option<Given<PathBuf>>,

    /// Upstreams that are processes.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) stdio: StdioSettings,

    /// What clients of the Knox MCP proxy find, under the preset `knox`.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) knox: KnoxSettings,

    /// What the server will hold, and how long it will wait.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) limits: LimitSettings,

    /// How often the server looks after itself.
    #[arg(skip)]
    #[serde(default)]
    pub(crate) maintenance: MaintenanceSettings,
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
    store,
    embeddings,
    index,
    documents,
    rest,
    endpoint,
    upstream,
    lockfile,
    stdio,
    knox,
    limits,
    maintenance,
});

/// One MCP endpoint.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndpointSettings {
    /// Where it is served, e.g. `/mcp`. One segment may be `{token}`: a secret that clients have in
    /// their URL, for those that cannot send a header.
    pub(crate) path: Given<String>,
    /// Its manners: `standard`, `agent-data`, `knox`, `turul` or `strict`. Without it: what the
    /// preset says.
    pub(crate) dialect: Option<Given<DialectName>>,
    /// Whether its answers may be event streams. Without it: what the whole server does.
    pub(crate) sse: Option<Given<bool>>,
    /// Whether responses say in `Lyceum-Decision` why they have the form they have. Without it:
    /// no.
    pub(crate) explain: Option<Given<bool>>,
    /// The tools it offers, as names or globs (`search_*`). One that begins with `!` leaves tools out,
    /// whatever else names them; a list of nothing else leaves them out of what is offered without
    /// it. Without it: those of the profile at this path, else all.
    pub(crate) tools: Option<Given<Vec<ToolRule>>>,
    /// Whether 2024-11-05 clients reach it, too: `/mcp` on `/sse` and `/messages`, others on `sse` and
    /// `messages` below their path. Without it: no.
    pub(crate) http_sse: Option<Given<bool>>,
    /// The names of the API keys that may enter; others are refused (403). Without it: any key, and
    /// on loopback nobody needs one until the first key is made.
    pub(crate) keys: Option<Given<Vec<String>>>,
    /// The environment variable with the secret for `{token}`: 16 or more letters, digits, `-`, `_`.
    pub(crate) token_env: Option<Given<String>>,
    /// The file with the secret for `{token}`, of mode 0600. It is read again when it changes, so
    /// writing a new secret into it is all a rotation takes.
    pub(crate) token_file: Option<Given<PathBuf>>,
}

layer!(EndpointSettings {
    path,
    dialect,
    sse,
    explain,
    tools,
    http_sse,
    keys,
    token_env,
    token_file,
});

/// One MCP server behind the gateway.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpstreamSettings {
    /// What clients know it by, up to 32 lower-case letters, digits and dashes.
    pub(crate) name: Given<String>,
    /// The program to start and its arguments, for a server that speaks over standard input and
    /// output. No shell reads them.
    pub(crate) command: Option<Given<Vec<String>>>,
    /// The address of a server that runs already: `https://…/mcp`, `sse://…` for HTTP+SSE, or one of
    /// the other forms in docs/gateway.md.
    pub(crate) url: Option<Given<String>>,
    /// Which revisions to speak: `auto` (the newest both know), `legacy` or `modern`. Without it:
    /// `auto`.
    pub(crate) era: Option<Given<EraName>>,
    /// Who shares a connection, or a process: `shared` (everybody) or `per-session` (each legacy
    /// session, and each key of modern clients, has its own). Without it: `shared`.
    pub(crate) share: Option<Given<ShareName>>,
    /// Headers for it: `{ Authorization = "env:TOKEN" }`, `"file:/path"` (of mode 0600), or text as it
    /// is.
    pub(crate) headers: Option<Given<BTreeMap<String, String>>>,
    /// How to get tokens from its authorization server, when `lyceum upstreams login NAME` and what
    /// the server says are not enough: `{ grant = "client-credentials", client_id = "…",
    /// client_secret = "env:SECRET" }`; docs/gateway.md lists the members.
    pub(crate) oauth: Option<Given<OAuthTable>>,
    /// Environment variables its process gets besides the usual few: `NAME` as it is here, or
    /// `NAME=value`.
    pub(crate) env: Option<Given<Vec<String>>>,
    /// The directory its process starts in. Without it: ours.
    pub(crate) directory: Option<Given<PathBuf>>,
    /// Seconds a call may hear nothing from it. Without it: 60.
    pub(crate) call_timeout: Option<Given<Positive>>,
    /// Seconds after which a connection or process that nobody uses is ended. Without it: never, or
    /// after half an hour with `share = "per-session"`.
    pub(crate) idle_timeout: Option<Given<Positive>>,
    /// Seconds after which a connection or process is replaced. Without it: never.
    pub(crate) max_lifetime: Option<Given<Positive>>,
    /// Connections or processes it may have with `share = "per-session"`. Who calls, or watches a
    /// resource, keeps theirs; when all are in use, others are refused. Calls of one modern client
    /// that wait for its answers may take half of them. With `share = "shared"`: how
    /// many calls of an older server over stdio or HTTP+SSE may wait for their clients' answers at
    /// once, each of which takes a connection or process for itself. Without it: 64.
    pub(crate) max_connections: Option<Given<Positive>>,
    /// Its tools that are shown, as names or globs of its own names. One that begins with `!` leaves
    /// tools out, whatever else names them; a list of nothing else shows the rest. Without it: all.
    pub(crate) tools: Option<Given<Vec<ToolRule>>>,
    /// What its names begin with, which is nobody else's. Without it: its name. `""` shows names and
    /// URIs as they are, where nobody had them before.
    pub(crate) prefix: Option<Given<String>>,
    /// Further names its tools can be called by: `{ old_name = "tool" }`.
    pub(crate) aliases: Option<Given<BTreeMap<String, String>>>,
    /// Whether characters nobody sees are taken out of its descriptions. Without it: no, they are
    /// reported only.
    pub(crate) strip_invisible: Option<Given<bool>>,
}

layer!(UpstreamSettings {
    name,
    command,
    url,
    era,
    share,
    headers,
    oauth,
    env,
    directory,
    call_timeout,
    idle_timeout,
    max_lifetime,
    max_connections,
    tools,
    prefix,
    aliases,
    strip_invisible,
});

/// How to get tokens for an upstream.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OAuthTable {
    /// `authorization-code` (a person logs in) or `client-credentials`.
    pub(crate) grant: Option<GrantName>,
    /// The id of a client that was registered by hand.
    pub(crate) client_id: Option<String>,
    /// Its secret: `env:NAME`, `file:PATH` or text.
    pub(crate) client_secret: Option<String>,
    /// Its private key in PEM, if it signs assertions instead.
    pub(crate) client_key: Option<String>,
    /// Whose client it is.
    pub(crate) issuer: Option<String>,
    /// The https URL of a client metadata document.
    pub(crate) client_document: Option<String>,
    /// Scopes to ask for.
    #[serde(default)]
    pub(crate) scopes: Vec<String>,
    /// Hosts of authorization servers on private networks or without TLS.
    #[serde(default)]
    pub(crate) trusted_hosts: Vec<String>,
}

/// Upstreams that are processes.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StdioSettings {
    /// Programs that may be started: names (`npx`, wherever it is) or absolute paths. Without it:
    /// all, with a warning.
    pub(crate) allowed_commands: Option<Given<Vec<String>>>,
    /// MiB of memory each process may write to and share with nobody. Without it: as much as there
    /// is. This and the two below hold on Linux.
    pub(crate) max_memory_mb: Option<Given<Positive>>,
    /// Files each process may have open.
    pub(crate) max_open_files: Option<Given<Positive>>,
    /// Processes and threads of our user, ours included, beyond which upstreams can start no more. If
    /// our user is root, there is no limit.
    pub(crate) max_processes: Option<Given<Positive>>,
}

layer!(StdioSettings { allowed_commands, max_memory_mb, max_open_files, max_processes });

/// What clients of the Knox MCP proxy find.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnoxSettings {
    /// Where the proxy was: the gateway's path, the topology and `mcp/v1`. Under the preset `knox`
    /// the upstreams' tools and resources are served there; docs/knox.md tells more. An
    /// `[[endpoint]]` at this very path says which tools it shows and to whom.
    pub(crate) prefix: Option<Given<String>>,
}

layer!(KnoxSettings { prefix });

/// Which model embeds.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmbeddingSettings {
    /// What embeds: `static` (compiled in, offline) or `openai` (any service that speaks its
    /// protocol).
    pub(crate) kind: Option<Given<EmbeddingKind>>,
    /// The base address of the service, e.g. `https://api.openai.com/v1`; `/embeddings` is appended.
    pub(crate) url: Option<Given<String>>,
    /// The model to ask the service for.
    pub(crate) model: Option<Given<String>>,
    /// The length of vectors to ask for. Without it: the model's own.
    pub(crate) dimensions: Option<Given<Positive>>,
    /// The environment variable with the service's key.
    pub(crate) key_env: Option<Given<String>>,
    /// The file with the service's key, of mode 0600.
    pub(crate) key_file: Option<Given<PathBuf>>,
}

layer!(EmbeddingSettings { kind, url, model, dimensions, key_env, key_file });

/// Which documents are embedded.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IndexSettings {
    /// Documents under these prefixes get no vectors; words still find them. Without it: none, or
    /// `operations/tasks/comments/` and `registries/` under the preset `agent-data`.
    pub(crate) skip_prefixes: Option<Given<Vec<String>>>,
}

layer!(IndexSettings { skip_prefixes });

/// What documents may be.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DocumentSettings {
    /// Bytes of a document's text; a longer one is refused.
    pub(crate) max_bytes: Option<Given<Positive>>,
}

layer!(DocumentSettings { max_bytes });

/// The HTTP API beside MCP.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestSettings {
    /// The names of the API keys that may use `/documents`, `/kb`, `/info`, `/metrics` and
    /// `/openapi.json`; others are refused (403). Without it: every key that no endpoint's `keys`
    /// names, because a key made for one endpoint is for that endpoint.
    pub(crate) keys: Option<Given<Vec<String>>>,
}

layer!(RestSettings { keys });

/// Bounds, for the whole server.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitSettings {
    /// Bytes of a request body; a longer one is refused (413).
    pub(crate) body_bytes: Option<Given<Positive>>,
    /// Bytes of request bodies under way in the whole server, those of 64 KiB or less not counted. A caller
    /// that has more than it leaves free is refused (429), others only when hardly any are left (503). At
    /// least 6 × `body_bytes`.
    pub(crate) bodies_bytes: Option<Given<Positive>>,
    /// Bytes of one answer as it is sent, escapes included; beyond, texts come as summaries, or the call is
    /// refused and says how to ask for less. A batch of 2025-03-26 has a quarter of it for all its answers.
    pub(crate) answer_bytes: Option<Given<Positive>>,
    /// Bytes of answers under way in the whole server, from before they are written until their clients
    /// have taken them, those of 64 KiB or less not counted. Who has more than it leaves free is refused
    /// (429, UNAVAILABLE), others only when hardly any are left (503). At least 4 × `answer_bytes`.
    pub(crate) answers_bytes: Option<Given<Positive>>,
    /// Bytes that calls which read whole documents may work with at once, in the whole server; others wait
    /// for up to 5 seconds and are refused then (UNAVAILABLE). At least 32 × `documents.max_bytes`.
    pub(crate) work_bytes: Option<Given<Positive>>,
    /// Seconds between two pieces of a request body; a slower one is refused (408).
    pub(crate) body_idle_seconds: Option<Given<Positive>>,
    /// Seconds a whole request body may take; a slower one is refused (408).
    pub(crate) body_total_seconds: Option<Given<Positive>>,
    /// Bytes of answers of upstreams under way in the whole server, from their first byte until they
    /// are passed on, those of 64 KiB or less not counted. An answer waits for room up to 5 seconds,
    /// then its call fails and says so. A caller may hold as much as it leaves free. At least 96 MiB,
    /// for the largest answer in a buffer that grows.
    pub(crate) relay_bytes: Option<Given<Positive>>,
    /// Unread bytes one stream holds before its sender waits.
    pub(crate) stream_bytes: Option<Given<Positive>>,
    /// Unread bytes all streams together hold, the first 16 KiB of each not counted. A stream that
    /// waits for room longer than 5 seconds ends. A caller may hold as much as it leaves free. At least
    /// 4 × `stream_bytes`.
    pub(crate) streams_bytes: Option<Given<Positive>>,
    /// Bytes all streams together keep for clients that come back.
    pub(crate) replay_bytes: Option<Given<Positive>>,
    /// Legacy sessions with live state; a further one is refused (503).
    pub(crate) sessions: Option<Given<Positive>>,
    /// Legacy sessions with live state of one authenticated caller; a further one is refused (429).
    pub(crate) sessions_per_principal: Option<Given<Positive>>,
    /// Streams one legacy session can come back to; beyond, the oldest finished one is forgotten.
    pub(crate) streams_per_session: Option<Given<Positive>>,
    /// Seconds an idle session's live state is kept.
    pub(crate) session_idle_seconds: Option<Given<Positive>>,
    /// Seconds a session id is good for.
    pub(crate) session_lifetime_seconds: Option<Given<Positive>>,
    /// Seconds of silence on a stream after which a comment is sent.
    pub(crate) keep_alive_seconds: Option<Given<Positive>>,
    /// Calls of one authenticated caller that may take time at once; a further one is refused (429).
    pub(crate) calls_per_principal: Option<Given<Positive>>,
    /// Seconds a client may take to answer a question of the server.
    pub(crate) question_seconds: Option<Given<Positive>>,
    /// Seconds a connection may wait for its next request before it is closed.
    pub(crate) connection_idle_seconds: Option<Given<Positive>>,
    /// Seconds running calls get to finish when the server is told to stop.
    pub(crate) drain_seconds: Option<Given<Positive>>,
}

layer!(LimitSettings {
    body_bytes,
    bodies_bytes,
    answer_bytes,
    answers_bytes,
    work_bytes,
    relay_bytes,
    body_idle_seconds,
    body_total_seconds,
    stream_bytes,
    streams_bytes,
    replay_bytes,
    sessions,
    sessions_per_principal,
    streams_per_session,
    session_idle_seconds,
    session_lifetime_seconds,
    keep_alive_seconds,
    calls_per_principal,
    question_seconds,
    connection_idle_seconds,
    drain_seconds,
});

/// Periodic work.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MaintenanceSettings {
    /// Seconds after the start until everything stored is read and checked for the first time.
    pub(crate) integrity_first_seconds: Option<Given<Positive>>,
    /// Seconds between two such checks.
    pub(crate) integrity_seconds: Option<Given<Positive>>,
    /// Seconds between two looks for documents that lack vectors; those that were given up are tried
    /// again then.
    pub(crate) reindex_seconds: Option<Given<Positive>>,
    /// Seconds after which everything upstreams offer is listed again, although they told of no
    /// change.
    pub(crate) relist_seconds: Option<Given<Positive>>,
    /// Seconds for which a write repeated under its `idempotency_key` gets its first answer again.
    pub(crate) idempotency_seconds: Option<Given<Positive>>,
}

layer!(MaintenanceSettings {
    integrity_first_seconds,
    integrity_seconds,
    reindex_seconds,
    relist_seconds,
    idempotency_seconds,
});
