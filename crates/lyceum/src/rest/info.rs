//! `/info`: what this server offers, so that clients notice when it changes.

use http::StatusCode;
use lyceum_server::Server;
use schemars::JsonSchema;
use serde::Serialize;

use super::maintenance::Nothing;
use super::problem::Problem;
use super::visit::{Desk, Visit};
use crate::knowledge;

/// What this server offers.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Info {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// Raised when tools change in a way that could surprise a client.
    pub(crate) schema_version: &'static str,
    /// Changes when any tool comes, goes or changes.
    pub(crate) schema_hash: String,
    /// The names of all tools.
    pub(crate) tools: Vec<String>,
    /// The MCP endpoints.
    pub(crate) profiles: Vec<Profile>,
}

/// An MCP endpoint.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Profile {
    pub(crate) name: String,
    pub(crate) path: String,
    /// How it reads the `Accept` header and its kin.
    pub(crate) dialect: &'static str,
    pub(crate) tools: Vec<String>,
    pub(crate) schema_hash: String,
}

/// Where to look for what an endpoint offers, which may change.
#[derive(Debug)]
pub(crate) struct Profiled {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) dialect: &'static str,
    pub(crate) server: Server,
}

impl Profiled {
    fn profile(&self) -> Profile {
        Profile {
            name: self.name.clone(),
            path: self.path.clone(),
            dialect: self.dialect,
            tools: self.server.own_tools(),
            schema_hash: self.server.schema_hash(),
        }
    }
}

pub(super) async fn info(visit: Visit, _: Nothing) -> Result<(StatusCode, Info), Problem> {
    let Desk { whole, profiles, .. } = &*visit.desk;
    let info = Info {
        name: "lyceum",
        version: env!("CARGO_PKG_VERSION"),
        schema_version: knowledge::SCHEMA_VERSION,
        schema_hash: whole.schema_hash(),
        tools: whole.own_tools(),
        profiles: profiles.iter().map(Profiled::profile).collect(),
    };
    Ok((StatusCode::OK, info))
}
