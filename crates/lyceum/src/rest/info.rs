//! `/info`: what this server offers, so that clients notice when it changes.

use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::maintenance::Nothing;
use super::problem::Problem;
use super::visit::Visit;

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

pub(super) async fn info(visit: Visit, _: Nothing) -> Result<(StatusCode, Info), Problem> {
    Ok((StatusCode::OK, visit.desk.info.clone()))
}
