//! One call in progress: what a tool, prompt or resource function can ask and tell.
//!
//! The same functions serve both eras. In the legacy era a question is a server request the call
//! waits for; in the modern era it ends the call with `input_required`, and the function runs again
//! from its start when the client returns with the answer. A function that asks should therefore do
//! so before it changes anything.

use std::collections::BTreeMap;

use lyceum_http::{Context, Principal};
use lyceum_wire::{ClientCapabilities, Era, LogLevel, Request, Revision, RpcError};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::ask::{Answers, Ask, Elicited, Root, Sampled, Sampling};
use crate::error::{Capability, ToolError};
use crate::json::{number, object};
use crate::rounds::Rounds;
use crate::schema::Schema;
use crate::server::Server;
use crate::since;

/// One call in progress.
pub struct Call {
    pub(crate) cx: Context,
    pub(crate) request: Request,
    pub(crate) server: Server,
    rounds: Rounds,
}

impl Call {
    /// # Errors
    /// When the request brings back state or answers that are not valid.
    pub(crate) fn new(server: Server, request: Request, cx: Context) -> Result<Self, RpcError> {
        let rounds = match cx.era() {
            Era::Modern => Rounds::read(&request, &cx)?,
            Era::Legacy => Rounds::default(),
        };
        Ok(Self { cx, request, server, rounds })
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

    /// The endpoint's name: its path, or `stdio`.
    pub fn endpoint(&self) -> &str {
        &self.cx.endpoint
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
        if !self.wants_log(level) {
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

    /// Asks several things at once: one round in the modern era, one after the other in the legacy
    /// era.
    ///
    /// # Errors
    /// When the client cannot answer one of them; in the modern era as [`Call::elicit`].
    pub async fn ask_all(&self, asks: Vec<Ask>) -> Result<Answers, ToolError> {
        for ask in &asks {
            self.require(ask.capability())?;
        }
        match self.cx.era() {
            Era::Modern => self.answers_of_earlier_rounds(asks),
            Era::Legacy => self.ask_and_wait(asks).await,
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

    async fn ask_and_wait(&self, asks: Vec<Ask>) -> Result<Answers, ToolError> {
        let mut answers = BTreeMap::new();
        for ask in asks {
            let params = ask.params(self.revision(), ask.key());
            let answer = self.cx.ask(ask.method(), &params).await.map_err(refused)?;
            let answer: Box<RawValue> = serde_json::from_slice(&answer)?;
            if !ask.accepts(&answer) {
                let problem = format!("The client's answer to {} is not valid.", ask.method());
                return Err(ToolError::new(problem));
            }
            answers.insert(ask.key().to_owned(), answer);
        }
        Ok(Answers(answers))
    }
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
