//! [`Exchange`]: one HTTP request and what comes back, within bounds.
//!
//! Knows statuses and content types, not JSON-RPC. Redirects are never followed, compressed answers
//! never asked for, and no more of a body is held than the limits allow.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use lyceum_wire::RpcError;
use tower_service::Service;

use super::error::{BoxError, ClientError, NoCredentials, RefusedStatus};
use super::limits::Limits;
use super::response::error_in;
use super::stream::Messages;

/// How long an idle connection is kept. Many servers hang up after five seconds, and a request that
/// crosses with the hang-up is lost.
const IDLE: Duration = Duration::from_secs(4);
/// How much of a refusal is read.
const MAX_REFUSAL: usize = 64 << 10;
/// How much of it is quoted.
const MAX_EXCERPT: usize = 200;
/// How much of a body nobody needs is read, and for how long, in the hope that it ends.
const MAX_REST: usize = 64 << 10;
const REST_TIME: Duration = Duration::from_secs(1);

const JSON_AND_EVENTS: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The event after which a stream is to go on.
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The body of a request. Clones share the bytes, for stacks that send a request again.
#[derive(Clone, Debug, Default)]
pub struct RequestBody(Full<Bytes>);

impl Body for RequestBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

pub(crate) type ReplyBody = UnsyncBoxBody<Bytes, BoxError>;

type Sent = Pin<Box<dyn Future<Output = Result<Response<ReplyBody>, BoxError>> + Send>>;

/// Sends requests by whatever HTTP stack it was given.
#[derive(Clone)]
pub(crate) struct Exchange {
    send: Arc<dyn Fn(Request<RequestBody>) -> Sent + Send + Sync>,
    limits: Limits,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// What the server answered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) headers: HeaderMap,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    /// 2xx without a message.
    Nothing,
    /// 2xx with a JSON body.
    Json(Bytes),
    /// 2xx with an event stream.
    Events(Box<Messages>),
    /// Any other status.
    Refused(Refused),
}

/// A status that says no.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: RefusedStatus,
    /// The JSON-RPC error in the body, whatever its id.
    pub(crate) error: Option<RpcError>,
}

impl From<Refused> for ClientError {
    fn from(refused: Refused) -> ClientError {
        // A challenge is what the caller can act on, even if there is an error object too.
        match refused.error {
            Some(error) if refused.status.challenge.is_none() => ClientError::Rpc(error),
            _ => ClientError::Status(refused.status),
        }
    }
}

impl Exchange {
    /// Over any HTTP stack.
    pub(crate) fn over<S, B>(service: S, limits: Limits) -> Exchange
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let send = move |request: Request<RequestBody>| -> Sent {
            let mut service = service.clone();
            Box::pin(async move {
                poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
                let response = service.call(request).await.map_err(Into::into)?;
                Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
            })
        };
        Exchange { send: Arc::new(send), limits }
    }

    /// Over plain HTTP.
    pub(crate) fn plain(limits: Limits) -> Exchange {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_secs(10)));
        connector.set_keepalive(Some(Duration::from_secs(60)));
        let client: legacy::Client<_, RequestBody> = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(32)
            .build(connector);
        Exchange::over(client, limits)
    }

    pub(crate) async fn post(
        &self,
        url: &Uri,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Reply, ClientError> {
        self.send(url, post(headers, body)).await
    }

    /// Posts a message that is answered elsewhere or not at all; whatever comes back with a yes is
    /// not even read.
    pub(crate) async fn deliver(
        &self,
        url: &Uri,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Option<Refused>, ClientError> {
        let response = self.exchange(url, post(headers, body)).await?;
        let (parts, body) = response.into_parts();
        if parts.status.is_success() {
            discard(body);
            return Ok(None);
        }
        Ok(Some(refused(parts.status, &parts.headers, body).await))
    }

    /// Fetches a JSON document.
    pub(crate) async fn get_json(
        &self,
        url: &Uri,
        headers: &HeaderMap,
    ) -> Result<Reply, ClientError> {
        let mut request = Request::new(RequestBody::default());
        *request.headers_mut() = headers.clone();
        request.headers_mut().insert(header::ACCEPT, JSON);
        self.send(url, request).await
    }

    pub(crate) async fn get_events(
        &self,
        url: &Uri,
        headers: &HeaderMap,
    ) -> Result<Reply, ClientError> {
        let mut request = Request::new(RequestBody::default());
        *request.headers_mut() = headers.clone();
        request.headers_mut().insert(header::ACCEPT, EVENTS);
        self.send(url, request).await
    }

    pub(crate) async fn delete(
        &self,
        url: &Uri,
        headers: &HeaderMap,
    ) -> Result<Reply, ClientError> {
        let mut request = Request::new(RequestBody::default());
        *request.method_mut() = Method::DELETE;
        *request.headers_mut() = headers.clone();
        self.send(url, request).await
    }

    async fn exchange(
        &self,
        url: &Uri,
        mut request: Request<RequestBody>,
    ) -> Result<Response<ReplyBody>, ClientError> {
        *request.uri_mut() = url.clone();
        (self.send)(request).await.map_err(failure)
    }

    async fn send(&self, url: &Uri, request: Request<RequestBody>) -> Result<Reply, ClientError> {
        let (parts, body) = self.exchange(url, request).await?.into_parts();
        let coded = parts.headers.get(header::CONTENT_ENCODING);
        if coded.is_some_and(|coding| coding != "identity") {
            return Err(ClientError::protocol("it compressed an answer nobody asked to compress"));
        }
        let content = if parts.status.is_success() {
            self.accepted(parts.status, &parts.headers, body).await?
        } else {
            Content::Refused(refused(parts.status, &parts.headers, body).await)
        };
        Ok(Reply { headers: parts.headers, content })
    }

    async fn accepted(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: ReplyBody,
    ) -> Result<Content, ClientError> {
        if media_type(headers) == "text/event-stream" && status == StatusCode::OK {
            return Ok(Content::Events(Box::new(Messages::new(body, self.limits.event))));
        }
        if status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT {
            discard(body);
            return Ok(Content::Nothing);
        }
        let body = collect(body, self.limits.body).await?;
        let kind = media_type(headers);
        match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
            None => Ok(Content::Nothing),
            // Some plain JSON servers do not name their content type.
            Some(b'{' | b'[') if kind != "text/html" => Ok(Content::Json(body)),
            Some(_) => Err(ClientError::protocol(format!(
                "it answered with content type \"{kind}\": {}",
                excerpt(&body)
            ))),
        }
    }
}

