//! [`Modern`]: calls to a stateless server (2026-07-28). Every request stands alone and says
//! everything about itself; to drop a call is to cancel it.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use lyceum_wire::{
    ErrorCode, Id, Member, Message, Notification, Object, Revision, RevisionSet, RpcError,
    elements, encode, encode_value, required_name,
};

use super::core::{Core, PROTOCOL_VERSION};
use super::error::ClientError;
use super::exchange::{Content, Reply};
use super::handler::Handler;
use super::input::InputRequired;
use super::listing::Pages;
use super::options::CallOptions;
use super::params::{CallerParams, Meta, Retry};
use super::progress::Progress;
use super::response::{result_in, result_of};
use super::silence::Silence;
use super::stream::Messages;
use super::tools::{Catalogue, Tool};

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// A stateless server.
#[derive(Debug)]
pub(crate) struct Modern {
    core: Arc<Core>,
    revision: RwLock<Revision>,
    /// What it answered to `server/discover`.
    pub(crate) greeting: Bytes,
    tools: Catalogue,
}

/// One call in all its rounds.
struct Call<'a> {
    method: &'a str,
    params: CallerParams<'a>,
    options: &'a CallOptions,
    silence: Arc<Silence>,
}

impl Modern {
    pub(crate) fn new(core: Arc<Core>, revision: Revision, greeting: Bytes) -> Modern {
        Modern { core, revision: RwLock::new(revision), greeting, tools: Catalogue::default() }
    }

    pub(crate) fn revision(&self) -> Revision {
        *self.revision.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls and sees the call through: other version, other headers, input rounds.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: &[u8],
        options: &CallOptions,
    ) -> Result<Bytes, ClientError> {
        let silence = Silence::new(options.silence.unwrap_or(self.core.limits.silence));
        let call = Call { method, params: CallerParams::parse(params)?, options, silence };
        call.silence.watch(self.rounds(&call)).await
    }

    /// All tools that may be called.
    pub(crate) async fn list_tools(&self) -> Result<Vec<Tool>, ClientError> {
        let mut pages = Pages::new("tools", &self.core.limits);
        while let Some(params) = pages.next() {
            pages.take(&self.call("tools/list", &params, &CallOptions::new()).await?)?;
        }
        self.tools.learn(pages.into_items())
    }

    /// Opens the stream of a `subscriptions/listen`.
    pub(crate) async fn open_stream(&self, params: &[u8]) -> Result<(Id, Messages), ClientError> {
        let options = CallOptions::new();
        let params = CallerParams::parse(params)?;
        let silence = Silence::new(self.core.limits.silence);
        let call = Call { method: "subscriptions/listen", params, options: &options, silence };
        let id = self.core.next_id();
        match call.silence.watch(self.send(&call, &id, &Retry::default())).await?.content {
            Content::Events(messages) => Ok((id, *messages)),
            Content::Refused(refused) => Err(refused.into()),
            Content::Json(body) => {
                result_in(&body, &id)?;
                Err(ClientError::protocol("it ended a subscription before it began"))
            }
            Content::Nothing => Err(unanswered()),
        }
    }

    async fn rounds(&self, call: &Call<'_>) -> Result<Bytes, ClientError> {
        let limits = &self.core.limits;
        let mut retry = Retry::default();
        for _ in 0..=limits.rounds {
            let result = self.round(call, &retry).await?;
            if call.options.hand_back_input {
                return Ok(result);
            }
            match InputRequired::read(call.method, &result, limits.server_requests)? {
                None => return Ok(result),
                Some(input) => retry = input.answer(self.handler(call), &call.silence).await?,
            }
        }
        Err(ClientError::TooManyRounds(limits.rounds))
    }

    /// One round, repeated if the server wants another version or has other headers in mind. Both
    /// refusals come before the server has done anything.
    async fn round(&self, call: &Call<'_>, retry: &Retry) -> Result<Bytes, ClientError> {
        let mut renegotiated = false;
        let mut relisted = false;
        loop {
            let error = match self.exchange(call, retry).await {
                Err(ClientError::Rpc(error)) => error,
                ended => return ended,
            };
            match error.code {
                ErrorCode::UNSUPPORTED_PROTOCOL_VERSION if !renegotiated => {
                    renegotiated = true;
                    self.renegotiate(error)?;
                }
                ErrorCode::HEADER_MISMATCH if call.method == "tools/call" && !relisted => {
                    relisted = true;
                    Box::pin(self.list_tools()).await?;
                }
                _ => return Err(ClientError::Rpc(error)),
            }
        }
    }

