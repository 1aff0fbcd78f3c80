//! Bare hyper: reads the body of a POST and answers a constant.
//!
//! `/mcp` answers JSON, `/sse` the same bytes as one event of a chunked stream, and a GET on `/sse`
//! holds a silent stream open. No routing, no parsing, no boxed body: the least hyper can do.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use limits::ANSWER;
use tokio::net::TcpListener;

const EVENT_PREFIX: &str = "data: ";

enum Answer {
    /// Known length, so hyper sends `content-length`.
    Whole(Option<Bytes>),
    /// Unknown length, so hyper sends chunks.
    Event(Option<Bytes>),
    /// Never a frame: an idle stream.
    Silent,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) | Self::Event(bytes) => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            // The connection's task is woken by the socket; a silent body needs no waker.
            Self::Silent => Poll::Pending,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Event(_) | Self::Silent => SizeHint::default(),
        }
    }
}

fn main() -> anyhow::Result<()> {
    limits::run(serve)
}

async fn serve(listener: TcpListener) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            // A client that goes away ends its own connection only.
            let _gone = http1::Builder::new()
                .timer(TokioTimer::new())
                .pipeline_flush(true)
                .serve_connection(TokioIo::new(stream), service_fn(answer))
                .await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Answer>, hyper::Error> {
    let streams = request.uri().path() == "/sse";
    let idle = request.method() == Method::GET;
    request.into_body().collect().await?;
    if !streams {
        let mut response =
            Response::new(Answer::Whole(Some(Bytes::from_static(ANSWER.as_bytes()))));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        return Ok(response);
    }
    let mut response = Response::new(if idle { Answer::Silent } else { event() });
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

fn event() -> Answer {
    let mut event = Vec::with_capacity(EVENT_PREFIX.len() + ANSWER.len() + 2);
    event.extend_from_slice(EVENT_PREFIX.as_bytes());
    event.extend_from_slice(ANSWER.as_bytes());
    event.extend_from_slice(b"\n\n");
    Answer::Event(Some(event.into()))
}
