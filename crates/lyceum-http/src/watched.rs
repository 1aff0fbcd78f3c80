//! A service that tells its connection's [`Watch`] when requests come and answers end.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::connections::{InFlight, Watch};

/// A tower service for one connection, in the form hyper takes.
///
/// The service must be ready at all times, as an [`Endpoint`](crate::Endpoint) is: a server sheds
/// load by answering, not by leaving requests unread.
pub(crate) struct Watched<S> {
    service: S,
    watch: Arc<Watch>,
}

impl<S> Watched<S> {
    pub(crate) fn new(service: S, watch: Arc<Watch>) -> Self {
        Self { service, watch }
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
        WatchedFuture { answer: service.call(request), in_flight: Some(self.watch.request()) }
    }
}

pin_project! {
    pub(crate) struct WatchedFuture<F> {
        #[pin]
        answer: F,
        in_flight: Option<InFlight>,
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
        let in_flight = this.in_flight.take();
        Poll::Ready(answer.map(|response| response.map(|body| WatchedBody { body, in_flight })))
    }
}

pin_project! {
    pub(crate) struct WatchedBody<B> {
        #[pin]
        body: B,
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
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
