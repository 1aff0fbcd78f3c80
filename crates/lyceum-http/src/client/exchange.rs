//! [`Exchange`]: one HTTP request after the other, over whatever HTTP stack there is.
//!
//! Knows methods and headers, not JSON-RPC; what comes back is [`reply`](super::reply)'s business.
//! Redirects are never followed and compressed answers never asked for.

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper_util::client::legacy;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::error::{BoxError, ClientError, NoCredentials};
use super::http1::Outgoing;
use super::limits::Limits;
use super::plain::Plain;
use super::reply::{Content, Refused, Reply, Wanted, receive};
use crate::byte_budget::Payer;

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
    type Error = Infallible;

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

type Sent = Pin<Box<dyn Future<Output = Result<Reply, ClientError>> + Send>>;
type Sending = dyn Fn(Request<RequestBody>, Wanted, Option<Payer>) -> Sent + Send + Sync;

/// Sends requests by whatever HTTP stack it was given.
#[derive(Clone)]
pub(crate) struct Exchange {
    stack: Stack,
    wanted: Wanted,
    greeting: Wanted,
}

#[derive(Clone)]
enum Stack {
    /// Our own: the usual case, and cheaper because its type is known.
    Plain(Plain),
    Other(Arc<Sending>),
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

impl Exchange {
    /// Over any HTTP stack.
    pub(crate) fn over<S, B>(service: S, limits: &Limits) -> Exchange
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let send = move |request: Request<RequestBody>, wanted: Wanted, payer| -> Sent {
            let mut service = service.clone();
            // The answer is read in here too, so that most bodies need no box of their own.
            Box::pin(async move {
                let failed = |error: S::Error| failure(error.into());
                poll_fn(|cx| service.poll_ready(cx)).await.map_err(failed)?;
                let response = service.call(request).await.map_err(failed)?;
                let (head, body) = response.into_parts();
                receive(head.status, head.headers.into(), body, wanted, payer).await
            })
        };
        Exchange::new(Stack::Other(Arc::new(send)), limits)
    }

    /// Over plain HTTP, to the origin of this URL.
    pub(crate) fn plain(url: &Uri, limits: &Limits) -> Exchange {
        Exchange::new(Stack::Plain(Plain::new(url)), limits)
    }

    fn new(stack: Stack, limits: &Limits) -> Exchange {
        let (wanted, greeting) = (Wanted::content(limits), Wanted::greeting(limits));
        Exchange { stack, wanted, greeting }
    }

    /// Posts a request with headers that are [`for_posts`]; `payer` is charged for its answer.
    pub(crate) fn post(
        &self,
        url: &Uri,
        headers: HeaderMap,
        body: Bytes,
        payer: Option<Payer>,
    ) -> impl Future<Output = Result<Reply, ClientError>> + Send {
        self.send(posting(url, headers, body), self.wanted, payer)
    }

    /// Posts a request to whose answer nobody may give much room.
    pub(crate) fn greet(
        &self,
        url: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> impl Future<Output = Result<Reply, ClientError>> + Send {
        self.send(posting(url, headers, body), self.greeting, None)
    }

    /// Posts a message that is answered elsewhere or not at all; whatever comes back with a yes is
    /// of no interest. The headers are [`for_posts`].
    pub(crate) async fn deliver(
        &self,
        url: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Option<Refused>, ClientError> {
        match self.send(posting(url, headers, body), Wanted::Nothing, None).await?.content {
            Content::Refused(refused) => Ok(Some(refused)),
            _ => Ok(None),
        }
    }

    /// Fetches a JSON document.
    pub(crate) async fn get_json(
        &self,
        url: &Uri,
        mut headers: HeaderMap,
    ) -> Result<Reply, ClientError> {
        headers.insert(header::ACCEPT, JSON);
        self.send(empty(Method::GET, url, headers), self.wanted, None).await
    }

    /// Opens an event stream; `payer` is charged for its events.
    pub(crate) async fn get_events(
        &self,
        url: &Uri,
        mut headers: HeaderMap,
        payer: Option<Payer>,
    ) -> Result<Reply, ClientError> {
        headers.insert(header::ACCEPT, EVENTS);
        self.send(empty(Method::GET, url, headers), self.wanted, payer).await
    }

    pub(crate) async fn delete(&self, url: &Uri, headers: HeaderMap) -> Result<(), ClientError> {
        self.send(empty(Method::DELETE, url, headers), Wanted::Nothing, None).await.map(drop)
    }

    fn send(
        &self,
        outgoing: Outgoing<'_>,
        wanted: Wanted,
        payer: Option<Payer>,
    ) -> impl Future<Output = Result<Reply, ClientError>> + Send {
        match &self.stack {
            Stack::Plain(plain) => OnItsWay::Plain { sent: plain.send(outgoing, wanted, payer) },
            Stack::Other(send) => OnItsWay::Other { sent: send(request(outgoing), wanted, payer) },
        }
    }
}

fn posting(url: &Uri, headers: HeaderMap, body: Bytes) -> Outgoing<'_> {
    Outgoing { method: Method::POST, url, headers, body }
}

fn empty(method: Method, url: &Uri, headers: HeaderMap) -> Outgoing<'_> {
    Outgoing { method, url, headers, body: Bytes::new() }
}

/// The request as other stacks know it. They add the length of its body.
fn request(outgoing: Outgoing<'_>) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody(Full::new(outgoing.body)));
    *request.method_mut() = outgoing.method;
    *request.uri_mut() = outgoing.url.clone();
    *request.headers_mut() = outgoing.headers;
    request
}

pin_project! {
    /// A request on its way, over either stack. An async block would have room for it twice.
    #[project = OnItsWayProjection]
    enum OnItsWay<F> {
        Plain { #[pin] sent: F },
        Other { sent: Sent },
    }
}

impl<F: Future<Output = Result<Reply, ClientError>>> Future for OnItsWay<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match self.project() {
            OnItsWayProjection::Plain { sent } => sent.poll(cx),
            OnItsWayProjection::Other { sent } => sent.as_mut().poll(cx),
        }
    }
}

/// These headers and those that every POST has. Made once and copied for each, which is cheaper than
/// to add them every time.
pub(crate) fn for_posts(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    headers.insert(header::CONTENT_TYPE, JSON);
    headers.insert(header::ACCEPT, JSON_AND_EVENTS);
    headers
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
