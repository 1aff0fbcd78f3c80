//! The five dialects: what an endpoint does where MCP servers are known to differ, as one table.
//!
//! A dialect is data. Nothing outside this module asks *which* dialect an endpoint speaks, only what
//! its [`Policy`] says; the answer to a header is taken from it by [`decide_post`] and [`decide_get`].

use std::fmt;
use std::str::FromStr;

use lyceum_wire::Revision;

mod decide;
#[cfg(test)]
mod tests;

pub use decide::{Decision, GetAnswer, Verdict, decide_get, decide_post};

/// The manners of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// What the specification says, read in the client's favour.
    #[default]
    Standard,
    /// What clients of agent-data endpoints know.
    AgentData,
    /// What clients of the Knox MCP proxy know.
    Knox,
    /// What clients of turul servers know.
    Turul,
    /// What the official SDKs' servers demand.
    Strict,
}

/// One column of the dialect table. Except for `absent` to `not_acceptable_code`, the rows describe
/// legacy requests; modern ones follow the 2026-07-28 rules in every dialect.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// `Accept` is absent or holds no media range.
    pub absent: Choice,
    /// `*/*` speaks for both types.
    pub wildcard: Choice,
    /// What `application/*`, `text/*` and `*/*` count as, alone or beside other ranges.
    pub ranges: Ranges,
    /// JSON is accepted, SSE is not.
    pub json_only: Choice,
    /// SSE is accepted, JSON is not.
    pub sse_only: Choice,
    /// Both are accepted, SSE with the higher quality.
    pub sse_higher: Choice,
    /// Both are accepted, JSON with the higher quality.
    pub json_higher: Choice,
    /// Both are accepted with the same quality.
    pub both_equal: Choice,
    /// Neither is accepted.
    pub other_types: Choice,
    /// What "server's choice" comes to.
    pub servers_choice: ServersChoice,
    /// The JSON-RPC code that goes with status 406.
    pub not_acceptable_code: i32,
    /// A POST whose `Content-Type` is wrong or missing.
    pub content_type: ContentTypeRule,
    /// The status of an accepted notification; see [`Policy::notification_status`].
    pub notification: NotificationStatus,
    /// Whether `initialize` gets a session id.
    pub mints_session: bool,
    /// Whether a session id the client brings along is kept and sent back, whatever it is.
    pub echoes_session: bool,
    /// Whether other requests need a session id; if not, they are served statelessly without one.
    pub sessions_required: bool,
    /// A tool that does not exist or may not be used.
    pub unknown_tool: UnknownTool,
    /// The status of an answer to a body that is not JSON.
    pub parse_error_status: u16,
    /// The status of an answer to a body that is JSON but not JSON-RPC.
    pub invalid_request_status: u16,
    /// The revision of a client that asks for none in `initialize`; without it, it is refused.
    pub assumed_revision: Option<Revision>,
    /// Whether errors that are the server's say in `data`, as text, what happened.
    pub explains_errors: bool,
    /// A GET that accepts SSE.
    pub get_sse: GetSse,
    /// A GET that does not accept SSE.
    pub get_other: GetOther,
    /// A GET that likes `text/html` best.
    pub get_html: GetHtml,
}

/// One cell of the rows about `Accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A JSON body.
    Json,
    /// An event stream.
    Sse,
    /// Either will do; see [`ServersChoice`].
    Servers,
    /// Whichever stands first in the header.
    FirstListed,
    /// Status 406.
    NotAcceptable,
}

/// Which media ranges count for a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// A range counts as every type it covers.
    Count,
    /// Only types named in full count.
    Ignored,
    /// Only types named in full count, and `*/*`, as JSON.
    AnyIsJson,
}

/// How a dialect chooses when the client takes either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServersChoice {
    /// JSON, until something has to be sent before the result.
    LazyUpgrade,
    /// SSE for `tools/call`, JSON for every other method.
    StreamToolCalls,
}

/// What happens to a POST without `Content-Type: application/json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentTypeRule {
    /// Status 415.
    Required415,
    /// Status 400.
    Required400,
    /// The body is read all the same.
    AnyIfParses,
}

/// The status of accepted notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotificationStatus {
    /// For the method `initialized`, a name older clients use for `notifications/initialized`.
    pub initialized: u16,
    /// For every other method.
    pub other: u16,
}

/// The error for a tool that does not exist or may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownTool {
    /// -32602.
    InvalidParams,
    /// -32601.
    MethodNotFound,
    /// -32603.
    Internal,
}

/// What a GET that accepts SSE gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetSse {
    /// The session's stream.
    Stream,
    /// The info document if it accepts JSON too, else status 405.
    InfoOrNotAllowed,
    /// A stream or the info document, by the rule for POST.
    AsPost,
}

/// What a GET that does not accept SSE gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetOther {
    /// The info document.
    Info,
    /// Status 406.
    NotAcceptable,
}

/// What a GET that likes `text/html` best gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetHtml {
    /// A short page saying what this is and how to connect.
    Page,
    /// Status 406.
    NotAcceptable,
}

const STANDARD: Policy = Policy {
    absent: Choice::Json,
    wildcard: Choice::Servers,
    ranges: Ranges::Count,
    json_only: Choice::Json,
    sse_only: Choice::Sse,
    sse_higher: Choice::Sse,
    json_higher: Choice::Json,
    both_equal: Choice::Servers,
    other_types: Choice::NotAcceptable,
    servers_choice: ServersChoice::LazyUpgrade,
    not_acceptable_code: -32600,
    content_type: ContentTypeRule::Required415,
    notification: NotificationStatus { initialized: 202, other: 202 },
    mints_session: true,
    echoes_session: false,
    sessions_required: false,
    unknown_tool: UnknownTool::InvalidParams,
    parse_error_status: 400,
    invalid_request_status: 400,
    assumed_revision: None,
    explains_errors: false,
    get_sse: GetSse::Stream,
    get_other: GetOther::Info,
    get_html: GetHtml::Page,
};

