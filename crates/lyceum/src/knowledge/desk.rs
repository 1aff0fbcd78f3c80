//! Where calls are taken: who is calling, what is written down about it, and how failures are told.

use std::sync::Arc;

use lyceum_kb::store::AuditEntry;
use lyceum_kb::{Actor, Change, Code, DocPath, Error, Kb, Write, Written};
use lyceum_server::{Call, Refused, Tool, ToolError, ToolResult, tool_with_schema};
use lyceum_wire::RpcError;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::keys::Budget;
use crate::knowledge::answers::WriteAnswer;
use crate::knowledge::arguments::Safety;
use crate::knowledge::{refusal, schema};

/// The author of writes where nobody has to say who they are.
const ANONYMOUS: &str = "anonymous";
/// How much of a made-up tool name, path or request id is written down, in characters.
const MAX_NAME: usize = 256;
/// How much of what is wrong with arguments is said, in characters: it quotes them.
const MAX_PROBLEM: usize = 512;
/// Refusals of one profile that get a line each; beyond that it is one a second.
const BURST: u32 = 600;

/// What all calls of one profile share.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) kb: Kb,
    refusals: Arc<Budget>,
}

/// One call of one tool.
pub(crate) struct Visit {
    pub(crate) desk: Desk,
    pub(crate) call: Call,
    tool: &'static str,
}

/// A failed call.
#[derive(Debug)]
pub(crate) struct Failure {
    error: Error,
    /// Whether the store has written it down already.
    audited: bool,
}

/// What a tool's function returns.
pub(crate) type Answer<R> = Result<R, Failure>;

/// Arguments that are about a document, for the audit trail.
pub(crate) trait Subject {
    fn subject(&self) -> Option<&str>;
}

/// A tool of the knowledge base: `run` gets the arguments, failures become results and audit lines.
pub(crate) fn tool<A, R, F, Fut>(desk: &Desk, name: &'static str, description: &str, run: F) -> Tool
where
    A: DeserializeOwned + JsonSchema + Subject + Send + 'static,
    R: Serialize + JsonSchema + Send + 'static,
    F: Fn(Arc<Visit>, A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Answer<R>> + Send + 'static,
{
    let desk = desk.clone();
    let function = move |call: Call, arguments: A| {
        let visit = Arc::new(Visit { desk: desk.clone(), call, tool: name });
        let subject = arguments.subject().map(str::to_owned);
        let running = run(Arc::clone(&visit), arguments);
        async move {
            match running.await {
                Ok(answer) => ToolResult::new().structured(&answer),
                Err(failure) => Err(visit.tell(failure, subject).await),
            }
        }
    };
    tool_with_schema(name, description, schema::of_arguments::<A>(), function)
        .output_schema(schema::of_answers::<R>())
}

/// A tool that does nothing but the write `change` reads out of its arguments.
pub(crate) fn write_tool<A>(
    desk: &Desk,
    name: &'static str,
    description: &str,
    change: fn(A) -> lyceum_kb::Result<(DocPath, Change, Safety)>,
) -> Tool
where
    A: DeserializeOwned + JsonSchema + Subject + Send + 'static,
{
    tool(desk, name, description, move |visit: Arc<Visit>, arguments: A| async move {
        let (path, change, safety) = change(arguments)?;
        Ok(WriteAnswer::from(visit.write(path, change, safety).await?))
    })
}

/// Ends a call no tool ever sees. `known` are the names some profile has.
pub(crate) async fn refuse(desk: Desk, known: &[&str], call: Call, refused: Refused) -> ToolError {
    match refused {
        Refused::UnknownTool { name } => {
            let name = shortened(&name, MAX_NAME);
            let (words, outcome) = if known.contains(&name.as_str()) {
                ("Tool not allowed", Code::Forbidden.as_str())
            } else {
                ("Unknown tool", Code::NotFound.as_str())
            };
            desk.audit(actor(&call, &name), None, outcome).await;
            ToolError::rpc(RpcError::invalid_params(format!("{words}: {name}")))
        }
        Refused::InvalidArguments { tool, problem } => {
            let problem = shortened(&problem.to_string(), MAX_PROBLEM);
            let error = Error::invalid(format!("{tool}: {problem}; see its input schema"));
            desk.audit(actor(&call, &tool), None, error.code().as_str()).await;
            refusal::told(&error)
        }
        _ => refusal::told(&Error::internal("the call was refused")),
    }
}

impl Desk {
    pub(crate) fn new(kb: Kb) -> Self {
        Self { kb, refusals: Arc::new(Budget::new(BURST)) }
    }

    /// Writes a refusal down, or counts it when there are too many.
    async fn audit(&self, actor: Actor, document: Option<String>, outcome: &str) {
        let Some(omitted) = self.refusals.allowed() else { return };
        if omitted > 0 {
            let actor = Actor { profile: actor.profile.clone(), ..Actor::default() };
            self.write_down(actor, None, Budget::summary(omitted)).await;
        }
        let document = document.map(|document| document.chars().take(MAX_NAME).collect());
        self.write_down(actor, document, outcome.to_owned()).await;
    }

    /// A store that cannot write it down is no reason to keep the answer back.
    async fn write_down(&self, actor: Actor, document: Option<String>, outcome: String) {
        if let Err(error) = self.kb.store().audit(AuditEntry { actor, document, outcome }).await {
            tracing::warn!(%error, "a refused call could not be written to the audit trail");
        }
    }
}

impl Visit {
    /// Who calls, as far as they had to say.
    pub(crate) fn caller(&self) -> &str {
        self.call.principal().map_or(ANONYMOUS, |principal| principal.as_str())
    }

    /// Writes, in the caller's name.
    pub(crate) async fn write(
        &self,
        path: DocPath,
        change: Change,
        safety: Safety,
    ) -> Answer<Written> {
        let Safety { expected_revision, idempotency } = safety;
        let by = actor(&self.call, self.tool);
        let write = Write { path, change, expected_revision, idempotency, by };
        let kb = self.desk.kb.clone();
        // A task of its own: a client that hangs up must not keep others from hearing of a write
        // that is stored.
        let written = tokio::spawn(async move { kb.write(write).await }).await;
        match written {
            Ok(Ok(written)) => Ok(written),
            Ok(Err(error)) => Err(Failure { error, audited: true }),
            Err(_) => {
                Err(Error::internal("the write ended unexpectedly; read before retrying").into())
            }
        }
    }

    async fn tell(&self, failure: Failure, subject: Option<String>) -> ToolError {
        let Failure { error, audited } = failure;
        if error.code() == Code::Internal {
            tracing::error!(tool = self.tool, %error, "a tool failed");
        }
        if !audited {
            let actor = actor(&self.call, self.tool);
            self.desk.audit(actor, subject, error.code().as_str()).await;
        }
        refusal::told(&error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, audited: false }
    }
}

/// The beginning of a caller's text, so that an answer is not as long as what it refuses.
fn shortened(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).collect()
}

fn actor(call: &Call, tool: &str) -> Actor {
    Actor {
        principal: call.principal().map_or(ANONYMOUS, |principal| principal.as_str()).to_owned(),
        profile: call.endpoint().to_owned(),
        tool: tool.chars().take(MAX_NAME).collect(),
        request_id: String::from_utf8_lossy(call.request_id().as_bytes())
            .chars()
            .take(MAX_NAME)
            .collect(),
    }
}
