//! Calls nothing here answers: the tool, resource or prompt is not there, or the arguments do not fit.
//!
//! By default a caller gets what the protocol says. A server with rules of its own (error shapes
//! its clients know, an audit trail) gives the builder a function that decides instead.

use std::future::Future;
use std::pin::Pin;

use lyceum_wire::{Revision, RpcError, excerpt};

use crate::call::Call;
use crate::error::ToolError;
use crate::since;
use crate::tool::{InvalidArguments, Running};

/// Why a call was refused before anything of the server's ran.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// There is no such tool here.
    UnknownTool {
        /// The name that was called.
        name: String,
    },
    /// The arguments do not fit the tool.
    InvalidArguments {
        /// The tool that was called.
        tool: String,
        /// What does not fit.
        problem: String,
    },
    /// There is no such resource here.
    UnknownResource {
        /// The URI that was to be read.
        uri: String,
    },
    /// There is no such prompt here.
    UnknownPrompt {
        /// The name that was asked for.
        name: String,
    },
}

/// Decides how a refused call ends.
pub(crate) struct Refuse(Box<Function>);

type Function =
    dyn Fn(Call, Refused) -> Pin<Box<dyn Future<Output = ToolError> + Send>> + Send + Sync;

impl Refuse {
    pub(crate) fn new<F, Fut>(refuse: F) -> Self
    where
        F: Fn(Call, Refused) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolError> + Send + 'static,
    {
        Self(Box::new(move |call, refused| Box::pin(refuse(call, refused))))
    }

    fn run(&self, call: Call, refused: Refused) -> Running {
        let deciding = self.0(call, refused);
        Box::pin(async move { Err(deciding.await) })
    }
}

impl std::fmt::Debug for Refuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Refuse")
    }
}

/// How a call of a tool that is not there ends.
pub(crate) fn unknown_tool(call: Call, name: String) -> Running {
    let name = excerpt(&name).into_owned();
    let server = call.server.clone();
    if let Some(refuse) = &server.0.refuse {
        return refuse.run(call, Refused::UnknownTool { name });
    }
    // Transports look for these words: some dialects report an unknown tool with another code.
    settled(ToolError::rpc(RpcError::invalid_params(format!("Unknown tool: {name}"))))
}

/// How a call with arguments that do not fit ends: since 2025-11-25 the model is told, so that it
/// can correct them.
pub(crate) fn invalid_arguments(
    invalid: InvalidArguments,
    tool: &str,
    revision: Revision,
) -> Running {
    let InvalidArguments { call, problem } = invalid;
    let server = call.server.clone();
    if let Some(refuse) = &server.0.refuse {
        return refuse.run(*call, Refused::InvalidArguments { tool: tool.to_owned(), problem });
    }
    let message = format!("Invalid arguments for {tool}: {problem}");
    settled(if revision >= since::ARGUMENT_ERRORS_AS_RESULTS {
        ToolError::new(message)
    } else {
        ToolError::rpc(RpcError::invalid_params(message))
    })
}

/// How a read of a resource that is not there ends.
pub(crate) async fn unknown_resource(call: Call, uri: String) -> ToolError {
    let server = call.server.clone();
    match &server.0.refuse {
        Some(refuse) => refuse.0(call, Refused::UnknownResource { uri }).await,
        None => ToolError::resource_not_found(uri),
    }
}

/// How a request for a prompt that is not there ends.
pub(crate) async fn unknown_prompt(call: Call, name: String) -> ToolError {
    let server = call.server.clone();
    match &server.0.refuse {
        Some(refuse) => refuse.0(call, Refused::UnknownPrompt { name }).await,
        None => {
            ToolError::rpc(RpcError::invalid_params(format!("Unknown prompt: {}", excerpt(&name))))
        }
    }
}

fn settled(error: ToolError) -> Running {
    Box::pin(std::future::ready(Err(error)))
}
