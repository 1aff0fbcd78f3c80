//! The checks every modern request passes before its method is looked up.
//!
//! The order is part of the contract: a client learns first that its metadata is missing, then that
//! it contradicts itself, then that its version is not served, then that its routing headers are off.

use crate::capabilities::ClientCapabilities;
use crate::classify::{Field, Refusal, RoutingHeaders};
use crate::error::RpcError;
use crate::level::LogLevel;
use crate::message::{Notification, Request};
use crate::mirror::{decode_bytes, mirrored_member, trim};
use crate::params::{Member, Params};
use crate::revision::{Era, Revision, RevisionSet};
use crate::text::{Text, token_is, token_text};

/// What a modern request says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModernRequest {
    /// The revision it is written in.
    pub revision: Revision,
    /// What its client can do.
    pub capabilities: ClientCapabilities,
    /// The least level of log messages it wants; None means none at all.
    pub log_level: Option<LogLevel>,
}

/// Runs the modern checks on a request that [`classify`](crate::classify) called modern.
///
/// Left to the server, which alone knows: whether the method exists (404, -32601), and the
/// `Mcp-Param-*` headers of the tool called ([`ParamHeaders::check`](crate::ParamHeaders::check)).
pub fn check_modern(
    request: &Request,
    headers: &RoutingHeaders<'_>,
    served: RevisionSet,
) -> Result<ModernRequest, Refusal> {
    check(request, headers, served)
        .map_err(|error| Refusal::bad_request(error, Some(request.id.clone())))
}

/// Runs the modern checks on a transport without headers, such as stdio: the metadata alone counts.
pub fn check_modern_meta(request: &Request, served: RevisionSet) -> Result<ModernRequest, Refusal> {
    let checked = meta_version(&request.params, served)
        .map(|version| token_text(version).unwrap_or_default())
        .and_then(|version| served_revision(version.as_bytes(), served))
        .and_then(|revision| described(&request.params, revision));
    checked.map_err(|error| Refusal::bad_request(error, Some(request.id.clone())))
}

/// Checks a modern notification: only its version. It is then accepted and dropped.
pub fn check_modern_notification(
    notification: &Notification,
    headers: &RoutingHeaders<'_>,
    served: RevisionSet,
) -> Result<(), Refusal> {
    let refuse = |error| Refusal::bad_request(error, None);
    let header = version_header(headers).map_err(refuse)?;
    if let Some(version) = notification.params.get(Member::MetaProtocolVersion) {
        check_same_version(header, version).map_err(refuse)?;
    }
    served_revision(header, served).map_err(refuse)?;
    Ok(())
}

/// Whether a legacy method or notification no longer exists in the modern era.
pub fn removed_in_modern(method: &str) -> bool {
    matches!(
        method,
        "initialize"
            | "ping"
            | "logging/setLevel"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "tasks/result"
            | "tasks/list"
            | "notifications/initialized"
            | "notifications/roots/list_changed"
            | "notifications/elicitation/complete"
    )
}

fn check(
    request: &Request,
    headers: &RoutingHeaders<'_>,
    served: RevisionSet,
) -> Result<ModernRequest, RpcError> {
    let params = &request.params;
    let in_meta = meta_version(params, served)?;
    let version = version_header(headers)?;
    check_same_version(version, in_meta)?;
    let revision = served_revision(version, served)?;
    check_method_header(&request.method, headers)?;
    check_name_header(&request.method, params, headers)?;
    described(params, revision)
}

fn described(params: &Params, revision: Revision) -> Result<ModernRequest, RpcError> {
    Ok(ModernRequest {
        revision,
        capabilities: capabilities(params)?,
        log_level: log_level(params)?,
    })
}

/// The token of the version in `_meta`, which is a string.
fn meta_version(params: &Params, served: RevisionSet) -> Result<&[u8], RpcError> {
    if !matches!(params.get(Member::Meta), Some([b'{', ..]) | None) {
        return Err(RpcError::invalid_params("params._meta must be an object"));
    }
    let Some(version) = params.get(Member::MetaProtocolVersion) else {
        return Err(missing_meta("protocolVersion", served));
    };
    if params.get(Member::MetaClientCapabilities).is_none() {
        return Err(missing_meta("clientCapabilities", served));
    }
    if version.first() != Some(&b'"') {
        return Err(RpcError::invalid_params("_meta protocolVersion must be a string"));
    }
    Ok(version)
}

