//! Finding out how a server wants to be spoken to.
//!
//! The ladder: `server/discover` (2026-07-28), then `initialize` over Streamable HTTP, then the
//! stream of HTTP+SSE. Each step down needs a sign that the server is older; a server that is
//! merely unwell, or wants credentials, is reported as it is. Over lines there are only the first two
//! steps.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use lyceum_wire::{Era, ErrorCode, Revision, RevisionSet};

use super::error::ClientError;
use super::legacy::{Legacy, NoSession, Places};
use super::life::End;
use super::line::Connection;
use super::modern::{DISCOVER, Modern, Way, supported_in, versions_in};
use super::options::CallOptions;
use super::params::CallParams;
use super::peer::Wire;
use super::remote::Remote;

/// Which transports a client tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// Streamable HTTP, then HTTP+SSE if the server turns out to be that old.
    #[default]
    Auto,
    /// Streamable HTTP only.
    Streamable,
    /// HTTP+SSE only: the URL is that of the stream.
    HttpSse,
    /// HTTP+SSE without an `endpoint` event: below the URL, the stream is at `sse`, and messages are
    /// posted to `message`.
    CustomSse,
}

/// What an answer to `server/discover` says about the server.
#[derive(Debug)]
enum Verdict<M> {
    /// It is modern, and this is how to speak to it.
    Modern(M),
    /// It expects a handshake.
    Legacy,
    /// There is no way to talk to it.
    Hopeless(ClientError),
}

pub(crate) async fn connect(
    remote: &Arc<Remote>,
    transport: Transport,
) -> Result<Wire, ClientError> {
    let places = match transport {
        Transport::HttpSse => Some(Places::Named),
        Transport::CustomSse => Some(Places::Fixed),
        Transport::Auto | Transport::Streamable => None,
    };
    if let Some(places) = places {
        return Ok(Wire::Legacy(Legacy::http_sse(remote, places).await?));
    }
    match probe(&Way::Http(Arc::clone(remote)), remote.core.versions).await {
        Verdict::Modern(modern) => return Ok(Wire::Modern(modern)),
        Verdict::Legacy => {}
        Verdict::Hopeless(error) => return Err(error),
    }
    match Legacy::streamable(remote).await {
        Ok(legacy) => Ok(Wire::Legacy(legacy)),
        Err(refused) if transport == Transport::Auto && may_be_older(&refused) => {
            // If there is no such stream either, the first refusal says more.
            Ok(Wire::Legacy(Legacy::http_sse(remote, Places::Named).await.map_err(|_| refused)?))
        }
        Err(reason) => Err(reason.into()),
    }
}

pub(crate) async fn connect_over(connection: Arc<Connection>) -> Result<Wire, ClientError> {
    let core = Arc::clone(&connection.line.core);
    let verdict = probe(&Way::Line(Arc::clone(&connection)), core.versions).await;
    let probed = !core.versions.intersection(RevisionSet::MODERN).is_empty();
    let hung_up = connection.line.life.why() == Some(End::HungUp);
    if probed && hung_up && core.versions.serves(Era::Legacy) {
        return Err(ClientError::EndedByProbe);
    }
    let line = Arc::clone(&connection.line);
    let wire = match verdict {
        Verdict::Modern(modern) => Wire::Modern(modern),
        Verdict::Legacy => Wire::Legacy(Legacy::stdio(&core, connection).await?),
        Verdict::Hopeless(error) => return Err(error),
    };
    line.greeted();
    Ok(wire)
}

/// Asks a server what it is, if there is a modern version to speak. A version it does not serve is
/// renegotiated on the way.
async fn probe(way: &Way, ours: RevisionSet) -> Verdict<Modern> {
    let Some(newest) = ours.intersection(RevisionSet::MODERN).iter().next() else {
        return Verdict::Legacy;
    };
    let probe = Modern::new(way.clone(), newest, Bytes::new());
    let options = CallOptions::new().silence(probe.core().limits.probe);
    let answer = probe.call(DISCOVER, &CallParams::default(), &options).await;
    let greeting = answer.as_ref().ok().cloned().unwrap_or_default();
    match judge(answer, ours) {
        Verdict::Modern(revision) => Verdict::Modern(Modern::new(way.clone(), revision, greeting)),
        Verdict::Legacy => Verdict::Legacy,
        Verdict::Hopeless(error) => Verdict::Hopeless(error),
    }
}

fn judge(answer: Result<Bytes, ClientError>, ours: RevisionSet) -> Verdict<Revision> {
    let offered = match &answer {
        Ok(result) => versions_in(result, "supportedVersions"),
        Err(ClientError::Rpc(error)) if error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => {
            supported_in(error)
        }
        Err(_) => None,
    };
    if let Some((offered, text)) = offered {
        let common = ours.intersection(offered);
        return match common.intersection(RevisionSet::MODERN).iter().next() {
            Some(revision) if answer.is_ok() => Verdict::Modern(revision),
            _ if common.serves(Era::Legacy) => Verdict::Legacy,
            _ => Verdict::Hopeless(ClientError::NoCommonVersion { offered: text }),
        };
    }
    match answer {
        Err(error) if !is_sign_of_age(&error) || !ours.serves(Era::Legacy) => {
            Verdict::Hopeless(error)
        }
        Ok(_) if !ours.serves(Era::Legacy) => Verdict::Hopeless(ClientError::protocol(
            "its answer to server/discover names no versions",
        )),
        _ => Verdict::Legacy,
    }
}

/// Whether a failed `server/discover` may come from a server that has never heard of it.
fn is_sign_of_age(error: &ClientError) -> bool {
    match error {
        ClientError::Rpc(error) => !matches!(
            error.code,
            ErrorCode::HEADER_MISMATCH
                | ErrorCode::MISSING_CLIENT_CAPABILITY
                | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
        ),
        ClientError::Status(refused) => {
            let status = refused.status;
            let unwell = matches!(
                status,
                StatusCode::UNAUTHORIZED
                    | StatusCode::FORBIDDEN
                    | StatusCode::PROXY_AUTHENTICATION_REQUIRED
                    | StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            );
            !unwell && !status.is_redirection()
        }
        ClientError::Silent(_) | ClientError::Protocol(_) | ClientError::Interrupted => true,
        _ => false,
    }
}

/// Whether a refused `initialize` may come from a server that only knows HTTP+SSE.
fn may_be_older(reason: &NoSession) -> bool {
    let NoSession::Refused(refused) = reason else { return false };
    let status = refused.status.status;
    let old = [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED];
    let modern = refused.error.as_ref().is_some_and(|error| {
        let unknown_method =
            status == StatusCode::NOT_FOUND && error.code == ErrorCode::METHOD_NOT_FOUND;
        unknown_method || !is_sign_of_age(&ClientError::Rpc(error.clone()))
    });
    old.contains(&status) && !modern
}

#[cfg(test)]
mod tests;