    fn renegotiate(&self, error: RpcError) -> Result<(), ClientError> {
        let common = supported_in(&error).and_then(|(offered, _)| {
            self.core.versions.intersection(offered).intersection(RevisionSet::MODERN).iter().next()
        });
        let Some(common) = common else { return Err(ClientError::Rpc(error)) };
        *self.revision.write().unwrap_or_else(PoisonError::into_inner) = common;
        Ok(())
    }

    /// One request and its answer.
    async fn exchange(&self, call: &Call<'_>, retry: &Retry) -> Result<Bytes, ClientError> {
        let id = self.core.next_id();
        let reply = self.send(call, &id, retry).await?;
        call.silence.heard();
        match reply.content {
            Content::Json(body) => result_in(&body, &id),
            Content::Events(messages) => self.follow(call, &id, *messages).await,
            Content::Refused(refused) => Err(refused.into()),
            Content::Nothing => Err(unanswered()),
        }
    }

    async fn send(&self, call: &Call<'_>, id: &Id, retry: &Retry) -> Result<Reply, ClientError> {
        let core = &self.core;
        let meta = Meta {
            revision: self.revision(),
            capabilities: call.options.capabilities.as_ref().unwrap_or(&core.capabilities),
            info: &core.info,
            log_level: call.options.log_level,
        };
        let token = call.options.progress.is_some().then_some(id);
        let params = call.params.modern(&meta, token, retry);
        let headers = self.headers(meta.revision, call)?;
        let body = encode::request(id, call.method, Some(&params));
        core.exchange.post(&core.url, &headers, body).await
    }

    /// The routing headers, which repeat parts of the body.
    fn headers(&self, revision: Revision, call: &Call<'_>) -> Result<HeaderMap, ClientError> {
        let mut headers = self.core.headers.clone();
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        headers.insert(METHOD, header_value(call.method)?);
        let Some(member) = required_name(call.method) else { return Ok(headers) };
        let member = match member {
            Member::Uri => "uri",
            Member::TaskId => "taskId",
            _ => "name",
        };
        let missing = || ClientError::InvalidParams(format!("\"{member}\" must be a string"));
        let name = call.params.text(member).ok_or_else(missing)?;
        headers.insert(NAME, header_value(&encode_value(&name))?);
        if call.method == "tools/call"
            && let Some(params) = self.tools.headers(&name)?
        {
            let arguments = call.params.get("arguments").map(str::as_bytes);
            for (name, value) in params.mirror(arguments) {
                let name = HeaderName::try_from(&name)
                    .map_err(|_| ClientError::InvalidParams(format!("no header name: {name}")))?;
                headers.insert(name, header_value(&value)?);
            }
        }
        Ok(headers)
    }

    async fn follow(
        &self,
        call: &Call<'_>,
        id: &Id,
        mut messages: Messages,
    ) -> Result<Bytes, ClientError> {
        let progress = Progress::of(call.options, &call.params, id);
        while let Some(message) = messages.next().await? {
            call.silence.heard();
            match message {
                Message::Response(response) if response.id == *id => {
                    messages.release();
                    return result_of(&response);
                }
                Message::Notification(Notification { method, params })
                    if !progress.as_ref().is_some_and(|mine| mine.takes(&method, &params)) =>
                {
                    self.handler(call).notification(&method, params.raw()).await;
                }
                Message::Notification(_) => {}
                _ => return Err(ClientError::protocol("it sent something else than our answer")),
            }
        }
        Err(ClientError::Interrupted)
    }

    fn handler<'a>(&'a self, call: &'a Call<'_>) -> &'a Handler {
        call.options.handler.as_ref().unwrap_or(&self.core.handler)
    }
}

/// The versions a server names, those known and all as it wrote them, in a `server/discover` result
/// (`supportedVersions`) or in the data of an "unsupported version" error (`supported`).
pub(crate) fn versions_in(raw: &[u8], member: &str) -> Option<(RevisionSet, String)> {
    let listed = Object::parse(raw).ok()?.get(member)?;
    let names = elements(listed)?;
    let names = names.iter().filter_map(|name| serde_json::from_str::<String>(name.get()).ok());
    let known = names.filter_map(|name| Revision::parse(&name)).collect();
    Some((known, listed.to_owned()))
}

/// The versions in an "unsupported version" error.
pub(crate) fn supported_in(error: &RpcError) -> Option<(RevisionSet, String)> {
    versions_in(error.data.as_ref()?, "supported")
}

fn header_value(text: &str) -> Result<HeaderValue, ClientError> {
    HeaderValue::from_str(text)
        .map_err(|_| ClientError::InvalidParams(format!("\"{text}\" does not fit in a header")))
}

fn unanswered() -> ClientError {
    ClientError::protocol("it accepted a request and did not answer it")
}