// Names the versions served: for an old client this text may be all its user ever sees.
fn missing_meta(key: &str, served: RevisionSet) -> RpcError {
    let served: Vec<&str> = served.iter().map(Revision::as_str).collect();
    RpcError::invalid_params(format!(
        "params._meta[\"io.modelcontextprotocol/{key}\"] is missing; versions served: {}",
        served.join(", ")
    ))
}

fn version_header<'h>(headers: &RoutingHeaders<'h>) -> Result<&'h [u8], RpcError> {
    match headers.version {
        Field::Value(value) => Ok(trim(value)),
        Field::Absent => Err(RpcError::header_mismatch("MCP-Protocol-Version is missing")),
        Field::Repeated => Err(repeated("MCP-Protocol-Version")),
    }
}

fn check_same_version(header: &[u8], in_meta: &[u8]) -> Result<(), RpcError> {
    if token_is(in_meta, header) {
        return Ok(());
    }
    Err(RpcError::header_mismatch(
        "MCP-Protocol-Version disagrees with the version in params._meta",
    ))
}

fn served_revision(version: &[u8], served: RevisionSet) -> Result<Revision, RpcError> {
    match Revision::parse_bytes(version) {
        Some(revision) if revision.era() == Era::Modern && served.contains(revision) => {
            Ok(revision)
        }
        _ => Err(RpcError::unsupported_version(&String::from_utf8_lossy(version), served)),
    }
}

// Unlike names, methods are plain ASCII: they are compared as they are, without the base64 form.
fn check_method_header(method: &Text, headers: &RoutingHeaders<'_>) -> Result<(), RpcError> {
    match headers.method {
        Field::Value(value) if trim(value) == method.as_bytes() => Ok(()),
        Field::Value(_) => {
            Err(RpcError::header_mismatch("Mcp-Method disagrees with the method in the body"))
        }
        Field::Absent => Err(RpcError::header_mismatch("Mcp-Method is missing")),
        Field::Repeated => Err(repeated("Mcp-Method")),
    }
}

fn check_name_header(
    method: &Text,
    params: &Params,
    headers: &RoutingHeaders<'_>,
) -> Result<(), RpcError> {
    let header = match headers.name {
        Field::Repeated => return Err(repeated("Mcp-Name")),
        Field::Absent => None,
        Field::Value(value) => Some(value),
    };
    let Some(member) = mirrored_member(method.as_bytes()) else { return Ok(()) };
    let name = params.get(member).filter(|token| token.first() == Some(&b'"'));
    match (name, header) {
        // The body lacks what the header would repeat: the handler will say so better.
        (None, None) => Ok(()),
        (Some(_), None) => Err(RpcError::header_mismatch("Mcp-Name is missing")),
        (name, Some(value)) => {
            let value = decode_bytes(value)
                .map_err(|bad| RpcError::header_mismatch(format!("Mcp-Name: {bad}")))?;
            if name.is_some_and(|token| token_is(token, &value)) {
                return Ok(());
            }
            Err(RpcError::header_mismatch("Mcp-Name disagrees with the body"))
        }
    }
}

fn repeated(header: &str) -> RpcError {
    RpcError::header_mismatch(format!("{header} was sent more than once"))
}

fn capabilities(params: &Params) -> Result<ClientCapabilities, RpcError> {
    params
        .get(Member::MetaClientCapabilities)
        .and_then(ClientCapabilities::parse)
        .ok_or_else(|| RpcError::invalid_params("_meta clientCapabilities must be an object"))
}

fn log_level(params: &Params) -> Result<Option<LogLevel>, RpcError> {
    if params.get(Member::MetaLogLevel).is_none() {
        return Ok(None);
    }
    let level = params.text(Member::MetaLogLevel).and_then(|level| LogLevel::parse(&level));
    match level {
        Some(level) => Ok(Some(level)),
        None => Err(RpcError::invalid_params(
            "_meta logLevel must be one of debug, info, notice, warning, error, critical, alert, \
             emergency",
        )),
    }
}

#[cfg(test)]
mod tests;
