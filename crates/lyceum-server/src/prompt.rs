//! Prompts: messages a user can call up, with arguments.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use lyceum_http::Context;
use lyceum_http::Outcome;
use lyceum_wire::{Era, Member, Request, Revision, RpcError, excerpt};

use crate::annotations::{Icon, Meta, Role};
use crate::call::Call;
use crate::completion::{Completer, Completers, Completing};
use crate::content::Content;
use crate::error::{Fault, ToolError};
use crate::json::{Object, array, object};
use crate::page::List;
use crate::server::Server;
use crate::shelf::Listed;
use crate::since;

/// A prompt, ready to be added to a [`Builder`](crate::Builder) or a running [`Server`].
pub struct Prompt {
    name: String,
    title: Option<String>,
    description: String,
    arguments: Vec<Argument>,
    icons: Vec<Icon>,
    meta: Meta,
    pub(crate) completers: Completers,
    function: Box<Function>,
}

#[derive(Debug)]
struct Argument {
    name: String,
    description: String,
    required: bool,
}

/// The arguments of one call of a prompt.
#[derive(Debug, Clone, Default)]
pub struct PromptArguments(BTreeMap<String, String>);

/// One message of a prompt.
#[derive(Debug, Clone)]
pub struct PromptMessage {
    role: Role,
    content: Content,
}

/// What a prompt function may return.
pub trait IntoMessages {
    /// Turns the value into messages.
    fn into_messages(self) -> Vec<PromptMessage>;
}

type Running = Pin<Box<dyn Future<Output = Result<Vec<PromptMessage>, ToolError>> + Send>>;
type Function = dyn Fn(Call, PromptArguments) -> Running + Send + Sync;

/// A prompt made by a function.
pub fn prompt<R, F, Fut>(
    name: impl Into<String>,
    description: impl Into<String>,
    function: F,
) -> Prompt
where
    R: IntoMessages + 'static,
    F: Fn(Call, PromptArguments) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
{
    let function = move |call: Call, arguments: PromptArguments| -> Running {
        let running = function(call, arguments);
        Box::pin(async move { Ok(running.await?.into_messages()) })
    };
    Prompt {
        name: name.into(),
        title: None,
        description: description.into(),
        arguments: Vec::new(),
        icons: Vec::new(),
        meta: Meta::default(),
        completers: Completers::default(),
        function: Box::new(function),
    }
}

impl Prompt {
    /// A name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Adds an argument that must be given.
    pub fn argument(self, name: impl Into<String>, description: impl Into<String>) -> Self {
        self.with(Argument { name: name.into(), description: description.into(), required: true })
    }

    /// Adds an argument that may be given.
    pub fn optional_argument(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        self.with(Argument { name: name.into(), description: description.into(), required: false })
    }

    /// Suggests values for an argument.
    pub fn complete<F, Fut>(mut self, argument: impl Into<String>, suggest: F) -> Self
    where
        F: Fn(Completing) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<String>> + Send + 'static,
    {
        self.completers.insert(argument.into(), Completer::new(suggest));
        self
    }

    /// Adds an icon.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }

    /// Adds a member to the prompt's `_meta`.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        self.meta.insert(key, value);
        self
    }

    pub(crate) fn has_argument(&self, name: &str) -> bool {
        self.arguments.iter().any(|argument| argument.name == name)
    }

    fn with(mut self, argument: Argument) -> Self {
        self.arguments.push(argument);
        self
    }

    /// The arguments of a request, with all required ones present.
    fn arguments(&self, request: &Request) -> Result<PromptArguments, RpcError> {
        let given = request.params.get(Member::Arguments).unwrap_or(b"{}");
        let given: BTreeMap<String, String> = serde_json::from_slice(given)
            .map_err(|_| RpcError::invalid_params("Prompt arguments must be strings by name"))?;
        let mut required = self.arguments.iter().filter(|argument| argument.required);
        if let Some(missing) = required.find(|argument| !given.contains_key(&argument.name)) {
            let problem = format!("Missing argument of {}: {}", self.name, missing.name);
            return Err(RpcError::invalid_params(problem));
        }
        Ok(PromptArguments(given))
    }
}

impl Listed for Prompt {
    const LIST: List = List::Prompts;
    const MEMBER: &'static str = "prompts";

    fn key(&self) -> &str {
        &self.name
    }

    fn describe(&self, revision: Revision, out: &mut Vec<u8>) {
        let mut item = Object::open(out);
        item.field("name", &self.name);
        if revision >= since::TITLES {
            item.optional("title", self.title.as_ref());
        }
        item.field("description", &self.description);
        if !self.arguments.is_empty() {
            array(item.member("arguments"), &self.arguments, |out, argument| {
                let mut item = Object::open(out);
                item.field("name", &argument.name)
                    .field("description", &argument.description)
                    .field("required", &argument.required);
                item.close();
            });
        }
        Icon::write_all(&self.icons, &mut item, revision);
        self.meta.write(&mut item, revision);
        item.close();
    }
}

/// Answers `prompts/get`.
pub(crate) async fn get(
    server: &Server,
    request: Request,
    cx: Context,
) -> Result<Outcome, RpcError> {
    let name = request.params.text(Member::Name);
    let name = name.ok_or_else(|| RpcError::invalid_params("name must say which prompt"))?;
    let prompt = server.0.prompts.load().get(&name).cloned();
    let unknown = || RpcError::invalid_params(format!("Unknown prompt: {}", excerpt(&name)));
    let prompt = prompt.ok_or_else(unknown)?;
    drop(name);
    let (revision, identity) = (cx.revision, &server.0.identity);
    let arguments = prompt.arguments(&request)?;
    let call = Call::new(server.clone(), request, cx)?;
    let result = match (prompt.function)(call, arguments).await {
        Ok(messages) => object(|result| {
            if revision.era() == Era::Modern {
                result.field("resultType", "complete");
            }
            result.field("description", &prompt.description);
            array(result.member("messages"), &messages, |out, message| {
                message.encode(revision, out);
            });
            identity.write_meta(result, revision.era(), &Meta::default());
        }),
        Err(error) => match error.fault_without_result(revision.era()) {
            Fault::Interrupted(interruption) => interruption.encode(identity),
            Fault::Rpc(error) => return Err(error),
            Fault::Told(told) => return Err(RpcError::internal(told.first_text())),
        },
    };
    Ok(Outcome::json(result))
}

impl PromptArguments {
    /// The value of an argument; empty if it was not given.
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl PromptMessage {
    /// Something the user says.
    pub fn user(content: impl Into<Content>) -> Self {
        Self { role: Role::User, content: content.into() }
    }

    /// Something the assistant says.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self { role: Role::Assistant, content: content.into() }
    }

    fn encode(&self, revision: Revision, out: &mut Vec<u8>) {
        let mut message = Object::open(out);
        message.field("role", &self.role);
        self.content.encode(revision, message.member("content"));
        message.close();
    }
}

impl IntoMessages for Vec<PromptMessage> {
    fn into_messages(self) -> Vec<PromptMessage> {
        self
    }
}

impl IntoMessages for PromptMessage {
    fn into_messages(self) -> Vec<PromptMessage> {
        vec![self]
    }
}

impl IntoMessages for String {
    fn into_messages(self) -> Vec<PromptMessage> {
        vec![PromptMessage::user(self)]
    }
}

impl IntoMessages for &str {
    fn into_messages(self) -> Vec<PromptMessage> {
        vec![PromptMessage::user(self)]
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("name", &self.name).finish_non_exhaustive()
    }
}
