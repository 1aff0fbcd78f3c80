//! Suggestions for prompt arguments and template variables: `completion/complete`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use lyceum_http::{Context, Outcome};
use lyceum_wire::{Era, Request, RpcError, excerpt};
use serde::Deserialize;

use crate::json::{Object, object};
use crate::server::Server;

/// The protocol's bound on suggestions in one answer.
const MAX_VALUES: usize = 100;
/// Bytes of what has been typed so far, and of all other arguments together.
const MAX_TYPED_BYTES: usize = 8 << 10;

/// What is being completed.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Completing {
    /// What has been typed so far.
    pub value: String,
    /// Other arguments the user has settled already.
    pub arguments: BTreeMap<String, String>,
    server: Option<Server>,
}

impl Completing {
    /// Whether the server that is asked offers a tool of this name now.
    pub fn offers_tool(&self, name: &str) -> bool {
        self.server.as_ref().is_some_and(|server| server.has_tool(name))
    }
}

/// A function that suggests values.
pub(crate) struct Completer(Box<Suggest>);

/// Completers by the argument they are for.
pub(crate) type Completers = HashMap<String, Completer>;

type Suggest =
    dyn Fn(Completing) -> Pin<Box<dyn Future<Output = Vec<String>> + Send>> + Send + Sync;

#[derive(Deserialize)]
struct CompleteParams {
    r#ref: Reference,
    argument: Argument,
    #[serde(default)]
    context: CompletionContext,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Reference {
    #[serde(rename = "ref/prompt")]
    Prompt { name: String },
    #[serde(rename = "ref/resource")]
    Template { uri: String },
}

#[derive(Deserialize)]
struct Argument {
    name: String,
    value: String,
}

#[derive(Default, Deserialize)]
struct CompletionContext {
    #[serde(default)]
    arguments: BTreeMap<String, String>,
}

impl Completer {
    pub(crate) fn new<F, Fut>(suggest: F) -> Self
    where
        F: Fn(Completing) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<String>> + Send + 'static,
    {
        Self(Box::new(move |completing| Box::pin(suggest(completing))))
    }
}

impl fmt::Debug for Completer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completer")
    }
}

/// Answers `completion/complete`.
pub(crate) async fn complete(
    server: &Server,
    request: &Request,
    cx: &Context,
) -> Result<Outcome, RpcError> {
    let params = request.params.raw().unwrap_or_default();
    let CompleteParams { r#ref, argument, context } =
        serde_json::from_slice(&params).map_err(|error| {
            RpcError::invalid_params(format!("Invalid completion request: {error}"))
        })?;
    check_sizes(&argument, &context)?;
    let asked = Some(server.clone());
    let completing =
        Completing { value: argument.value, arguments: context.arguments, server: asked };
    let suggesting = match r#ref {
        Reference::Prompt { name } => {
            let prompts = server.0.prompts.load();
            let prompt = prompts.get(&name).ok_or_else(|| unknown("prompt", &name))?;
            if !prompt.has_argument(&argument.name) {
                return Err(unknown("argument", &argument.name));
            }
            prompt.completers.get(&argument.name).map(|completer| completer.0(completing))
        }
        Reference::Template { uri } => {
            let templates = server.0.templates.load();
            let template = templates.get(&uri).ok_or_else(|| unknown("resource template", &uri))?;
            if !template.has_variable(&argument.name) {
                return Err(unknown("variable", &argument.name));
            }
            template.completers.get(&argument.name).map(|completer| completer.0(completing))
        }
    };
    let values = match suggesting {
        Some(suggesting) => suggesting.await,
        None => Vec::new(),
    };
    Ok(Outcome::json(encode(server, &values, cx.era())))
}

fn encode(server: &Server, values: &[String], era: Era) -> Vec<u8> {
    object(|result| {
        if era == Era::Modern {
            result.field("resultType", "complete");
        }
        let mut completion = Object::open(result.member("completion"));
        completion
            .field("values", &values[..values.len().min(MAX_VALUES)])
            .field("total", &values.len())
            .field("hasMore", &(values.len() > MAX_VALUES));
        completion.close();
        server.0.identity.write_meta(result, era, &Default::default());
    })
}

fn check_sizes(argument: &Argument, context: &CompletionContext) -> Result<(), RpcError> {
    let pairs = context.arguments.iter().map(|(name, value)| name.len() + value.len());
    for (what, length) in [
        ("argument.value", argument.value.len()),
        ("context.arguments", pairs.fold(0, usize::saturating_add)),
    ] {
        if length > MAX_TYPED_BYTES {
            return Err(RpcError::invalid_params(format!(
                "{what} is {length} bytes long; what is completed has at most {MAX_TYPED_BYTES}"
            )));
        }
    }
    Ok(())
}

fn unknown(what: &str, name: &str) -> RpcError {
    RpcError::invalid_params(format!("Unknown {what}: {}", excerpt(name)))
}
