//! Questions to the client: elicitation, sampling, roots; and what comes back.
//!
//! Only shapes live here. How a question travels (a server request, another round, a task's input)
//! is [`Call`](crate::Call)'s business.

use std::collections::BTreeMap;

use lyceum_http::random;
use lyceum_wire::Revision;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::annotations::Role;
use crate::content::Content;
use crate::error::{Capability, ToolError};
use crate::json::{Object, array, number, object};
use crate::schema::Schema;
use crate::since;
use crate::tasks::RELATED_TASK;

/// One question, under the key its answer comes back with.
#[derive(Debug, Clone)]
pub struct Ask {
    key: String,
    question: Question,
}

#[derive(Debug, Clone)]
enum Question {
    Form { message: String, schema: Schema },
    Url { message: String, url: String },
    Sample(Box<Sampling>),
    Roots,
}

/// What a person did with a question.
#[derive(Debug, Clone, PartialEq)]
pub enum Elicited {
    /// Answered it. Web pages (URL elicitation) return no content: it is null then.
    Accept(Value),
    /// Said no.
    Decline,
    /// Dismissed it.
    Cancel,
}

/// A request to the client's model.
#[derive(Debug, Clone, Default)]
pub struct Sampling {
    messages: Vec<(Role, Content)>,
    max_tokens: u32,
    system_prompt: Option<String>,
    temperature: Option<f64>,
}

/// What the client's model said.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Sampled {
    /// Who speaks: the assistant, normally.
    pub role: Role,
    /// One content block, or several, as the client sent them.
    pub content: Value,
    /// The model that answered.
    pub model: String,
    /// Why it stopped.
    pub stop_reason: Option<String>,
}

/// A place the client works in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Root {
    /// Its address, a `file:` URI.
    pub uri: String,
    /// Its name.
    pub name: Option<String>,
}

/// The answers to several questions.
#[derive(Debug, Clone)]
pub struct Answers(pub(crate) BTreeMap<String, Box<RawValue>>);

#[derive(Deserialize)]
struct ElicitResult {
    action: Action,
    #[serde(default)]
    content: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Accept,
    Decline,
    Cancel,
}

#[derive(Deserialize)]
struct ListRootsResult {
    roots: Vec<Root>,
}

impl Ask {
    /// A form with `T`'s fields.
    ///
    /// # Errors
    /// When `T` has fields a form cannot show.
    pub fn form<T: JsonSchema>(
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> Result<Self, ToolError> {
        Ok(Self::form_with_schema(key, message, Schema::form::<T>()?))
    }

    /// A form with the fields of a schema.
    pub fn form_with_schema(
        key: impl Into<String>,
        message: impl Into<String>,
        schema: Schema,
    ) -> Self {
        Self { key: key.into(), question: Question::Form { message: message.into(), schema } }
    }

    /// A web page to visit.
    pub fn url(key: impl Into<String>, message: impl Into<String>, url: impl Into<String>) -> Self {
        let question = Question::Url { message: message.into(), url: url.into() };
        Self { key: key.into(), question }
    }

    /// Something for the client's model.
    pub fn sample(key: impl Into<String>, sampling: Sampling) -> Self {
        Self { key: key.into(), question: Question::Sample(Box::new(sampling)) }
    }

    /// The client's roots.
    pub fn roots(key: impl Into<String>) -> Self {
        Self { key: key.into(), question: Question::Roots }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    pub(crate) fn capability(&self) -> Capability {
        match &self.question {
            Question::Form { .. } => Capability::Elicitation,
            Question::Url { .. } => Capability::UrlElicitation,
            Question::Sample(_) => Capability::Sampling,
            Question::Roots => Capability::Roots,
        }
    }

    pub(crate) fn method(&self) -> &'static str {
        match &self.question {
            Question::Form { .. } | Question::Url { .. } => "elicitation/create",
            Question::Sample(_) => "sampling/createMessage",
            Question::Roots => "roots/list",
        }
    }

    /// The request's params, on behalf of a task if there is one.
    pub(crate) fn params(&self, revision: Revision, task: Option<&str>) -> Vec<u8> {
        object(|params| {
            self.write_params(params, revision);
            if let Some(task) = task {
                let mut meta = Object::open(params.member("_meta"));
                let mut related = Object::open(meta.member(RELATED_TASK));
                related.field("taskId", task);
                related.close();
                meta.close();
            }
        })
    }

    fn write_params(&self, params: &mut Object<'_>, revision: Revision) {
        match &self.question {
            Question::Form { message, schema } => {
                params.field("message", message).raw("requestedSchema", schema.as_str().as_bytes());
            }
            Question::Url { message, url } => {
                params.field("mode", "url").field("message", message).field("url", url);
                if revision < since::MODERN {
                    let id = u128::from_be_bytes(random());
                    params.field("elicitationId", &format!("{id:032x}"));
                }
            }
            Question::Sample(sampling) => sampling.write(params, revision),
            Question::Roots => {}
        }
    }

    /// Writes the question as a value of `inputRequests`.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut request = Object::open(out);
        request.field("method", self.method()).raw("params", &self.params(since::MODERN, None));
        request.close();
    }

