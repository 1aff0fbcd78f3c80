//! What can go wrong in a tool, prompt or resource, and how each case reaches the client.
//!
//! Server authors use [`ToolError`] everywhere; `?` turns any error into one. [`ToolError::fault`]
//! is the single place where such errors become protocol: a result a model can read, a JSON-RPC
//! error, or a question to the client. Code in this crate that knows it wants a JSON-RPC error uses
//! [`RpcError`] directly.

use std::any::Any;
use std::fmt;

use lyceum_wire::{ClientCapabilities, Era, RpcError};

use crate::rounds::Interruption;
use crate::tool_result::ToolResult;

/// Why a tool, prompt or resource has no ordinary result.
///
/// Any [`std::error::Error`] becomes a failure the model is told about; an [`RpcError`] stays one.
/// The type itself is deliberately no `std::error::Error`, because that is what allows `?`.
pub struct ToolError(Box<Kind>);

enum Kind {
    Told(ToolResult),
    Rpc(RpcError),
    MissingCapability(Capability),
    ResourceNotFound(String),
    Interrupted(Interruption),
}

/// Something a client may or may not be able to do for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability {
    /// Ask its model.
    Sampling,
    /// Show a form to its user.
    Elicitation,
    /// Send its user to a web page.
    UrlElicitation,
    /// List its roots.
    Roots,
    /// Follow a task.
    Tasks,
}

/// A [`ToolError`] in protocol terms.
pub(crate) enum Fault {
    /// The model reads it: a result with `isError`.
    Told(ToolResult),
    /// A JSON-RPC error.
    Rpc(RpcError),
    /// The client is asked first and calls again.
    Interrupted(Interruption),
}

impl ToolError {
    /// A failure in words for the model.
    pub fn new(message: impl Into<String>) -> Self {
        Self::from_result(ToolResult::text(message))
    }

    /// A failure with content of its own.
    pub fn from_result(result: ToolResult) -> Self {
        Self(Box::new(Kind::Told(result.failed())))
    }

    /// A JSON-RPC error, for failures that are not the model's business.
    pub fn rpc(error: RpcError) -> Self {
        Self(Box::new(Kind::Rpc(error)))
    }

    /// The client cannot do what is needed.
    pub fn missing_capability(capability: Capability) -> Self {
        Self(Box::new(Kind::MissingCapability(capability)))
    }

    /// There is no such resource, in the code the client's era knows.
    pub fn resource_not_found(uri: impl Into<String>) -> Self {
        Self(Box::new(Kind::ResourceNotFound(uri.into())))
    }

    pub(crate) fn interrupted(interruption: Interruption) -> Self {
        Self(Box::new(Kind::Interrupted(interruption)))
    }

    pub(crate) fn fault(self, era: Era) -> Fault {
        match (*self.0, era) {
            (Kind::Told(result), _) => Fault::Told(result),
            (Kind::Rpc(error), _) => Fault::Rpc(error),
            (Kind::Interrupted(interruption), _) => Fault::Interrupted(interruption),
            (Kind::ResourceNotFound(uri), era) => {
                Fault::Rpc(RpcError::resource_not_found(&uri, era))
            }
            (Kind::MissingCapability(capability), Era::Modern) => {
                Fault::Rpc(RpcError::missing_capability(capability.required()))
            }
            (Kind::MissingCapability(capability), Era::Legacy) => {
                Fault::Told(ToolResult::text(capability.told()).failed())
            }
        }
    }

    /// The same for prompts and resources, whose results have no room for failures.
    pub(crate) fn fault_without_result(self, era: Era) -> Fault {
        if let (Kind::MissingCapability(capability), Era::Legacy) = (&*self.0, era) {
            return Fault::Rpc(RpcError::invalid_params(capability.told()));
        }
        match self.fault(era) {
            Fault::Told(result) => Fault::Rpc(RpcError::internal(result.first_text())),
            other => other,
        }
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        let mut error = Some(error);
        if let Some(rpc) = (&mut error as &mut dyn Any).downcast_mut::<Option<RpcError>>() {
            return Self::rpc(rpc.take().expect("filled three lines above"));
        }
        Self::new(error.map(|error| chain(&error)).unwrap_or_default())
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Told(result) => f.debug_tuple("Told").field(result).finish(),
            Kind::Rpc(error) => f.debug_tuple("Rpc").field(error).finish(),
            Kind::MissingCapability(capability) => {
                f.debug_tuple("MissingCapability").field(capability).finish()
            }
            Kind::ResourceNotFound(uri) => f.debug_tuple("ResourceNotFound").field(uri).finish(),
            Kind::Interrupted(interruption) => {
                f.debug_tuple("Interrupted").field(interruption).finish()
            }
        }
    }
}

impl Capability {
    /// The bit that says a client has it.
    pub(crate) fn bit(self) -> ClientCapabilities {
        match self {
            Capability::Sampling => ClientCapabilities::SAMPLING,
            Capability::Elicitation => ClientCapabilities::ELICITATION_FORM,
            Capability::UrlElicitation => ClientCapabilities::ELICITATION_URL,
            Capability::Roots => ClientCapabilities::ROOTS,
            Capability::Tasks => ClientCapabilities::TASKS_EXTENSION,
        }
    }

    /// The `ClientCapabilities` object a client would have to send.
    pub(crate) fn required(self) -> &'static [u8] {
        match self {
            Capability::Sampling => br#"{"sampling":{}}"#,
            Capability::Elicitation => br#"{"elicitation":{}}"#,
            Capability::UrlElicitation => br#"{"elicitation":{"url":{}}}"#,
            Capability::Roots => br#"{"roots":{}}"#,
            Capability::Tasks => br#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#,
        }
    }

    fn told(self) -> &'static str {
        match self {
            Capability::Sampling => "This needs a client that offers sampling.",
            Capability::Elicitation => "This needs a client that offers elicitation.",
            Capability::UrlElicitation => "This needs a client that offers URL elicitation.",
            Capability::Roots => "This needs a client that offers roots.",
            Capability::Tasks => "This needs a client that offers tasks.",
        }
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
