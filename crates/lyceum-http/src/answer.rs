//! Answers as bytes: the response body, and the few headers every answer shares.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use lyceum_wire::{Id, RpcError, encode};

use crate::authenticate::Lapse;
use crate::byte_budget::UNCOUNTED_BYTES;
use crate::sse;
use crate::stream::EventStream;

/// The media type of JSON answers.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, no-transform");
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");
const NO: HeaderValue = HeaderValue::from_static("no");

/// The body of an answer: whole, or a stream of events.
#[derive(Debug)]
pub struct AnswerBody(Kind);

#[derive(Debug)]
enum Kind {
    Whole(Bytes),
    /// A large message and what stands around it.
    Pieces(Box<[Bytes; 3]>),
    Events(Pin<Box<EventStream>>),
}

impl AnswerBody {
    /// A body that is known in full.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Whole(bytes.into()))
    }

    pub(crate) fn events(events: EventStream) -> Self {
        Self(Kind::Events(Box::pin(events)))
    }

    /// Ends an event stream once what `lapse` gives completes, as if its client had hung up. What is
    /// known in full stays as it is.
    pub(crate) fn end_at(&mut self, lapse: impl FnOnce() -> Option<Lapse>) {
        if let Kind::Events(events) = &mut self.0 {
            events.as_mut().end_at(lapse());
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Kind::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Pieces(pieces) => {
                let next = pieces.iter_mut().find(|piece| !piece.is_empty());
                Poll::Ready(next.map(|piece| Ok(Frame::data(std::mem::take(piece)))))
            }
            Kind::Events(events) => {
                let frame = ready!(events.as_mut().poll_frame(cx));
                Poll::Ready(frame.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(bytes) => bytes.is_empty(),
            Kind::Pieces(pieces) => pieces.iter().all(Bytes::is_empty),
            Kind::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Pieces(pieces) => {
                SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum())
            }
            Kind::Events(_) => SizeHint::default(),
        }
    }
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Response<AnswerBody> {
    with_status(status, AnswerBody::whole(Bytes::new()))
}

/// A JSON document.
pub(crate) fn json(status: StatusCode, document: impl Into<Bytes>) -> Response<AnswerBody> {
    json_in(HeaderMap::new(), status, document.into())
}

/// A JSON document whose headers are put into `headers`.
pub(crate) fn json_in(
    mut headers: HeaderMap,
    status: StatusCode,
    document: Bytes,
) -> Response<AnswerBody> {
    headers.insert(CONTENT_TYPE, JSON);
    let mut response = with_status(status, AnswerBody::whole(document));
    *response.headers_mut() = headers;
    response
}

/// A JSON-RPC error as a JSON document.
pub(crate) fn error(status: StatusCode, id: Option<&Id>, error: &RpcError) -> Response<AnswerBody> {
    json(status, encode::error(id, error))
}

/// One JSON-RPC message as a complete event stream. Its length is known, so it goes out in one
/// write and needs no chunked encoding.
pub(crate) fn single_event(message: Bytes) -> Response<AnswerBody> {
    single_event_in(HeaderMap::new(), message)
}

/// The same, its headers put into `headers`.
pub(crate) fn single_event_in(headers: HeaderMap, message: Bytes) -> Response<AnswerBody> {
    let body = match message.len() > UNCOUNTED_BYTES {
        true => AnswerBody(Kind::Pieces(Box::new(sse::message_pieces(None, message)))),
        false => AnswerBody::whole(sse::message_frame(&message)),
    };
    event_stream_in(headers, body)
}

/// An event stream.
pub(crate) fn event_stream(body: AnswerBody) -> Response<AnswerBody> {
    event_stream_in(HeaderMap::new(), body)
}

fn event_stream_in(mut headers: HeaderMap, body: AnswerBody) -> Response<AnswerBody> {
    headers.insert(CONTENT_TYPE, EVENT_STREAM);
    headers.insert(CACHE_CONTROL, NO_CACHE);
    headers.insert(UNBUFFERED, NO);
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    response
}

fn with_status(status: StatusCode, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// Whether `response` is an event stream.
pub(crate) fn is_event_stream(response: &Response<AnswerBody>) -> bool {
    response.headers().get(CONTENT_TYPE) == Some(&EVENT_STREAM)
}
