//! Reads a request body within its bounds: size while it streams, its part of what all callers may
//! have under way, pauses, total time, and how many JSON values it holds.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http_body::Body;
use lyceum_work::MAX_PARSED_INLINE;
use tokio::time::{Instant, timeout_at};

use crate::absorb;
use crate::byte_budget::{ByteBudget, Exhausted, Reservation, UNCOUNTED_BYTES};
use crate::caller::CallerId;
use crate::limits::Limits;

/// Values in a body. A value of a few bytes takes up to a hundred times as much once it is read, so
/// their number is bounded beside their bytes.
const MAX_VALUES: usize = 100_000;

/// Bytes a value may take once it is read: an object of one member.
const VALUE_BYTES: usize = 640;

/// Values that are not counted, and the bytes a body must have to hold more.
const UNCOUNTED_VALUES: usize = 256;
const MIN_COUNTED: usize = 2048;

/// How finely a body of known length is charged for as it arrives.
const STEP: usize = 256 << 10;

/// Pieces a body may come in however small they are, and the bytes that further ones must have on
/// average: a chunk or frame of a byte takes as long as one of thousands.
const FREE_PIECES: usize = 4096;
const MIN_PIECE: usize = 16;

/// Why a body was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// It has more bytes than [`Limits::body_bytes`].
    #[error("the request body is larger than this endpoint accepts")]
    TooLarge,
    /// It has more values than anything could be done with.
    #[error("the request body holds more than 100000 JSON values; send less at once")]
    TooManyValues,
    /// It comes in too many pieces of too few bytes.
    #[error("the request body comes in pieces of a few bytes; send larger chunks")]
    TooFragmented,
    /// Too many bytes of request bodies are under way.
    #[error("{0}")]
    NoRoom(Exhausted),
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
            Self::TooLarge | Self::TooManyValues => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoRoom(exhausted) => exhausted.status(),
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::TooFragmented | Self::Broken => StatusCode::BAD_REQUEST,
        }
    }
}

impl From<Exhausted> for BodyError {
    fn from(exhausted: Exhausted) -> Self {
        Self::NoRoom(exhausted)
    }
}

