//! `initialize`: what the client says about itself, and what it makes of the answer.

use bytes::Bytes;
use lyceum_wire::{Object, Revision, RevisionSet, Writer, encode};

use crate::client::core::Core;
use crate::client::error::ClientError;

pub(crate) const METHOD: &str = "initialize";

/// The params of `initialize`: the newest legacy revision, for the server to take or to lower.
pub(crate) fn params(core: &Core) -> Result<Bytes, ClientError> {
    let newest = core.versions.newest_legacy().ok_or_else(|| {
        ClientError::Setup("the server wants a handshake, but no legacy version is enabled".into())
    })?;
    let mut params = Writer::new();
    params.text("protocolVersion", newest.as_str());
    params.raw("capabilities", &core.capabilities);
    params.raw("clientInfo", &core.info);
    Ok(params.finish())
}

/// The revision the server chose, if it is one of ours.
pub(crate) fn accept(core: &Core, result: &Bytes) -> Result<Revision, ClientError> {
    let chosen = Object::parse(result).ok().and_then(|result| result.text("protocolVersion"));
    let chosen = chosen.ok_or_else(|| {
        ClientError::protocol("its answer to initialize names no protocol version")
    })?;
    let ours = core.versions.intersection(RevisionSet::LEGACY);
    Revision::parse(&chosen)
        .filter(|revision| ours.contains(*revision))
        .ok_or(ClientError::NoCommonVersion { offered: chosen })
}

/// What ends the handshake.
pub(crate) fn initialized() -> Bytes {
    encode::notification("notifications/initialized", None)
}
