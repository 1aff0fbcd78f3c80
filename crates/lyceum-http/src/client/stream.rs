//! [`Messages`]: the JSON-RPC messages of an event stream.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use lyceum_wire::Message;

use super::error::ClientError;
use super::exchange::ReplyBody;
use crate::sse::{DecodedEvent, Decoder};

/// How much of a stream is read after its answer, in the hope that it ends.
const MAX_REST: usize = 64 << 10;
const REST_TIME: Duration = Duration::from_secs(1);
/// How long after an answer `retry` may put off the next attempt.
const MAX_RETRY: Duration = Duration::from_secs(300);

/// The messages of one event stream, as they arrive.
pub(crate) struct Messages {
    body: ReplyBody,
    decoder: Decoder,
    max_event: usize,
    /// What is left of a batch.
    batch: VecDeque<Message>,
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages").field("decoder", &self.decoder).finish_non_exhaustive()
    }
}

impl Messages {
    pub(crate) fn new(body: ReplyBody, max_event: usize) -> Messages {
        let decoder = Decoder::new(max_event);
        Messages { body, decoder, max_event, batch: VecDeque::new() }
    }

    /// The next message; None at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Message>, ClientError> {
        loop {
            if let Some(message) = self.batch.pop_front() {
                return Ok(Some(message));
            }
            let Some(event) = self.next_event().await? else { return Ok(None) };
            // An event without data only carries an id or a retry time.
            if event.name == "message" && !event.data.is_empty() {
                self.read(&event.data)?;
            }
        }
    }

    /// The next event of any name.
    pub(crate) async fn next_event(&mut self) -> Result<Option<DecodedEvent>, ClientError> {
        loop {
            let event = self.decoder.next_event().map_err(|_| ClientError::TooLarge {
                what: "a server-sent event",
                limit: self.max_event,
            })?;
            if event.is_some() {
                return Ok(event);
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame.map_err(ClientError::Broken)?.into_data() {
                        self.decoder.push(&data);
                    }
                }
            }
        }
    }

    /// Where to resume, if the server gave its events ids.
    pub(crate) fn last_event_id(&self) -> Option<&str> {
        self.decoder.last_event_id()
    }

    /// How long the server wants a client to wait before it comes back.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.decoder.retry().map(|ms| Duration::from_millis(ms).min(MAX_RETRY))
    }

    /// Lets go of a stream whose answer is in. It is read to its end, if that is near, because only
    /// then its connection can be used again.
    pub(crate) fn release(mut self) {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(None) = Pin::new(&mut self.body).poll_frame(&mut context) {
            return;
        }
        tokio::spawn(tokio::time::timeout(REST_TIME, async move {
            let mut n_bytes = 0;
            while let Some(Ok(frame)) = self.body.frame().await {
                n_bytes += frame.data_ref().map_or(0, Bytes::len);
                if n_bytes > MAX_REST {
                    return;
                }
            }
        }));
    }

    fn read(&mut self, data: &Bytes) -> Result<(), ClientError> {
        match parse(data)? {
            Message::Batch(batch) => {
                for message in batch {
                    self.batch.push_back(message.map_err(malformed)?);
                }
            }
            message => self.batch.push_back(message),
        }
        Ok(())
    }
}

/// Reads a message the server sent.
pub(crate) fn parse(body: &Bytes) -> Result<Message, ClientError> {
    Message::parse(body).map_err(malformed)
}

fn malformed(error: lyceum_wire::ParseError) -> ClientError {
    ClientError::protocol(format!("it sent no JSON-RPC message: {error}"))
}
