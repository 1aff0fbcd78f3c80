//! Answers `tools/call`: the hot path.
//!
//! A small call costs the box of the function's future, whatever the function allocates, and the
//! buffer of the result.

use lyceum_http::{Context, Outcome};
use lyceum_wire::{Member, Request, Revision, RpcError};

use crate::call::Call;
use crate::error::{Fault, ToolError};
use crate::server::Server;
use crate::since;
use crate::tool::InvalidArguments;
use crate::tool_result::ToolResult;

/// Answers `tools/call`.
pub(crate) async fn call(
    server: &Server,
    request: Request,
    cx: Context,
) -> Result<Outcome, RpcError> {
    let name = request.params.text(Member::Name);
    let name = name.ok_or_else(|| RpcError::invalid_params("name must say which tool"))?;
    let tool = server.0.tools.load().get(&name).cloned();
    // Transports look for these words: some dialects report an unknown tool with another code.
    let tool = tool.ok_or_else(|| RpcError::invalid_params(format!("Unknown tool: {name}")))?;
    drop(name);
    let revision = cx.revision;
    let call = Call::new(server.clone(), request, cx)?;
    let ending = match tool.start(call) {
        Ok(running) => running.await,
        Err(invalid) => Err(refusal(invalid, tool.name(), revision)),
    };
    settle(server, ending, revision)
}

/// What the client gets for how the function ended.
fn settle(
    server: &Server,
    ending: Result<ToolResult, ToolError>,
    revision: Revision,
) -> Result<Outcome, RpcError> {
    let identity = &server.0.identity;
    let result = match ending {
        Ok(result) => result.encode(revision, identity),
        Err(error) => match error.fault(revision.era()) {
            Fault::Told(result) => result.encode(revision, identity),
            Fault::Interrupted(interruption) => interruption.encode(identity),
            Fault::Rpc(error) => return Err(error),
        },
    };
    Ok(Outcome::json(result))
}

/// Arguments that do not fit: since 2025-11-25 the model is told, so that it can correct them.
fn refusal(invalid: InvalidArguments, tool: &str, revision: Revision) -> ToolError {
    let message = format!("Invalid arguments for {tool}: {}", invalid.0);
    if revision >= since::ARGUMENT_ERRORS_AS_RESULTS {
        return ToolError::new(message);
    }
    ToolError::rpc(RpcError::invalid_params(message))
}
