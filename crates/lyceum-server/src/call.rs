//! One call in progress: what a tool, prompt or resource function can ask and tell.
//!
//! The same functions serve both eras. In the legacy era a question is a server request the call
//! waits for; in the modern era it ends the call with `input_required`, and the function runs again
//! from its start when the client returns with the answer. A function that asks should therefore do
//! so before it changes anything.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use lyceum_http::{ByteBudgets, CallerId, Context, Principal, Purpose};
use lyceum_wire::{ClientCapabilities, Era, Id, LogLevel, Request, Revision, RpcError};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::ask::{Answers, Ask, Elicited, Root, Sampled, Sampling};
use crate::changes::Change;
use crate::error::{Capability, ToolError};
use crate::json::{number, object};
use crate::rounds::Rounds;
use crate::schema::Schema;
use crate::server::Server;
use crate::since;
use crate::tasks::{Owner, Task, TaskCell};

/// Tells what functions seal from the cursors of lists, whose first byte is a small number.
const CARRIED: u8 = b'c';

/// One call in progress.
pub struct Call {
    pub(crate) cx: Context,
    pub(crate) request: Request,
    pub(crate) server: Server,
    rounds: Rounds,
    /// Where the task is, or will be; `None` when the call cannot become one.
    task: Option<TaskCell>,
}

impl Call {
    /// # Errors
    /// When the request brings back state or answers that are not valid.
    pub(crate) fn new(server: Server, request: Request, cx: Context) -> Result<Self, RpcError> {
        let rounds = match cx.era() {
            Era::Modern => Rounds::read(&request, &cx)?,
            Era::Legacy => Rounds::default(),
        };
        Ok(Self { cx, request, server, rounds, task: None })
    }

    /// The same call with a place for its task.
    pub(crate) fn with_task(mut self, task: TaskCell) -> Self {
        self.task = Some(task);
        self
    }

    /// The server this call runs on.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The revision the client speaks.
    pub fn revision(&self) -> Revision {
        self.cx.revision
    }

    /// Who is calling, if the endpoint asked.
    pub fn principal(&self) -> Option<&Principal> {
        self.cx.principal.as_ref()
    }

    /// Who is charged for what the call costs.
    pub fn caller_id(&self) -> CallerId {
        self.cx.caller_id()
    }

    /// What large answers and the work for them are charged to.
    pub fn budgets(&self) -> &Arc<ByteBudgets> {
        &self.cx.budgets
    }

    /// Whether the client knows structured content, and gets it beside the text.
    pub fn takes_structured_content(&self) -> bool {
        self.cx.revision >= since::STRUCTURED_CONTENT
    }

    /// The endpoint's name: its path, or `stdio`.
    pub fn endpoint(&self) -> &str {
        &self.cx.endpoint
    }

    /// The id the client gave this request.
    pub fn request_id(&self) -> &Id {
        &self.request.id
    }

    /// Seals something for this caller to bring back later, such as a place in a list.
    pub fn seal(&self, payload: &[u8]) -> String {
        self.cx.sealer.seal(Purpose::Cursor, &self.cx.binding(), &[&[CARRIED], payload].concat())
    }

    /// Opens what [`Call::seal`] made for the same caller on the same endpoint; `None` for
    /// everything else.
    pub fn unseal(&self, token: &str) -> Option<Vec<u8>> {
        let opened = self.cx.sealer.open(Purpose::Cursor, &self.cx.binding(), token.as_bytes())?;
        opened.strip_prefix(&[CARRIED]).map(<[u8]>::to_vec)
    }

    /// What the client can do.
    pub fn capabilities(&self) -> ClientCapabilities {
        self.cx.capabilities
    }

    /// Whether the client can do something.
    pub fn can(&self, capability: Capability) -> bool {
        self.cx.capabilities.has(capability.bit())
    }

    /// Ends the call unless the client can do something.
    ///
    /// # Errors
    /// When it cannot.
    pub fn require(&self, capability: Capability) -> Result<(), ToolError> {
        if self.can(capability) {
            return Ok(());
        }
        Err(ToolError::missing_capability(capability))
    }

    /// Tells how far the call is; nothing happens unless the client wants to know.
    pub async fn progress(&self, progress: f64, total: Option<f64>) {
        self.send_progress(progress, total, None).await;
    }

    /// The same, with a few words.
    pub async fn progress_message(&self, progress: f64, total: Option<f64>, message: &str) {
        self.send_progress(progress, total, Some(message)).await;
    }

