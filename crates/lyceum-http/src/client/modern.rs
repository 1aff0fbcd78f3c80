//! [`Modern`]: calls to a stateless server (2026-07-28), over HTTP or lines. Every request stands
//! alone and says everything about itself; to drop a call is to cancel it.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use lyceum_wire::{
    ErrorCode, Id, Member, Message, Object, Revision, RevisionSet, RpcError, elements,
    encode_value, required_name,
};

use super::call::Call;
use super::core::Core;
use super::error::ClientError;
use super::exchange::for_posts;
use super::handler::ServerNotification;
use super::input::InputRequired;
use super::line::Connection;
use super::listen::Source;
use super::listing::Pages;
use super::mailbox::Keeping;
use super::options::CallOptions;
use super::params::{CallParams, ConstantMeta, Meta, Retry};
use super::progress::Progress;
use super::remote::{PROTOCOL_VERSION, Remote};
use super::reply::{Content, Reply};
use super::response::{result_in, result_of};
use super::stream::Messages;
use super::tools::{self, Catalogue, Tool};

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// What is called most.
const CALL: &str = "tools/call";

/// Asks a server what it is.
pub(crate) const DISCOVER: &str = "server/discover";

/// A stateless server.
#[derive(Debug)]
pub(crate) struct Modern {
    core: Arc<Core>,
    way: Way,
    language: RwLock<Language>,
    /// What it answered to `server/discover`.
    pub(crate) greeting: Bytes,
    tools: Catalogue,
}

/// The version that is spoken, and the headers of a tool call in it. Each call has a copy of them,
/// which is cheaper than to make them; what differs is replaced.
#[derive(Debug)]
struct Language {
    revision: Revision,
    headers: HeaderMap,
    meta: ConstantMeta,
}

impl Language {
    fn new(revision: Revision, way: &Way) -> Language {
        let meta = ConstantMeta::new(revision, &way.core().info);
        let mut headers = match way {
            Way::Http(remote) => for_posts(&remote.headers),
            Way::Line(_) => HeaderMap::new(),
        };
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
        headers.insert(METHOD, HeaderValue::from_static(CALL));
        headers.insert(NAME, HeaderValue::from_static(""));
        Language { revision, headers, meta }
    }
}

/// How a stateless server is reached.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    Http(Arc<Remote>),
    Line(Arc<Connection>),
}

impl Way {
    fn core(&self) -> &Arc<Core> {
        match self {
            Way::Http(remote) => &remote.core,
            Way::Line(connection) => &connection.line.core,
        }
    }
}

impl Modern {
    pub(crate) fn new(way: Way, revision: Revision, greeting: Bytes) -> Modern {
        let core = Arc::clone(way.core());
        let language = RwLock::new(Language::new(revision, &way));
        Modern { core, way, language, greeting, tools: Catalogue::default() }
    }

    /// The connection, if there is one to speak of.
    pub(crate) fn connection(&self) -> Option<&Connection> {
        match &self.way {
            Way::Http(_) => None,
            Way::Line(connection) => Some(connection),
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.language().revision
    }

    /// Calls and sees the call through: other version, other headers, input rounds.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: &CallParams<'_>,
        options: &CallOptions,
    ) -> Result<Bytes, ClientError> {
        let call = Call::new(&self.core, method, params, options);
        call.watch(pin!(self.rounds(&call))).await
    }

    /// All tools that may be called.
    pub(crate) async fn list_tools(&self) -> Result<Vec<Tool>, ClientError> {
        let mut pages = Pages::new("tools", &self.core.limits);
        while let Some(params) = pages.next() {
            let params = CallParams::parse(&params)?;
            pages.take(&self.call("tools/list", &params, &CallOptions::new()).await?)?;
        }
        Ok(match &self.way {
            Way::Http(_) => self.tools.learn(pages.into_items()),
            // What the annotations are for does not exist there.
            Way::Line(_) => tools::read(pages.into_items()),
        })
    }