    /// Whether `answer` has the shape of an answer to this question.
    pub(crate) fn accepts(&self, answer: &RawValue) -> bool {
        match &self.question {
            Question::Form { .. } => {
                let result = serde_json::from_str::<ElicitResult>(answer.get());
                result.is_ok_and(|result| match result.action {
                    Action::Accept => result.content.is_object(),
                    Action::Decline | Action::Cancel => true,
                })
            }
            Question::Url { .. } => serde_json::from_str::<ElicitResult>(answer.get()).is_ok(),
            Question::Sample(_) => serde_json::from_str::<Sampled>(answer.get()).is_ok(),
            Question::Roots => serde_json::from_str::<ListRootsResult>(answer.get()).is_ok(),
        }
    }
}

impl Answers {
    /// What the person did with the form or page asked under `key`.
    ///
    /// # Errors
    /// When nothing was asked under `key`, or something else.
    pub fn elicited(&self, key: &str) -> Result<Elicited, ToolError> {
        let result: ElicitResult = self.read(key)?;
        Ok(match result.action {
            Action::Accept => Elicited::Accept(result.content),
            Action::Decline => Elicited::Decline,
            Action::Cancel => Elicited::Cancel,
        })
    }

    /// The filled-in form asked under `key`.
    ///
    /// # Errors
    /// When the person declined, or the answer does not fit `T`.
    pub fn form<T: DeserializeOwned>(&self, key: &str) -> Result<T, ToolError> {
        match self.elicited(key)? {
            Elicited::Accept(content) => T::deserialize(content).map_err(|error| {
                ToolError::new(format!("The answer to {key} does not fit: {error}"))
            }),
            Elicited::Decline => Err(ToolError::new(format!("The user declined to answer {key}."))),
            Elicited::Cancel => Err(ToolError::new(format!("The user dismissed {key}."))),
        }
    }

    /// What the model said to the request under `key`.
    ///
    /// # Errors
    /// When nothing was asked under `key`, or something else.
    pub fn sampled(&self, key: &str) -> Result<Sampled, ToolError> {
        self.read(key)
    }

    /// The roots asked for under `key`.
    ///
    /// # Errors
    /// When nothing was asked under `key`, or something else.
    pub fn roots(&self, key: &str) -> Result<Vec<Root>, ToolError> {
        self.read::<ListRootsResult>(key).map(|result| result.roots)
    }

    fn read<T: DeserializeOwned>(&self, key: &str) -> Result<T, ToolError> {
        let answer = self.0.get(key);
        let answer = answer.ok_or_else(|| ToolError::new(format!("nothing was asked as {key}")))?;
        Ok(serde_json::from_str(answer.get())?)
    }
}

impl Sampling {
    /// Asks for at most `max_tokens` tokens in answer to a user's `text`.
    pub fn new(text: impl Into<String>, max_tokens: u32) -> Self {
        let messages = vec![(Role::User, Content::text(text))];
        Self { messages, max_tokens, ..Self::default() }
    }

    /// Adds a message to the conversation.
    pub fn message(mut self, role: Role, content: impl Into<Content>) -> Self {
        self.messages.push((role, content.into()));
        self
    }

    /// Sets the system prompt.
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = Some(prompt.into());
        self
    }

    /// Sets the temperature.
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature);
        self
    }

    fn write(&self, params: &mut Object<'_>, revision: Revision) {
        array(params.member("messages"), &self.messages, |out, (role, content)| {
            let mut message = Object::open(out);
            message.field("role", role);
            content.encode(revision, message.member("content"));
            message.close();
        });
        params.optional("systemPrompt", self.system_prompt.as_ref());
        if let Some(temperature) = self.temperature.filter(|temperature| temperature.is_finite()) {
            number(params.member("temperature"), temperature);
        }
        params.field("maxTokens", &self.max_tokens);
    }
}

impl Sampled {
    /// The text of the answer; several text blocks are joined by line breaks.
    pub fn text(&self) -> String {
        let blocks: &[Value] = match &self.content {
            Value::Array(blocks) => blocks,
            block => std::slice::from_ref(block),
        };
        let texts = blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str));
        texts.collect::<Vec<_>>().join("\n")
    }
}
