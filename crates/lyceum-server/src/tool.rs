//! Tools: a name, a schema, an async function.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use lyceum_wire::{Member, ParamHeaders, Revision};
use lyceum_work::{MAX_PARSED_INLINE, run_bulk};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::annotations::{Icon, Meta};
use crate::call::Call;
use crate::error::ToolError;
use crate::json::Object;
use crate::page::List;
use crate::refused;
use crate::schema::Schema;
use crate::shelf::Listed;
use crate::since;
use crate::tool_result::{IntoToolResult, ToolResult};

/// A tool, ready to be added to a [`Builder`](crate::Builder) or a running
/// [`Server`](crate::Server).
pub struct Tool {
    name: String,
    title: Option<String>,
    description: String,
    input_schema: Schema,
    output_schema: Option<Schema>,
    hints: Hints,
    icons: Vec<Icon>,
    meta: Meta,
    task_support: TaskSupport,
    param_headers: Option<Arc<ParamHeaders>>,
    function: Box<Function>,
}

/// Arguments of a tool that takes none.
#[derive(Debug, Clone, Copy, Default, serde::Deserialize)]
pub struct NoArguments {}

impl JsonSchema for NoArguments {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NoArguments".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "object", "properties": {} })
    }
}

/// Whether and when a tool runs as a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TaskSupport {
    /// It answers directly, always.
    #[default]
    Forbidden,
    /// Its function may turn into a task on its way.
    OnDemand,
    /// It is a task from the start, where the client can follow one.
    Optional,
    /// It cannot be called by clients that cannot follow a task.
    Required,
}

/// A tool at work.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<ToolResult, ToolError>> + Send>>;

/// Reads the arguments and starts the function, or says why they do not fit.
type Function = dyn Fn(Call) -> Result<Running, InvalidArguments> + Send + Sync;