    /// Opens the stream of a `subscriptions/listen`.
    pub(crate) async fn open_stream(&self, call: &Call<'_>) -> Result<(Id, Source), ClientError> {
        let id = self.core.next_id();
        let body = self.body(call, &id, &Retry::default());
        let remote = match &self.way {
            Way::Http(remote) => remote,
            Way::Line(connection) => {
                let sent = connection.line.send(call, &id, body, Keeping::Subscriptions).await?;
                return Ok((id, Source::Line(sent)));
            }
        };
        match self.post(remote, call, body).await?.content {
            Content::Events(messages) => Ok((id, Source::Stream(messages))),
            Content::Refused(refused) => Err(refused.into()),
            Content::Json(body) => {
                result_in(&body, &id)?;
                Err(ClientError::protocol("it ended a subscription before it began"))
            }
            Content::Nothing => Err(unanswered()),
        }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
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
                Some(input) => retry = input.answer(call.handler(), &call.silence).await?,
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
                ErrorCode::HEADER_MISMATCH if call.method == CALL && !relisted => {
                    relisted = true;
                    Box::pin(self.list_tools()).await?;
                }
                _ => return Err(ClientError::Rpc(error)),
            }
            call.repeated();
        }
    }

    fn renegotiate(&self, error: RpcError) -> Result<(), ClientError> {
        let common = supported_in(&error).and_then(|(offered, _)| {
            self.core.versions.intersection(offered).intersection(RevisionSet::MODERN).iter().next()
        });
        let Some(common) = common else { return Err(ClientError::Rpc(error)) };
        let mut language = self.language.write().unwrap_or_else(PoisonError::into_inner);
        *language = Language::new(common, &self.way);
        Ok(())
    }

    fn language(&self) -> RwLockReadGuard<'_, Language> {
        self.language.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// One request and its answer.
    async fn exchange(&self, call: &Call<'_>, retry: &Retry) -> Result<Bytes, ClientError> {
        let id = self.core.next_id();
        let body = self.body(call, &id, retry);
        let remote = match &self.way {
            Way::Http(remote) => remote,
            Way::Line(connection) => {
                return result_of(&connection.line.call(call, &id, body).await?);
            }
        };
        match self.post(remote, call, body).await?.content {
            Content::Json(body) => result_in(&body, &id),
            Content::Events(messages) => {
                call.silence.heard();
                // Boxed, so that calls with a plain answer do not pay for its size.
                Box::pin(follow(call, &id, *messages)).await
            }
            Content::Refused(refused) => Err(refused.into()),
            Content::Nothing => Err(unanswered()),
        }
    }

    fn body(&self, call: &Call<'_>, id: &Id, retry: &Retry) -> Bytes {
        let language = self.language();
        let meta = Meta {
            constant: &language.meta,
            capabilities: call.options.capabilities.as_ref().unwrap_or(&self.core.capabilities),
            log_level: call.options.log_level,
        };
        call.params.modern(id, call.method, &meta, &call.options.progress, retry)
    }

    async fn post(
        &self,
        remote: &Remote,
        call: &Call<'_>,
        body: Bytes,
    ) -> Result<Reply, ClientError> {
        let headers = self.headers(call)?;
        match call.method {
            // Boxed, because it is rare and would make every call larger.
            DISCOVER => Box::pin(remote.exchange.greet(&remote.url, headers, body)).await,
            _ => remote.exchange.post(&remote.url, headers, body, call.payer()).await,
        }
    }

    /// The routing headers, which repeat parts of the body.
    fn headers(&self, call: &Call<'_>) -> Result<HeaderMap, ClientError> {
        let mut headers = self.language().headers.clone();
        if call.method != CALL {
            headers.insert(METHOD, header_value(call.method.into())?);
        }
        let Some(member) = required_name(call.method) else {
            headers.remove(NAME);
            return Ok(headers);
        };
        let member = match member {
            Member::Uri => "uri",
            Member::TaskId => "taskId",
            _ => "name",
        };
        let missing = || ClientError::InvalidParams(format!("\"{member}\" must be a string"));
        let name = call.params.text_of(member).ok_or_else(missing)?;
        let params = match call.method {
            CALL => self.tools.headers(&name)?,
            _ => None,
        };
        headers.insert(NAME, header_value(encode_value(&name))?);
        if let Some(params) = params {
            let arguments = call.params.get("arguments").map(str::as_bytes);
            for (name, value) in params.mirror(arguments) {
                let name = HeaderName::try_from(&name)
                    .map_err(|_| ClientError::InvalidParams(format!("no header name: {name}")))?;
                headers.insert(name, header_value(value.into())?);
            }
        }
        Ok(headers)
    }
}

/// Reads a call's stream to its answer.
async fn follow(call: &Call<'_>, id: &Id, mut messages: Messages) -> Result<Bytes, ClientError> {
    let progress = Progress::of(call, id);
    while let Some(message) = messages.next_message().await? {
        call.silence.heard();
        match message {
            Message::Response(response) if response.id == *id => {
                messages.release();
                return result_of(&response);
            }
            Message::Notification(notification) => {
                call.hear(ServerNotification::from(notification), progress.as_ref()).await;
            }
            _ => return Err(ClientError::protocol("it sent something else than our answer")),
        }
    }
    Err(ClientError::Interrupted)
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

fn header_value(text: Cow<'_, str>) -> Result<HeaderValue, ClientError> {
    let unfit = "its name or a parameter does not fit in a header";
    let value = match text {
        Cow::Borrowed(text) => HeaderValue::from_str(text),
        Cow::Owned(text) => HeaderValue::try_from(text),
    };
    value.map_err(|_| ClientError::InvalidParams(unfit.to_owned()))
}

fn unanswered() -> ClientError {
    ClientError::protocol("it accepted a request and did not answer it")
}
