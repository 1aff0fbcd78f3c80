//! Where calls are taken: who is calling, what is written down about it, and how failures are told.

use std::sync::Arc;

use lyceum_kb::store::AuditEntry;
use lyceum_kb::{Actor, CallerId, Change, Code, DocPath, Error, Kb, Write, Written};
use lyceum_server::{Call, Refused, Tool, ToolError, ToolResult, tool_with_schema};
use lyceum_wire::RpcError;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::Profile;
use crate::keys::Budget;
use crate::knowledge::answers::WriteAnswer;
use crate::knowledge::arguments::Safety;
use crate::knowledge::charge::Payer;
use crate::knowledge::rights::{DocumentAccess, DocumentRights};
use crate::knowledge::{prompts, refusal, schema, tools, uri};

/// The author of writes where nobody has to say who they are.
const ANONYMOUS: &str = "anonymous";
/// How much of a made-up tool name, path or request id is written down, in characters.
const MAX_NAME: usize = 256;
/// What reading a resource is called in the audit trail.
pub(crate) const READ_RESOURCE: &str = "resources/read";
/// How much of what is wrong with arguments is said, in characters: it quotes them.
pub(crate) const MAX_PROBLEM: usize = 512;
/// Refusals of one profile that get a line each; beyond that it is one a second.
const BURST: u32 = 600;

/// What all calls of one profile share.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) kb: Kb,
    /// Bytes of the largest text there may be.
    pub(crate) max_text: usize,
    refusals: Arc<Budget>,
}

/// One call of one tool.
pub(crate) struct Visit {
    pub(crate) desk: Desk,
    pub(crate) call: Call,
    tool: &'static str,
}

/// What a tool's function returns.
pub(crate) type Answer<R> = Result<R, Error>;

/// Arguments that are about a document, for the audit trail.
pub(crate) trait Subject {
    fn subject(&self) -> Option<&str>;

    /// Bytes the call works with before it answers, where the largest text has `max_text`; 0 for one
    /// that reads no whole texts.
    fn work(&self, max_text: usize) -> usize {
        let _ = max_text;
        0
    }
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
        let visit = Arc::new(Visit { desk: desk.on_behalf_of(&call), call, tool: name });
        let subject = arguments.subject().map(str::to_owned);
        let work = arguments.work(desk.max_text);
        let running = run(Arc::clone(&visit), arguments);
        async move {
            match visit.answered(work, running).await {
                Ok(result) => Ok(result),
                Err(error) => Err(visit.tell(error, subject).await),
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

/// Ends a call nothing here answers. A profile that leaves tools out says of every name that it is not allowed: so its
/// clients expect it, and they learn nothing about what others have.
pub(crate) async fn refuse(
    desk: Desk,
    is_filtered: bool,
    call: Call,
    refused: Refused,
) -> ToolError {
    // What another profile has is withheld here, for those who read the audit trail.
    let outcome = |known: bool| if known { Code::Forbidden } else { Code::NotFound };
    match refused {
        Refused::UnknownTool { name } => {
            let name = shortened(&name, MAX_NAME);
            let known = tools::NAMES.contains(&name.as_str());
            let is_filtered =
                is_filtered || Profile::at(call.endpoint()).is_some_and(Profile::has_allow_list);
            let words = if known || is_filtered { "Tool not allowed" } else { "Unknown tool" };
            desk.audit_refusal(&call, &name, None, outcome(known)).await;
            ToolError::rpc(RpcError::invalid_params(format!("{words}: {name}")))
        }
        Refused::InvalidArguments { tool, problem } => {
            let problem = shortened(&problem.to_string(), MAX_PROBLEM);
            let error = Error::invalid(format!("{tool}: {problem}; see its input schema"));
            desk.audit_refusal(&call, &tool, None, error.code()).await;
            refusal::told(&error)
        }
        Refused::UnknownResource { uri } => {
            let path = uri.strip_prefix(uri::SCHEME);
            let document = Some(path.unwrap_or(&uri).to_owned());
            desk.audit_refusal(&call, READ_RESOURCE, document, outcome(path.is_some())).await;
            ToolError::resource_not_found(uri)
        }
        Refused::UnknownPrompt { name } => {
            let known = prompts::NAMES.contains(&name.as_str());
            desk.audit_refusal(&call, &name, None, outcome(known)).await;
            ToolError::rpc(RpcError::invalid_params(format!(
                "Unknown prompt: {}",
                shortened(&name, MAX_NAME)
            )))
        }
        _ => refusal::told(&Error::internal("the call was refused")),
    }
}

impl Desk {
    pub(crate) fn new(kb: Kb, max_text: usize) -> Self {
        Self { kb, max_text, refusals: Arc::new(Budget::new(BURST)) }
    }

    /// The same for one call, whose reads share the knowledge base fairly with those of others.
    fn on_behalf_of(&self, call: &Call) -> Self {
        Self { kb: self.kb.on_behalf_of(caller(call)), ..self.clone() }
    }

    /// Writes a refusal down, or counts it when there are too many.
    pub(crate) async fn audit_refusal(
        &self,
        call: &Call,
        tool: &str,
        document: Option<String>,
        code: Code,
    ) {
        let actor = actor(call, tool);
        let Some(omitted) = self.refusals.allowed() else { return };
        if omitted > 0 {
            let actor = Actor { profile: actor.profile.clone(), ..Actor::default() };
            self.write_down(actor, None, Budget::summary(omitted)).await;
        }
        let document = document.map(|document| document.chars().take(MAX_NAME).collect());
        self.write_down(actor, document, code.as_str().to_owned()).await;
    }

    /// A store that cannot write it down is no reason to keep the answer back.
    async fn write_down(&self, actor: Actor, document: Option<String>, outcome: String) {
        if let Err(error) = self.kb.store().audit(AuditEntry { actor, document, outcome }).await {
            tracing::warn!(%error, "a refused call could not be written to the audit trail");
        }
    }
}

impl Visit {
    /// What `running` answers, run and written when there is room for it.
    async fn answered<R>(
        &self,
        work: usize,
        running: impl Future<Output = Answer<R>>,
    ) -> Answer<ToolResult>
    where
        R: Serialize + Send + 'static,
    {
        let payer = Payer::of(&self.call);
        let _work = payer.work(work).await?;
        let answer = running.await?;
        payer.tool_result(&self.call, answer).await
    }

    /// Names the caller, so that it gets its share of what is scarce.
    pub(crate) fn caller(&self) -> String {
        self.call.caller_id().to_string()
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
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::internal("the write ended unexpectedly; read before retrying")),
        }
    }

    async fn tell(&self, error: Error, subject: Option<String>) -> ToolError {
        if error.code() == Code::Internal {
            tracing::error!(tool = self.tool, %error, "a tool failed");
        }
        self.desk.audit_refusal(&self.call, self.tool, subject, error.code()).await;
        let rights = DocumentRights::of_server(self.call.server());
        match rights.allows(DocumentAccess::ErrorDetails) {
            true => refusal::told(&error),
            false => refusal::told(&refusal::discreet(error)),
        }
    }
}

/// Names the caller for fair scheduling: its key, else its address.
pub(crate) fn caller(call: &Call) -> CallerId {
    CallerId::new(&call.caller_id().to_string())
}

/// The beginning of a caller's text, so that an answer is not as long as what it refuses.
pub(crate) fn shortened(text: &str, max_chars: usize) -> String {
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
