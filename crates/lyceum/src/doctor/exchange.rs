//! One request and what came back, over a connection of its own, in bounded time and space.

use anyhow::bail;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use lyceum_http::sse::Decoder;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::ask::Ask;
use super::target::Target;

/// Bytes of an answer that are looked at.
const MAX_BODY: usize = 4 << 20;

/// What an answer is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// JSON.
    Json,
    /// An event stream.
    Sse,
    /// No body.
    Empty,
    /// Anything else.
    Other,
}

/// An answer, as far as it was waited for.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) form: Form,
    /// The JSON-RPC messages in it.
    pub(super) messages: Vec<Value>,
}

impl Target {
    /// Sends a request and waits for as much of the answer as tells something.
    pub(super) async fn send(&self, ask: &Ask) -> anyhow::Result<Seen> {
        let deadline = Instant::now() + self.patience;
        let stream = self.connect().await?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        // Dropped with everything it drives, however this ends.
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let response = timeout_at(deadline, sender.send_request(self.request(ask)?)).await;
        let response = match response {
            Ok(response) => response?,
            Err(_) => bail!("no answer within {} s", self.patience.as_secs()),
        };
        let (head, body) = response.into_parts();
        let form = form(&head.headers);
        let wait = if ask.head_only { Instant::now() } else { deadline };
        let messages = read(form, body, wait).await;
        let form = if messages.is_none() { Form::Empty } else { form };
        let messages = messages.unwrap_or_default();
        Ok(Seen { status: head.status.as_u16(), headers: head.headers, form, messages })
    }

    fn request(&self, ask: &Ask) -> anyhow::Result<Request<Full<Bytes>>> {
        let path = ask.path.as_deref().unwrap_or(&self.path);
        let mut request = Request::new(Full::new(ask.body.clone()));
        *request.method_mut() = ask.method.clone();
        *request.uri_mut() = path.parse()?;
        let headers = request.headers_mut();
        headers.insert(HOST, self.authority.clone());
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        for (name, value) in &ask.headers {
            headers.insert(*name, HeaderValue::try_from(value)?);
        }
        Ok(request)
    }
}

fn form(headers: &HeaderMap) -> Form {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match media.split(';').next().map(str::trim) {
        Some(media) if media.eq_ignore_ascii_case("application/json") => Form::Json,
        Some(media) if media.eq_ignore_ascii_case("text/event-stream") => Form::Sse,
        _ => Form::Other,
    }
}

/// The messages of a body; `None` when there is no body at all.
///
/// An event stream is read until an answer, its end or the deadline, whichever comes first.
async fn read(form: Form, mut body: Incoming, deadline: Instant) -> Option<Vec<Value>> {
    let mut whole = Vec::new();
    let mut decoder = Decoder::new(MAX_BODY);
    let mut messages = Vec::new();
    while let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await {
        let Ok(data) = frame.into_data() else { continue };
        if form != Form::Sse {
            whole.extend_from_slice(&data);
            if whole.len() > MAX_BODY {
                break;
            }
            continue;
        }
        whole.push(b' ');
        decoder.push(&data);
        while let Ok(Some(event)) = decoder.next_event() {
            messages.extend(serde_json::from_slice::<Value>(&event.data).ok());
        }
        if messages.iter().any(is_answer) {
            break;
        }
    }
    if form == Form::Json {
        messages.extend(serde_json::from_slice::<Value>(&whole).ok());
    }
    (!whole.is_empty() || form == Form::Sse).then_some(messages)
}

fn is_answer(message: &Value) -> bool {
    message.get("result").is_some() || message.get("error").is_some()
}

impl Seen {
    /// The result, if there is one.
    pub(super) fn result(&self) -> Option<&Value> {
        self.messages.iter().find_map(|message| message.get("result"))
    }

    /// The error's code, if there is one.
    pub(super) fn code(&self) -> Option<i64> {
        self.messages.iter().find_map(|message| message.get("error")?.get("code")?.as_i64())
    }

    /// Whether it is an HTTP success with a result.
    pub(super) fn succeeded(&self) -> bool {
        self.status == 200 && self.result().is_some()
    }

    /// Whether it is an HTTP error.
    pub(super) fn refused(&self) -> bool {
        (400..500).contains(&self.status)
    }

    /// A header's text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// A few words: `200 json`, `404 json -32601`.
    pub(super) fn describe(&self) -> String {
        let form = match self.form {
            Form::Json => " json",
            Form::Sse => " sse",
            Form::Empty => "",
            Form::Other => " other",
        };
        let code = self.code().map(|code| format!(" {code}")).unwrap_or_default();
        format!("{}{form}{code}", self.status)
    }
}
