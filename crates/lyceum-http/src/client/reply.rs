//! [`Reply`]: what comes back for an HTTP request, within bounds.
//!
//! Knows statuses and content types, not JSON-RPC. No more of a body is held than the limits allow.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use http_body::Body;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use lyceum_wire::{Id, RpcError};

use super::error::{BoxError, ClientError, RefusedStatus};
use super::intake::{DOUBLING, Intake, attach};
use super::limits::Limits;
use super::remote::SESSION_ID;
use super::response::{error_in, id_in};
use super::stream::Messages;
use crate::byte_budget::Payer;

/// How much of a refusal is read.
const MAX_REFUSAL: usize = 64 << 10;
/// How much of it is quoted.
const MAX_EXCERPT: usize = 200;
/// How much of a body nobody needs is read, and for how long, in the hope that it ends.
const MAX_REST: usize = 64 << 10;
const REST_TIME: Duration = Duration::from_secs(1);

const EVENT_STREAM: &str = "text/event-stream";

pub(crate) type ReplyBody = UnsyncBoxBody<Bytes, BoxError>;

/// What is to be made of an answer that says yes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// Its content, of at most so many bytes as a whole, or per event.
    Content {
        body: usize,
        event: usize,
    },
    Nothing,
}

impl Wanted {
    pub(crate) fn content(limits: &Limits) -> Wanted {
        Wanted::Content { body: limits.body, event: limits.event }
    }

    pub(crate) fn greeting(limits: &Limits) -> Wanted {
        let most = limits.greeting;
        Wanted::Content { body: limits.body.min(most), event: limits.event.min(most) }
    }
}

/// What the server answered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) told: Told,
    pub(crate) content: Content,
}

/// What its headers say, as far as anybody looks at them.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) content_type: Option<HeaderValue>,
    pub(crate) content_encoding: Option<HeaderValue>,
    pub(crate) session: Option<HeaderValue>,
    pub(crate) challenge: Option<HeaderValue>,
    pub(crate) location: Option<HeaderValue>,
}

impl Told {
    /// Where the value of a header belongs, whatever the case of its name.
    pub(crate) fn place(&mut self, name: &str) -> Option<&mut Option<HeaderValue>> {
        let places = [
            (header::CONTENT_TYPE, &mut self.content_type),
            (header::CONTENT_ENCODING, &mut self.content_encoding),
            (SESSION_ID, &mut self.session),
            (header::WWW_AUTHENTICATE, &mut self.challenge),
            (header::LOCATION, &mut self.location),
        ];
        let found = places.into_iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_str()));
        found.map(|(_, place)| place)
    }

    /// The content type, as it was sent.
    fn content_type(&self) -> &[u8] {
        self.content_type.as_ref().map(HeaderValue::as_bytes).unwrap_or_default()
    }

    /// Whether this is the content type, whatever its parameters.
    fn is_of_type(&self, name: &str) -> bool {
        let sent = self.content_type().trim_ascii_start();
        let Some((essence, rest)) = sent.split_at_checked(name.len()) else { return false };
        let ends = rest.trim_ascii_start().first().is_none_or(|byte| *byte == b';');
        ends && essence.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// Of several values the first counts.
impl From<HeaderMap> for Told {
    fn from(headers: HeaderMap) -> Told {
        let mut told = Told::default();
        for (name, value) in &headers {
            if let Some(place @ None) = told.place(name.as_str()) {
                *place = Some(value.clone());
            }
        }
        told
    }
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
    /// That id, as it was sent.
    pub(crate) id: Option<Bytes>,
}

impl Refused {
    /// Whether request `id`, if it was one, was turned away because of its session before anybody
    /// looked at what it asks for. 404 is how the protocol says so. Some servers answer 400 with an
    /// error that speaks of the session; but an error that is the answer to the request may come
    /// from its execution.
    pub(crate) fn is_about_session(&self, id: Option<&Id>) -> bool {
        let is_answer = || match (id, &self.id) {
            (Some(ours), Some(theirs)) => ours.as_bytes() == &**theirs,
            _ => false,
        };
        match self.status.status {
            StatusCode::NOT_FOUND => true,
            StatusCode::BAD_REQUEST => self.error.as_ref().is_some_and(|error| {
                error.message.to_ascii_lowercase().contains("session") && !is_answer()
            }),
            _ => false,
        }
    }
}

impl From<Refused> for ClientError {
    fn from(refused: Refused) -> ClientError {
        // That credentials are wanted, or that somebody before the server answers in its place, is what
        // the caller can act on, even if there is an error object too.
        let is_about_status = matches!(
            refused.status.status,
            StatusCode::UNAUTHORIZED
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT
        );
        match refused.error {
            Some(error) if refused.status.challenge.is_none() && !is_about_status => {
                ClientError::Rpc(error)
            }
            Some(error) => {
                let excerpt = excerpt(error.message.as_bytes());
                ClientError::Status(RefusedStatus { excerpt, ..refused.status })
            }
            None => ClientError::Status(refused.status),
        }
    }
}

/// Takes in a response, which `payer` is charged for.
#[expect(clippy::manual_async_fn, reason = "an async fn would keep room for the body twice")]
pub(crate) fn receive<B>(
    status: StatusCode,
    told: Told,
    body: B,
    wanted: Wanted,
    payer: Option<Payer>,
) -> impl Future<Output = Result<Reply, ClientError>> + Send
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    async move {
        let content = match expected(status, &told, wanted)? {
            Expected::Refusal => {
                // Boxed, because it is rare and would make every call larger.
                Content::Refused(Box::pin(refused(status, &told, body)).await)
            }
            Expected::Nothing => {
                discard(body);
                Content::Nothing
            }
            Expected::Events { most } => {
                let body = body.map_err(Into::into).boxed_unsync();
                Content::Events(Box::new(Messages::new(body, most, payer)))
            }
            Expected::Message { most } => {
                message(collect(pin!(body), most, Intake::new(payer)).await?, &told)?
            }
        };
        Ok(Reply { told, content })
    }
}