const AGENT_DATA: Policy = Policy {
    absent: Choice::Json,
    wildcard: Choice::Json,
    ranges: Ranges::Count,
    json_only: Choice::Json,
    sse_only: Choice::Sse,
    sse_higher: Choice::Sse,
    json_higher: Choice::Json,
    both_equal: Choice::Json,
    other_types: Choice::NotAcceptable,
    servers_choice: ServersChoice::LazyUpgrade,
    not_acceptable_code: -32700,
    content_type: ContentTypeRule::AnyIfParses,
    notification: NotificationStatus { initialized: 204, other: 204 },
    mints_session: false,
    echoes_session: false,
    sessions_required: false,
    unknown_tool: UnknownTool::MethodNotFound,
    parse_error_status: 200,
    invalid_request_status: 400,
    assumed_revision: None,
    explains_errors: false,
    get_sse: GetSse::InfoOrNotAllowed,
    get_other: GetOther::Info,
    get_html: GetHtml::Page,
};

const KNOX: Policy = Policy {
    absent: Choice::Json,
    wildcard: Choice::Json,
    ranges: Ranges::Ignored,
    json_only: Choice::Json,
    sse_only: Choice::Sse,
    sse_higher: Choice::Sse,
    json_higher: Choice::Json,
    both_equal: Choice::FirstListed,
    other_types: Choice::Json,
    servers_choice: ServersChoice::LazyUpgrade,
    not_acceptable_code: -32600,
    content_type: ContentTypeRule::AnyIfParses,
    notification: NotificationStatus { initialized: 204, other: 202 },
    mints_session: true,
    echoes_session: true,
    sessions_required: false,
    unknown_tool: UnknownTool::Internal,
    parse_error_status: 200,
    invalid_request_status: 200,
    assumed_revision: Some(Revision::V2024_11_05),
    explains_errors: true,
    get_sse: GetSse::AsPost,
    get_other: GetOther::Info,
    get_html: GetHtml::Page,
};

const TURUL: Policy = Policy {
    absent: Choice::Json,
    wildcard: Choice::Json,
    ranges: Ranges::AnyIsJson,
    json_only: Choice::Json,
    sse_only: Choice::Sse,
    sse_higher: Choice::Servers,
    json_higher: Choice::Servers,
    both_equal: Choice::Servers,
    other_types: Choice::Json,
    servers_choice: ServersChoice::StreamToolCalls,
    not_acceptable_code: -32600,
    content_type: ContentTypeRule::Required415,
    notification: NotificationStatus { initialized: 202, other: 202 },
    mints_session: true,
    echoes_session: false,
    sessions_required: true,
    unknown_tool: UnknownTool::InvalidParams,
    parse_error_status: 400,
    invalid_request_status: 400,
    assumed_revision: None,
    explains_errors: false,
    get_sse: GetSse::Stream,
    get_other: GetOther::NotAcceptable,
    get_html: GetHtml::NotAcceptable,
};

const STRICT: Policy = Policy {
    absent: Choice::NotAcceptable,
    wildcard: Choice::Servers,
    ranges: Ranges::Count,
    json_only: Choice::NotAcceptable,
    sse_only: Choice::NotAcceptable,
    sse_higher: Choice::Servers,
    json_higher: Choice::Servers,
    both_equal: Choice::Servers,
    other_types: Choice::NotAcceptable,
    servers_choice: ServersChoice::LazyUpgrade,
    not_acceptable_code: -32600,
    content_type: ContentTypeRule::Required400,
    notification: NotificationStatus { initialized: 202, other: 202 },
    mints_session: true,
    echoes_session: false,
    sessions_required: true,
    unknown_tool: UnknownTool::InvalidParams,
    parse_error_status: 400,
    invalid_request_status: 400,
    assumed_revision: None,
    explains_errors: false,
    get_sse: GetSse::Stream,
    get_other: GetOther::NotAcceptable,
    get_html: GetHtml::NotAcceptable,
};

impl Dialect {
    /// Every dialect, in the order documents list them.
    pub const ALL: [Dialect; 5] =
        [Dialect::Standard, Dialect::AgentData, Dialect::Knox, Dialect::Turul, Dialect::Strict];

    /// The name of the dialect in configuration, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Dialect::Standard => "standard",
            Dialect::AgentData => "agent-data",
            Dialect::Knox => "knox",
            Dialect::Turul => "turul",
            Dialect::Strict => "strict",
        }
    }

    /// What the dialect says.
    pub const fn policy(self) -> &'static Policy {
        match self {
            Dialect::Standard => &STANDARD,
            Dialect::AgentData => &AGENT_DATA,
            Dialect::Knox => &KNOX,
            Dialect::Turul => &TURUL,
            Dialect::Strict => &STRICT,
        }
    }
}

impl Policy {
    /// The status of an accepted notification of this method.
    pub fn notification_status(&self, method: &str) -> u16 {
        if method == "initialized" {
            self.notification.initialized
        } else {
            self.notification.other
        }
    }
}

impl UnknownTool {
    /// The JSON-RPC error code.
    pub const fn code(self) -> i32 {
        match self {
            UnknownTool::InvalidParams => -32602,
            UnknownTool::MethodNotFound => -32601,
            UnknownTool::Internal => -32603,
        }
    }
}

/// A name that is not one of [`Dialect::ALL`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown dialect {0:?}; write one of standard, agent-data, knox, turul, strict")]
pub struct UnknownDialect(String);

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == name);
        dialect.ok_or_else(|| UnknownDialect(name.to_owned()))
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
