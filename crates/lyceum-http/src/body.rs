//! Reads a request body within its bounds: size while streaming, pauses, and total time.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body;
use tokio::time::{Instant, timeout_at};

use crate::absorb;
use crate::limits::Limits;

/// Why a body was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// It has more bytes than [`Limits::body_bytes`].
    #[error("the request body is larger than this endpoint accepts")]
    TooLarge,
    /// It paused or lasted longer than [`Limits`] allow.
    #[error("the request body did not arrive in time")]
    TooSlow,
    /// The client went away.
    #[error("the request body ended early")]
    Broken,
}

impl BodyError {
    /// The HTTP status that says so.
    pub fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
        }
    }
}

/// Reads `body` whole. The usual small body that arrived with its head costs no copy and no timer.
///
/// # Errors
/// When it is larger or slower than `limits` allow; what is left of it must not be taken for the
/// next request, so the connection should close.
pub async fn read<B>(body: B, limits: &Limits) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes>,
{
    if body.size_hint().lower() > limits.body_bytes as u64 {
        return Err(BodyError::TooLarge);
    }
    let mut body = pin!(body);
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut deadline = None;
    loop {
        let arrived = poll_fn(|cx| Poll::Ready(poll_data(body.as_mut(), cx))).await;
        let frame = match arrived {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                let now = Instant::now();
                let total = *deadline.get_or_insert(now + limits.body_total);
                let until = total.min(now + limits.body_idle);
                let arrives = poll_fn(|cx| poll_data(body.as_mut(), cx));
                // Boxed, so that bodies that are there already do not pay for the size of a timer.
                Box::pin(timeout_at(until, arrives)).await.map_err(|_| BodyError::TooSlow)?
            }
        };
        let Some(data) = frame? else { break };
        if first.len() + rest.len() + data.len() > limits.body_bytes {
            return Err(BodyError::TooLarge);
        }
        if first.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&data);
        }
        if body.is_end_stream() {
            break;
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    Ok(whole.freeze())
}

/// The next piece of a body; trailers are passed over.
fn poll_data<B>(
    mut body: Pin<&mut B>,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<Bytes>, BodyError>>
where
    B: Body<Data = Bytes>,
{
    loop {
        match ready!(absorb::poll_frame(body.as_mut(), cx)) {
            None => return Poll::Ready(Ok(None)),
            Some(Err(_)) => return Poll::Ready(Err(BodyError::Broken)),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Poll::Ready(Ok(Some(data)));
                }
            }
        }
    }
}
