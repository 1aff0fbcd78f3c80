//! A service that tells its connection's [`Watch`] when requests come and answers end, hands out answers
//! in pieces of a bounded size, and adds the header that all of them have.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::X_CONTENT_TYPE_OPTIONS;
use http::{HeaderValue, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::connections::{InFlight, Watch};
use crate::flow_stall::handed_out;

/// Has browsers take answers for what they say they are, and not for a page.
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// A tower service for one connection, in the form hyper takes.
///
/// The service must be ready at all times, as an [`Endpoint`](crate::Endpoint) is: a server sheds
/// load by answering, not by leaving requests unread.
pub(crate) struct Watched<S> {
    service: S,
    watch: Arc<Watch>,
    /// The most a body hands out at once.
    piece: usize,
}

impl<S> Watched<S> {
    pub(crate) fn new(service: S, watch: Arc<Watch>, piece: usize) -> Self {
        Self { service, watch, piece }
    }
}

impl<S, B> hyper::service::Service<Request<Incoming>> for Watched<S>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone,
{
    type Response = Response<WatchedBody<B>>;
    type Error = Infallible;
    type Future = WatchedFuture<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let mut service = self.service.clone();
        // Tower asks to be asked; the answer is yes by contract.
        let _ = service.poll_ready(&mut Context::from_waker(Waker::noop()));
        let in_flight = Some(self.watch.request());
        WatchedFuture { answer: service.call(request), in_flight, piece: self.piece }
    }
}

pin_project! {
    pub(crate) struct WatchedFuture<F> {
        #[pin]
        answer: F,
        in_flight: Option<InFlight>,
        piece: usize,
    }
}

impl<F, B> Future for WatchedFuture<F>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
{
    type Output = Result<Response<WatchedBody<B>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = std::task::ready!(this.answer.poll(cx));
        let (in_flight, piece) = (this.in_flight.take(), *this.piece);
        let watched = |body| WatchedBody { body, rest: Bytes::new(), piece, in_flight };
        Poll::Ready(answer.map(|mut response| {
            // Here, because every answer of every service passes.
            response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
            response.map(watched)
        }))
    }
}

pin_project! {
    pub(crate) struct WatchedBody<B> {
        #[pin]
        body: B,
        // What is left of data larger than a piece.
        rest: Bytes,
        piece: usize,
        in_flight: Option<InFlight>,
    }
}

impl<B: Body<Data = Bytes>> Body for WatchedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let polled = if this.rest.is_empty() {
            this.body.poll_frame(cx)
        } else {
            Poll::Ready(Some(Ok(Frame::data(std::mem::take(this.rest)))))
        };
        handed_out(matches!(polled, Poll::Ready(Some(Ok(_)))));
        let piece = |frame: Frame<Bytes>| match frame.into_data() {
            Ok(mut data) if data.len() > *this.piece => {
                *this.rest = data.split_off(*this.piece);
                Frame::data(data)
            }
            Ok(data) => Frame::data(data),
            Err(trailers) => trailers,
        };
        polled.map(|frame| frame.map(|frame| frame.map(piece)))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