/// Reads `body` whole. The usual small body that arrived with its head costs no copy and no timer; a
/// large one is charged to `caller` in `budget` for as long as any of its bytes is kept.
///
/// # Errors
/// When it is larger or slower than `limits` allow, or there is no room for it; what is left of it
/// must not be taken for the next request, so the connection should close.
pub async fn read<B>(
    body: B,
    limits: &Limits,
    budget: &Arc<ByteBudget>,
    caller: impl Fn() -> CallerId,
) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes>,
{
    let expected = body.size_hint();
    if expected.lower() > limits.body_bytes as u64 {
        return Err(BodyError::TooLarge);
    }
    let mut body = pin!(body);
    let mut arrived = Arrived { expected: expected.lower() as usize, ..Arrived::default() };
    let mut deadline = None;
    let mut n_pieces = 0;
    loop {
        let frame = match poll_fn(|cx| Poll::Ready(poll_data(body.as_mut(), cx))).await {
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
        let length = arrived.length() + data.len();
        if length > limits.body_bytes {
            return Err(BodyError::TooLarge);
        }
        n_pieces += 1;
        if n_pieces > FREE_PIECES && length < n_pieces * MIN_PIECE {
            return Err(BodyError::TooFragmented);
        }
        if length > UNCOUNTED_BYTES {
            // Boxed, so that small bodies do not pay for its size.
            Box::pin(arrived.charge(length, budget, &caller)).await?;
        }
        arrived.add(data);
        if body.is_end_stream() {
            break;
        }
    }
    let n_values = if arrived.length() > MAX_PARSED_INLINE {
        // Boxed, so that small bodies do not pay for its size.
        Box::pin(arrived.values_in_bulk()).await?
    } else {
        arrived.values()
    };
    if n_values > UNCOUNTED_VALUES {
        if n_values > MAX_VALUES {
            return Err(BodyError::TooManyValues);
        }
        // Boxed, so that bodies of few values do not pay for its size.
        Box::pin(arrived.charge_values(n_values, budget, &caller)).await?;
    }
    Ok(arrived.whole())
}

/// What has arrived of a body.
#[derive(Default)]
struct Arrived {
    /// The length it was announced with, or 0.
    expected: usize,
    /// All of it, as long as it came in one piece.
    first: Bytes,
    rest: Vec<u8>,
    reservation: Option<Reservation>,
}

impl Arrived {
    fn length(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    /// Charges for `length` bytes. Announced bytes count when they come: to announce is cheap.
    async fn charge(
        &mut self,
        length: usize,
        budget: &Arc<ByteBudget>,
        caller: &impl Fn() -> CallerId,
    ) -> Result<(), BodyError> {
        let is_first = self.length() == 0;
        let known = length <= self.expected;
        let bytes = match known || is_first {
            true => length.next_multiple_of(STEP).min(self.expected.max(length)),
            // Without a known length the buffer doubles, and is there twice while it does.
            false if length > self.rest.capacity() => 2 * length.max(self.rest.capacity()) + length,
            false => return Ok(()),
        };
        match &mut self.reservation {
            Some(reservation) => reservation.grow_soon(bytes).await?,
            None => self.reservation = Some(budget.reserve_soon(&caller(), bytes).await?),
        }
        Ok(())
    }

    fn add(&mut self, data: Bytes) {
        if self.length() == 0 {
            self.first = data;
            return;
        }
        let length = self.length() + data.len();
        if self.rest.capacity() < length {
            let room = if length <= self.expected { self.expected } else { 2 * length };
            self.rest.reserve_exact(room - self.rest.len());
        }
        self.rest.extend_from_slice(&std::mem::take(&mut self.first));
        self.rest.extend_from_slice(&data);
        if let Some(reservation) = &mut self.reservation {
            reservation.shrink(self.rest.capacity().min(reservation.bytes()));
        }
    }

    /// How many values it holds, if they can be too many not to be counted.
    fn values(&self) -> usize {
        let bytes = if self.rest.is_empty() { &self.first[..] } else { &self.rest };
        if bytes.len() < MIN_COUNTED { 0 } else { count_values(bytes) }
    }

    /// The same on a thread for bulk work.
    async fn values_in_bulk(&mut self) -> Result<usize, BodyError> {
        self.first = match self.rest.is_empty() {
            true => std::mem::take(&mut self.first),
            false => std::mem::take(&mut self.rest).into(),
        };
        let bytes = self.first.clone();
        let counted = lyceum_work::run_bulk(move || count_values(&bytes)).await;
        counted.map_err(|_| BodyError::Broken)
    }

    /// Charges for what its values become.
    async fn charge_values(
        &mut self,
        n_values: usize,
        budget: &Arc<ByteBudget>,
        caller: &impl Fn() -> CallerId,
    ) -> Result<(), BodyError> {
        let bytes = n_values * VALUE_BYTES;
        match &mut self.reservation {
            Some(reservation) => reservation.grow_soon(reservation.bytes() + bytes).await?,
            None => self.reservation = Some(budget.reserve_soon(&caller(), bytes).await?),
        }
        Ok(())
    }

    fn whole(self) -> Bytes {
        let bytes = if self.rest.is_empty() { self.first } else { self.rest.into() };
        match self.reservation {
            Some(reservation) => Arc::new(reservation).attach(bytes),
            None => bytes,
        }
    }
}

/// Levels beyond which no parser reads on.
const MAX_LEVELS: usize = 128;

/// How many values a JSON text holds; 0 for one so deep that it is refused for that. What is no JSON
/// is found out later.
fn count_values(json: &[u8]) -> usize {
    let (mut n_values, mut level) = (0, 0_usize);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                while let Some(b'\\') = bytes.find(|byte| matches!(byte, b'"' | b'\\')) {
                    bytes.next();
                }
            }
            b',' => n_values += 1,
            b'[' | b'{' => {
                n_values += 1;
                level += 1;
                if level > MAX_LEVELS {
                    return 0;
                }
            }
            b']' | b'}' => level = level.saturating_sub(1),
            _ => {}
        }
    }
    n_values
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body::Frame;

    use super::*;

    /// A body of so many equal pieces.
    struct Pieces(usize, &'static [u8]);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let left = self.0.checked_sub(1);
            self.0 = left.unwrap_or(0);
            Poll::Ready(left.map(|_| Ok(Frame::data(Bytes::from_static(self.1)))))
        }
    }

    async fn read_pieces(n: usize, piece: &'static [u8]) -> Result<usize, BodyError> {
        let (limits, budget) = (Limits::default(), Arc::new(ByteBudget::new(64 << 20)));
        let caller = || CallerId::new(None, None);
        read(Pieces(n, piece), &limits, &budget, caller).await.map(|whole| whole.len())
    }

    #[tokio::test]
    async fn a_body_in_many_tiny_pieces_is_refused() {
        assert_eq!(read_pieces(4096, b"x").await, Ok(4096));
        assert_eq!(read_pieces(4097, b"x").await, Err(BodyError::TooFragmented));
        assert_eq!(read_pieces(100_000, b"").await, Err(BodyError::TooFragmented));
        assert_eq!(read_pieces(10_000, &[b'x'; 16]).await, Ok(160_000));
    }

    #[test]
    fn values_are_counted_outside_of_strings_only() {
        for (json, n_values) in [
            (r#"[1,2,[3]]"#, 4),
            (r#"{"a":{},"b":"1,2,[{"}"#, 3),
            (r#"["\\",1,"\",[,"]"#, 3),
            ("\"not closed,,,", 0),
        ] {
            assert_eq!(count_values(json.as_bytes()), n_values, "{json}");
        }
    }
}