/// What a response's head says about its body.
enum Expected {
    Refusal,
    Nothing,
    /// Events of at most so many bytes.
    Events {
        most: usize,
    },
    /// A message of at most so many bytes, or nothing.
    Message {
        most: usize,
    },
}

fn expected(status: StatusCode, told: &Told, wanted: Wanted) -> Result<Expected, ClientError> {
    if !status.is_success() {
        return Ok(Expected::Refusal);
    }
    let Wanted::Content { body, event } = wanted else { return Ok(Expected::Nothing) };
    if told.content_encoding.as_ref().is_some_and(|coding| coding != "identity") {
        return Err(ClientError::protocol("it compressed an answer nobody asked to compress"));
    }
    if told.is_of_type(EVENT_STREAM) && status == StatusCode::OK {
        return Ok(Expected::Events { most: event });
    }
    match status {
        StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Ok(Expected::Nothing),
        _ => Ok(Expected::Message { most: body }),
    }
}

/// What a body holds that is no event stream.
fn message(body: Bytes, told: &Told) -> Result<Content, ClientError> {
    match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => Ok(Content::Nothing),
        // Some plain JSON servers do not name their content type.
        Some(b'{' | b'[') if !told.is_of_type("text/html") => Ok(Content::Json(body)),
        Some(_) => Err(ClientError::protocol(format!(
            "it answered with content type \"{}\": {}",
            told.content_type().escape_ascii(),
            excerpt(&body)
        ))),
    }
}

/// Lets go of a body nobody needs. It is read to its end, if that is near, because only then its
/// connection can be used again.
pub(crate) fn discard<B: Body<Data = Bytes> + Send + 'static>(body: B) {
    if body.is_end_stream() {
        return;
    }
    let mut body = Box::pin(body);
    let mut context = Context::from_waker(Waker::noop());
    if let Poll::Ready(None) = body.as_mut().poll_frame(&mut context) {
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

/// Reads a whole body of at most `limit` bytes. One that there is no room for is not read on, so its
/// connection is closed.
async fn collect<B>(
    mut body: Pin<&mut B>,
    limit: usize,
    mut intake: Intake,
) -> Result<Bytes, ClientError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let too_large = || ClientError::TooLarge { what: "the server's answer", limit };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let Some(first) = next_data(body.as_mut()).await? else { return Ok(Bytes::new()) };
    if first.len() > limit {
        return Err(too_large());
    }
    intake.charge(first.len(), first.len()).await?;
    // Most answers are one piece.
    if body.is_end_stream() {
        let reservation = intake.take(first.len());
        return Ok(attach(reservation, first));
    }
    let mut whole = BytesMut::from(first);
    while let Some(data) = next_data(body.as_mut()).await? {
        let (length, to_come) = (whole.len() + data.len(), body.size_hint().lower() as usize);
        if length > limit {
            return Err(too_large());
        }
        // Announced bytes count when they come: to announce is cheap.
        let is_announced = to_come > 0 || length <= whole.capacity();
        let bytes = if is_announced { length } else { DOUBLING * length };
        intake.charge(length, bytes).await?;
        whole.reserve(data.len() + to_come);
        whole.extend_from_slice(&data);
    }
    let reservation = intake.take(whole.capacity());
    Ok(attach(reservation, whole.freeze()))
}

async fn next_data<B>(mut body: Pin<&mut B>) -> Result<Option<Bytes>, ClientError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ClientError::Broken(error.into()))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

async fn refused<B>(status: StatusCode, told: &Told, body: B) -> Refused
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    // The status says enough if the body cannot be had.
    let body = collect(pin!(body), MAX_REFUSAL, Intake::default()).await.unwrap_or_default();
    let text = |value: &Option<HeaderValue>| value.as_ref()?.to_str().ok().map(str::to_owned);
    Refused {
        error: error_in(&body),
        id: id_in(&body),
        status: RefusedStatus {
            status,
            challenge: text(&told.challenge),
            location: text(&told.location),
            excerpt: excerpt(&body),
        },
    }
}

/// How a body starts, fit for one line of a log.
fn excerpt(body: &[u8]) -> String {
    let start = &body[..body.len().min(MAX_EXCERPT)];
    let text = String::from_utf8_lossy(start);
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace(char::is_control, "")
}
