//! One HTTP/1.1 request over one fresh connection, with the answer read into bounded memory.

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, HeaderMap};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use super::error::DialError;
use super::target::Target;

/// Bytes of an answer's head.
const MAX_HEAD: usize = 64 << 10;
/// Bytes of an answer that is not the thing asked for, but says why or where.
const MAX_ASIDE: usize = 64 << 10;

/// A connection, with or without TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// Sends `request` and reads the answer. The body of a redirect or refusal is left out when it is
/// long or cannot be read: the head says enough.
pub(super) async fn exchange(
    stream: Box<dyn Stream>,
    request: Request<Bytes>,
    target: &Target,
    limit: usize,
) -> Result<Response<Bytes>, DialError> {
    let broken = |source: hyper::Error| DialError::Broken {
        host: target.host().to_string(),
        source: source.into(),
    };
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_HEAD);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // Dropped, and with it the connection, as soon as the answer is there or nobody waits for it.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let response = sender.send_request(request.map(Full::new)).await.map_err(broken)?;
    let (head, body) = response.into_parts();
    if !head.status.is_success() {
        let body = collect(body, limit.min(MAX_ASIDE)).await.unwrap_or_default();
        return Ok(Response::from_parts(head, body));
    }
    refuse_encoding(&head.headers)?;
    match collect(body, limit).await {
        Ok(body) => Ok(Response::from_parts(head, body)),
        Err(BodyError::TooLarge) => Err(DialError::TooLarge(limit)),
        Err(BodyError::Broken(error)) => Err(broken(error)),
    }
}

enum BodyError {
    TooLarge,
    Broken(hyper::Error),
}

async fn collect(mut body: Incoming, limit: usize) -> Result<Bytes, BodyError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(BodyError::Broken)?.into_data() else { continue };
        if whole.len() + data.len() > limit {
            return Err(BodyError::TooLarge);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// Nothing here unpacks, so that a small answer stays small.
fn refuse_encoding(headers: &HeaderMap) -> Result<(), DialError> {
    let values = headers.get_all(CONTENT_ENCODING).iter();
    let named = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    match named.into_iter().find(|value| !value.trim().eq_ignore_ascii_case("identity")) {
        Some(encoding) => Err(DialError::Encoded(encoding.chars().take(40).collect())),
        None => Ok(()),
    }
}
