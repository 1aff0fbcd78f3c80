//! Methods only legacy revisions have: the handshake, ping, log levels, subscriptions.
//!
//! Nothing outside this folder depends on it but `dispatch`.

mod initialize;
mod tasks;

use lyceum_http::{Context, MAX_SUBSCRIPTION_BYTES, MAX_SUBSCRIPTIONS, Outcome, Session};
use lyceum_wire::{LogLevel, Member, Request, RpcError};

use crate::resource_read::{exists, uri};
use crate::server::Server;
use crate::since;

pub(crate) use tasks::created as task_created;

/// Answers what no method common to both eras answered.
pub(crate) async fn call(
    server: &Server,
    request: &Request,
    cx: &Context,
) -> Result<Outcome, RpcError> {
    match request.method.as_str() {
        "initialize" => Ok(initialize::initialize(server, cx)),
        "ping" => Ok(empty()),
        "logging/setLevel" => set_level(request, cx),
        "resources/subscribe" if server.offer().resources => subscribe(server, request, cx),
        "resources/unsubscribe" if server.offer().resources => unsubscribe(request, cx),
        method if method.starts_with("tasks/") && has_tasks(server, cx) => {
            tasks::call(server, request, cx).await
        }
        method => Err(RpcError::method_not_found(method)),
    }
}

fn has_tasks(server: &Server, cx: &Context) -> bool {
    cx.revision == since::CORE_TASKS && server.offer().core_tasks
}

fn set_level(request: &Request, cx: &Context) -> Result<Outcome, RpcError> {
    let level = request.params.text(Member::Level);
    let level = level.as_deref().and_then(LogLevel::parse).ok_or_else(|| {
        let names: Vec<_> = LogLevel::ALL.iter().map(|level| level.as_str()).collect();
        RpcError::invalid_params(format!("level must be one of {}", names.join(", ")))
    })?;
    // Without a session there is nowhere to keep the level, and refusing would only break clients.
    if let Some(session) = &cx.session {
        session.set_log_level(level);
    }
    Ok(empty())
}

fn subscribe(server: &Server, request: &Request, cx: &Context) -> Result<Outcome, RpcError> {
    let uri = uri(request)?;
    if !exists(server, &uri) {
        return Err(RpcError::resource_not_found(&uri, cx.era()));
    }
    if !session(cx)?.subscribe(&uri) {
        return Err(RpcError::internal(format!(
            "too many subscriptions (a session may hold {MAX_SUBSCRIPTIONS}, and {} KiB of URIs); \
             unsubscribe from some first",
            MAX_SUBSCRIPTION_BYTES >> 10
        )));
    }
    Ok(empty())
}

fn unsubscribe(request: &Request, cx: &Context) -> Result<Outcome, RpcError> {
    session(cx)?.unsubscribe(&uri(request)?);
    Ok(empty())
}

fn session(cx: &Context) -> Result<&Session, RpcError> {
    let missing = || RpcError::invalid_request("this needs a session; send initialize first");
    cx.session.as_deref().ok_or_else(missing)
}

/// Exactly `{}`: some clients refuse anything more.
fn empty() -> Outcome {
    Outcome::json(bytes::Bytes::from_static(b"{}"))
}