fn post(headers: &HeaderMap, body: Bytes) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody(Full::new(body)));
    *request.method_mut() = Method::POST;
    *request.headers_mut() = headers.clone();
    request.headers_mut().insert(header::CONTENT_TYPE, JSON);
    request.headers_mut().insert(header::ACCEPT, JSON_AND_EVENTS);
    request
}

/// Lets go of a body nobody needs. It is read to its end, if that is near, because only then its
/// connection can be used again.
pub(crate) fn discard(mut body: ReplyBody) {
    let mut context = Context::from_waker(Waker::noop());
    if body.is_end_stream()
        || matches!(Pin::new(&mut body).poll_frame(&mut context), Poll::Ready(None))
    {
        return;
    }
    tokio::spawn(tokio::time::timeout(REST_TIME, async move {
        let mut n_bytes = 0;
        while let Some(Ok(frame)) = body.frame().await {
            n_bytes += frame.data_ref().map_or(0, Bytes::len);
            if n_bytes > MAX_REST {
                return;
            }
        }
    }));
}

/// Reads a whole body of at most `limit` bytes.
async fn collect(mut body: ReplyBody, limit: usize) -> Result<Bytes, ClientError> {
    let too_large = ClientError::TooLarge { what: "the server's answer", limit };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large);
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(ClientError::Broken)?.into_data() else { continue };
        if first.len() + rest.len() + data.len() > limit {
            return Err(too_large);
        }
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    Ok([first, rest.freeze()].concat().into())
}

async fn refused(status: StatusCode, headers: &HeaderMap, body: ReplyBody) -> Refused {
    // The status says enough if the body cannot be had.
    let body = collect(body, MAX_REFUSAL).await.unwrap_or_default();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Refused {
        error: error_in(&body),
        status: RefusedStatus {
            status,
            challenge: text(header::WWW_AUTHENTICATE),
            location: text(header::LOCATION),
            excerpt: excerpt(&body),
        },
    }
}

fn failure(error: BoxError) -> ClientError {
    if error.is::<NoCredentials>() {
        return ClientError::Credentials(error);
    }
    match error.downcast_ref::<legacy::Error>() {
        Some(known) if known.is_connect() => ClientError::Unreachable(error),
        _ => ClientError::Broken(error),
    }
}

fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// How a body starts, fit for one line of a log.
fn excerpt(body: &[u8]) -> String {
    let start = &body[..body.len().min(MAX_EXCERPT)];
    let text = String::from_utf8_lossy(start);
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace(char::is_control, "")
}