    async fn send_progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(task) = self.task() {
            // The answer is out: whoever follows the task reads the message in its status.
            return message.into_iter().for_each(|message| task.describe(message));
        }
        let Some(token) = &self.cx.progress_token else { return };
        if !progress.is_finite() {
            return;
        }
        let params = object(|params| {
            number(params.raw("progressToken", token).member("progress"), progress);
            if let Some(total) = total.filter(|total| total.is_finite()) {
                number(params.member("total"), total);
            }
            if self.revision() >= since::PROGRESS_MESSAGE {
                params.optional("message", message.as_ref());
            }
        });
        self.cx.notify("notifications/progress", &params).await;
    }

    /// Sends a log message; nothing happens unless the client asked for messages of this level.
    pub async fn log<T: Serialize>(&self, level: LogLevel, logger: &str, data: &T) {
        if self.task().is_some() || !self.wants_log(level) {
            return;
        }
        let Ok(data) = serde_json::to_vec(data) else { return };
        let params = object(|params| {
            params.field("level", level.as_str());
            if !logger.is_empty() {
                params.field("logger", logger);
            }
            params.raw("data", &data);
        });
        self.cx.notify("notifications/message", &params).await;
    }

    /// A legacy client may change its level while the call runs, so its session is asked each time.
    fn wants_log(&self, level: LogLevel) -> bool {
        let least = match (&self.cx.session, self.cx.era()) {
            (Some(session), Era::Legacy) => Some(session.log_level()),
            _ => self.cx.log_level,
        };
        least.is_some_and(|least| level >= least)
    }

    /// Lets go of the client's connection while the call runs on: a 2025-11-25 client comes back
    /// for the result. Returns whether that was possible.
    pub fn release(&self) -> bool {
        self.cx.outlet.release()
    }

    /// Goes on in the background, as a task, if the client can follow one; returns whether it does.
    /// What is asked from here on is asked through the task. For tools made with
    /// [`Tool::task_on_demand`](crate::Tool::task_on_demand).
    ///
    /// # Errors
    /// When there are too many tasks.
    pub async fn become_task(&self) -> Result<bool, ToolError> {
        let Some(cell) = &self.task else { return Ok(false) };
        if cell.get().is_none() {
            let task = self.server.0.tasks.create(Owner::of(&self.cx), None)?;
            // Nobody else sets it: the function runs in one place at a time.
            let _ = cell.set(task);
            // Whoever runs the function sees the task when it next pauses, and answers the client.
            tokio::task::yield_now().await;
        }
        Ok(true)
    }

    fn task(&self) -> Option<&Arc<Task>> {
        self.task.as_ref()?.get()
    }

    /// What [`Call::set_state`] kept in an earlier round of this call.
    pub fn state<T: DeserializeOwned>(&self) -> Option<T> {
        self.rounds.state()
    }

    /// Keeps `value` for the next round. It travels sealed with the client; keep it small.
    ///
    /// # Errors
    /// When `value` cannot be represented as JSON.
    pub fn set_state<T: Serialize>(&self, value: &T) -> Result<(), ToolError> {
        self.rounds.set_state(value)
    }

    /// Shows a form with `T`'s fields to the user and returns what they filled in.
    ///
    /// # Errors
    /// When the client shows no forms, the user declined, or the answer does not fit `T`. In the
    /// modern era also when the client has yet to be asked: pass it on with `?`.
    pub async fn elicit<T>(&self, key: &str, message: &str) -> Result<T, ToolError>
    where
        T: DeserializeOwned + JsonSchema,
    {
        self.ask(Ask::form::<T>(key, message)?).await?.form(key)
    }

    /// Shows a form and returns what the user did with it.
    ///
    /// # Errors
    /// As [`Call::elicit`], but declining is no error.
    pub async fn elicit_raw(
        &self,
        key: &str,
        message: &str,
        schema: Schema,
    ) -> Result<Elicited, ToolError> {
        self.ask(Ask::form_with_schema(key, message, schema)).await?.elicited(key)
    }

    /// Sends the user to a web page and returns whether they agreed to go.
    ///
    /// # Errors
    /// As [`Call::elicit`], but declining is no error.
    pub async fn elicit_url(
        &self,
        key: &str,
        message: &str,
        url: &str,
    ) -> Result<Elicited, ToolError> {
        self.ask(Ask::url(key, message, url)).await?.elicited(key)
    }

    /// Asks the client's model.
    ///
    /// # Errors
    /// When the client offers no sampling or refuses; in the modern era as [`Call::elicit`].
    pub async fn sample(&self, key: &str, sampling: Sampling) -> Result<Sampled, ToolError> {
        self.ask(Ask::sample(key, sampling)).await?.sampled(key)
    }

    /// Asks where the client works.
    ///
    /// # Errors
    /// When the client has no roots to offer; in the modern era as [`Call::elicit`].
    pub async fn list_roots(&self, key: &str) -> Result<Vec<Root>, ToolError> {
        self.ask(Ask::roots(key)).await?.roots(key)
    }

    /// Asks several things at once: one round in the modern era, as many requests at the same time in
    /// the legacy era.
    ///
    /// # Errors
    /// When the client cannot answer one of them; in the modern era as [`Call::elicit`].
    pub async fn ask_all(&self, asks: Vec<Ask>) -> Result<Answers, ToolError> {
        for ask in &asks {
            self.require(ask.capability())?;
        }
        match (self.task(), self.cx.era()) {
            (Some(task), _) => self.ask_through_task(task, asks).await,
            (None, Era::Modern) => self.answers_of_earlier_rounds(asks),
            (None, Era::Legacy) => self.ask_and_wait(asks).await,
        }
    }

    async fn ask(&self, ask: Ask) -> Result<Answers, ToolError> {
        self.ask_all(vec![ask]).await
    }

    fn answers_of_earlier_rounds(&self, asks: Vec<Ask>) -> Result<Answers, ToolError> {
        let mut answers = BTreeMap::new();
        let mut open = Vec::new();
        for ask in asks {
            match self.rounds.answer(&ask) {
                Some(answer) => drop(answers.insert(ask.key().to_owned(), answer)),
                None => open.push(ask),
            }
        }
        if open.is_empty() {
            return Ok(Answers(answers));
        }
        Err(self.rounds.interrupt(open, &self.request, &self.cx))
    }

    /// Asks everything at once and waits for all answers, in whatever order they come.
    async fn ask_through_task(&self, task: &Task, asks: Vec<Ask>) -> Result<Answers, ToolError> {
        let tell = || self.server.0.changes.tell(&Change::Task(task.id().to_owned()));
        let mut answers = BTreeMap::new();
        let mut open = Vec::new();
        for ask in asks {
            match self.rounds.answer(&ask) {
                Some(answer) => drop(answers.insert(ask.key().to_owned(), answer)),
                None => open.push((ask.key().to_owned(), Box::pin(task.ask(ask, tell)))),
            }
        }
        all(open, &mut answers).await.map_err(refused)?;
        Ok(Answers(answers))
    }

    async fn ask_and_wait(&self, asks: Vec<Ask>) -> Result<Answers, ToolError> {
        let mut answers = BTreeMap::new();
        let asked = asks.into_iter();
        let open = asked.map(|ask| (ask.key().to_owned(), Box::pin(self.ask_client(ask))));
        all(open.collect(), &mut answers).await?;
        Ok(Answers(answers))
    }

    async fn ask_client(&self, ask: Ask) -> Result<Box<RawValue>, ToolError> {
        let params = ask.params(self.revision(), None);
        let answer = self.cx.ask(ask.method(), &params).await.map_err(refused)?;
        let answer: Box<RawValue> = serde_json::from_slice(&answer)?;
        if !ask.accepts(&answer) {
            let problem = format!("The client's answer to {} is not valid.", ask.method());
            return Err(ToolError::new(problem));
        }
        Ok(answer)
    }
}

/// Waits for the answers to all questions, in whatever order they come, or for the first failure.
async fn all<F, E>(
    mut open: Vec<(String, Pin<Box<F>>)>,
    answers: &mut BTreeMap<String, Box<RawValue>>,
) -> Result<(), E>
where
    F: Future<Output = Result<Box<RawValue>, E>>,
{
    // Each question is seen once its future was polled, so all are polled before any is awaited.
    poll_fn(|cx| {
        let mut failed = None;
        open.retain_mut(|(key, asking)| match asking.as_mut().poll(cx) {
            Poll::Ready(Ok(answer)) => {
                answers.insert(std::mem::take(key), answer);
                false
            }
            Poll::Ready(Err(error)) => {
                failed.get_or_insert(error);
                false
            }
            Poll::Pending => true,
        });
        match failed {
            Some(error) => Poll::Ready(Err(error)),
            None if open.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("request", &self.request).field("cx", &self.cx).finish()
    }
}

/// A client that refuses a question fails the tool, not the protocol.
fn refused(error: RpcError) -> ToolError {
    ToolError::new(format!("The client did not answer: {}", error.message))
}