/// Why arguments do not fit, in words for whoever wrote them, and the call that brought them.
#[derive(Debug)]
pub(crate) struct InvalidArguments {
    pub(crate) call: Box<Call>,
    pub(crate) problem: String,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Hints {
    #[serde(skip_serializing_if = "Option::is_none")]
    read_only_hint: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destructive_hint: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotent_hint: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_world_hint: Option<bool>,
}

/// A tool whose argument schema comes from the type of its function's argument.
///
/// ```
/// use lyceum_server::{Call, tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Greet {
///     /// Whom to greet.
///     name: String,
/// }
///
/// let greet = tool("greet", "Greets by name.", |_: Call, args: Greet| async move {
///     Ok(format!("Hello, {}!", args.name))
/// })
/// .read_only();
/// ```
pub fn tool<A, R, F, Fut>(
    name: impl Into<String>,
    description: impl Into<String>,
    function: F,
) -> Tool
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    R: IntoToolResult + 'static,
    F: Fn(Call, A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
{
    tool_with_schema(name, description, Schema::of::<A>(), function)
}

/// A tool with a schema of its own, served verbatim; `A` may be `serde_json::Value`.
pub fn tool_with_schema<A, R, F, Fut>(
    name: impl Into<String>,
    description: impl Into<String>,
    schema: Schema,
    function: F,
) -> Tool
where
    A: DeserializeOwned + Send + 'static,
    R: IntoToolResult + 'static,
    F: Fn(Call, A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
{
    let (name, function) = (name.into(), Arc::new(function));
    let tool_name: Arc<str> = name.as_str().into();
    let function = move |call: Call| -> Result<Running, InvalidArguments> {
        let raw = call.request.params.get(Member::Arguments);
        if raw.is_some_and(|raw| raw.len() > MAX_PARSED_INLINE) {
            let (tool_name, function) = (Arc::clone(&tool_name), Arc::clone(&function));
            return Ok(Box::pin(run_with_large_arguments(tool_name, function, call)));
        }
        let arguments = match arguments(&call) {
            Ok(arguments) => arguments,
            Err(problem) => return Err(InvalidArguments { call: Box::new(call), problem }),
        };
        let running = function(call, arguments);
        Ok(Box::pin(async move { running.await?.into_tool_result() }))
    };
    Tool {
        name,
        title: None,
        description: description.into(),
        param_headers: param_headers(&schema),
        input_schema: schema,
        output_schema: R::output_schema(),
        hints: Hints::default(),
        icons: Vec::new(),
        meta: Meta::default(),
        task_support: TaskSupport::Forbidden,
        function: Box::new(function),
    }
}

/// Reads the arguments on a thread for bulk work, then runs the function.
async fn run_with_large_arguments<A, R, F, Fut>(
    tool_name: Arc<str>,
    function: Arc<F>,
    call: Call,
) -> Result<ToolResult, ToolError>
where
    A: DeserializeOwned + Send + 'static,
    R: IntoToolResult + 'static,
    F: Fn(Call, A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
{
    let read = run_bulk(move || (arguments::<A>(&call), call)).await;
    let (arguments, call) = read.map_err(|_| ToolError::new("the arguments could not be read"))?;
    match arguments {
        Ok(arguments) => function(call, arguments).await?.into_tool_result(),
        Err(problem) => {
            let revision = call.revision();
            let invalid = InvalidArguments { call: Box::new(call), problem };
            refused::invalid_arguments(invalid, &tool_name, revision).await
        }
    }
}

impl Tool {
    /// A name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// It changes nothing.
    pub fn read_only(mut self) -> Self {
        self.hints.read_only_hint = Some(true);
        self
    }

    /// It may destroy something.
    pub fn destructive(mut self) -> Self {
        self.hints.destructive_hint = Some(true);
        self
    }

    /// It only ever adds.
    pub fn additive(mut self) -> Self {
        self.hints.destructive_hint = Some(false);
        self
    }

    /// Calling it twice with the same arguments is the same as once.
    pub fn idempotent(mut self) -> Self {
        self.hints.idempotent_hint = Some(true);
        self
    }

    /// It reaches out to things beyond this server.
    pub fn open_world(mut self) -> Self {
        self.hints.open_world_hint = Some(true);
        self
    }

    /// It touches nothing beyond this server.
    pub fn closed_world(mut self) -> Self {
        self.hints.open_world_hint = Some(false);
        self
    }

    /// Adds an icon.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }

    /// Adds a member to the tool's `_meta`.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        self.meta.insert(key, value);
        self
    }

    /// Promises structured content of this schema, for functions that return a [`ToolResult`].
    pub fn output_schema(mut self, schema: Schema) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// Runs it in the background, as a task, for clients that can follow one.
    pub fn task(mut self) -> Self {
        self.task_support = TaskSupport::Optional;
        self
    }

    /// Runs it as a task, and refuses clients that cannot follow one.
    pub fn task_required(mut self) -> Self {
        self.task_support = TaskSupport::Required;
        self
    }

    /// Lets its function decide: it becomes a task when it calls [`Call::become_task`].
    pub fn task_on_demand(mut self) -> Self {
        self.task_support = TaskSupport::OnDemand;
        self
    }

    /// The name clients call it by.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn task_support(&self) -> TaskSupport {
        self.task_support
    }

    pub(crate) fn param_headers(&self) -> Option<&Arc<ParamHeaders>> {
        self.param_headers.as_ref()
    }

    pub(crate) fn start(&self, call: Call) -> Result<Running, InvalidArguments> {
        (self.function)(call)
    }

    /// Before the modern era structured content, and so its schema, had to be an object.
    fn output_schema_for(&self, revision: Revision) -> Option<&Schema> {
        let schema = self.output_schema.as_ref()?;
        let known = revision >= since::MODERN
            || (revision >= since::STRUCTURED_CONTENT && schema.describes_object());
        known.then_some(schema)
    }
}

impl Listed for Tool {
    const LIST: List = List::Tools;
    const MEMBER: &'static str = "tools";

    fn key(&self) -> &str {
        &self.name
    }

    fn is_mirrored(&self) -> bool {
        self.param_headers.is_some()
    }

    fn describe(&self, revision: Revision, out: &mut Vec<u8>) {
        let mut item = Object::open(out);
        item.field("name", &self.name);
        if revision >= since::TITLES {
            item.optional("title", self.title.as_ref());
        }
        item.field("description", &self.description)
            .raw("inputSchema", self.input_schema.as_str().as_bytes());
        if let Some(schema) = self.output_schema_for(revision) {
            item.raw("outputSchema", schema.as_str().as_bytes());
        }
        if revision >= since::TOOL_ANNOTATIONS && !self.hints.is_empty() {
            item.field("annotations", &self.hints);
        }
        if revision == since::CORE_TASKS
            && let Some(support) = self.task_support.as_str()
        {
            item.raw("execution", format!(r#"{{"taskSupport":"{support}"}}"#).as_bytes());
        }
        Icon::write_all(&self.icons, &mut item, revision);
        self.meta.write(&mut item, revision);
        item.close();
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.name)
            .field("task_support", &self.task_support)
            .finish_non_exhaustive()
    }
}

impl Hints {
    fn is_empty(&self) -> bool {
        self.read_only_hint.is_none()
            && self.destructive_hint.is_none()
            && self.idempotent_hint.is_none()
            && self.open_world_hint.is_none()
    }
}

impl TaskSupport {
    /// What a 2025-11-25 client is told, if anything.
    fn as_str(self) -> Option<&'static str> {
        match self {
            TaskSupport::Forbidden => None,
            TaskSupport::OnDemand | TaskSupport::Optional => Some("optional"),
            TaskSupport::Required => Some("required"),
        }
    }
}

fn arguments<A: DeserializeOwned>(call: &Call) -> Result<A, String> {
    let raw = call.request.params.get(Member::Arguments).unwrap_or(b"{}");
    if raw.first() != Some(&b'{') {
        return Err("arguments must be an object".to_owned());
    }
    // Checked once as a whole, where `from_slice` would check each string.
    let text = std::str::from_utf8(raw).map_err(|error| error.to_string())?;
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn param_headers(schema: &Schema) -> Option<Arc<ParamHeaders>> {
    match ParamHeaders::from_schema(schema.as_str().as_bytes()) {
        Ok(headers) if headers.is_empty() => None,
        Ok(headers) => Some(Arc::new(headers)),
        Err(problem) => {
            tracing::warn!(%problem, "x-mcp-header annotations are not valid and are not checked");
            None
        }
    }
}
