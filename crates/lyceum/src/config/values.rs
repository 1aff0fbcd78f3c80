//! The values settings are made of: each is read from text, and says what it wanted when it cannot.

use std::borrow::Cow;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use lyceum_gateway::glob::Rule;
use lyceum_gateway::oauth::Grant;
use lyceum_gateway::{EraChoice, Share};
use lyceum_http::dialect::Dialect;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listen(pub(crate) SocketAddr);

/// A dialect, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DialectName(pub(crate) Dialect);

/// A ready-made configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preset {
    /// What the official SDKs' servers demand.
    Strict,
    /// What clients of agent-data know.
    AgentData,
    /// What clients of Knox know.
    Knox,
}

/// Where knowledge is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// A file in the data directory.
    Sqlite,
}

/// What turns texts into vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EmbeddingKind {
    /// The model that is compiled in.
    Static,
    /// A service that speaks OpenAI's protocol.
    OpenAi,
}

/// A tool's name with `*` for any run of characters and `?` for any one; a leading `!` denies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolRule(pub(crate) Rule);

/// Which revisions an upstream is spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EraName(pub(crate) EraChoice);

/// In whose name tokens are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GrantName(pub(crate) Grant);

/// Who shares a connection to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShareName(pub(crate) Share);

impl Preset {
    /// The dialect of endpoints that name none.
    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::Strict => Dialect::Strict,
            Self::AgentData => Dialect::AgentData,
            Self::Knox => Dialect::Knox,
        }
    }

    /// What the indexer skips unless the operator says otherwise.
    pub(crate) fn skip_prefixes(self) -> &'static [&'static str] {
        match self {
            Self::AgentData => &["operations/tasks/comments/", "registries/"],
            Self::Strict | Self::Knox => &[],
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(Ok(port)) = text.strip_prefix("localhost:").map(str::parse) {
            return Ok(Self((Ipv4Addr::LOCALHOST, port).into()));
        }
        text.parse().map(Self).map_err(|_| {
            format!(
                "{text:?} is not an address; write IP:PORT, such as 127.0.0.1:8808 or [::1]:8808"
            )
        })
    }
}

impl FromStr for DialectName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse()
            .map(Self)
            .map_err(|error: lyceum_http::dialect::UnknownDialect| error.to_string())
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "strict" => Ok(Self::Strict),
            "agent-data" => Ok(Self::AgentData),
            "knox" => Ok(Self::Knox),
            _ => Err(format!("unknown preset {text:?}; write one of strict, agent-data, knox")),
        }
    }
}

impl FromStr for StoreKind {
    type Err = String;

    /// What was written is not repeated: the address of a database may hold a password.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sqlite" => Ok(Self::Sqlite),
            _ => {
                Err("the only store so far is \"sqlite\", a file in the data directory".to_owned())
            }
        }
    }
}

impl FromStr for EmbeddingKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "static" => Ok(Self::Static),
            "openai" => Ok(Self::OpenAi),
            _ => Err(format!("unknown embeddings {text:?}; write one of static, openai")),
        }
    }
}

impl FromStr for EraName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "auto" => EraChoice::Auto,
            "legacy" => EraChoice::Legacy,
            "modern" => EraChoice::Modern,
            _ => return Err(format!("unknown era {text:?}; write one of auto, legacy, modern")),
        }))
    }
}

impl FromStr for GrantName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "authorization-code" => Grant::AuthorizationCode,
            "client-credentials" => Grant::ClientCredentials,
            _ => {
                return Err(format!(
                    "unknown grant {text:?}; write authorization-code or client-credentials"
                ));
            }
        }))
    }
}

impl FromStr for ShareName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "shared" => Share::Shared,
            "per-session" => Share::PerSession,
            _ => return Err(format!("unknown share {text:?}; write shared or per-session")),
        }))
    }
}

impl FromStr for ToolRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

/// Reads each type from a TOML string by its `FromStr`, and describes it as a string.
macro_rules! from_text {
    ($($type:ty),*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string" })
            }
        }
    )*};
}
from_text!(
    Listen,
    DialectName,
    Preset,
    StoreKind,
    EmbeddingKind,
    ToolRule,
    EraName,
    GrantName,
    ShareName
);
