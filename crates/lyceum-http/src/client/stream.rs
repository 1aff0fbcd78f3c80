//! [`Messages`]: the JSON-RPC messages of an event stream.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use lyceum_wire::Message;

use super::error::ClientError;
use super::intake::{DOUBLING, Incoming, Intake, attach};
use super::reply::{ReplyBody, discard};
use crate::byte_budget::{Exhausted, Payer};
use crate::ends::Ends;
use crate::sse::{DecodedEvent, Decoder};

/// How long after an answer `retry` may put off the next attempt.
const MAX_RETRY: Duration = Duration::from_secs(300);
/// How much is read before others get their turn. A server that sends faster than it can be read would
/// otherwise keep a thread to itself, and its call would not even hear that its time is up.
const TURN: usize = 64 << 10;

/// The messages of one event stream, as they arrive.
pub(crate) struct Messages {
    body: ReplyBody,
    decoder: Decoder,
    max_event: usize,
    /// Bytes read since others had their turn.
    n_read: usize,
    /// What is left of a batch.
    batch: VecDeque<Message>,
    intake: Intake,
    /// Why the event that is being read is dropped.
    skipping: Option<Exhausted>,
}

/// What a stream brings next.
enum StreamItem {
    Event(DecodedEvent),
    /// There was no room for an event.
    Skipped(Ends, Exhausted),
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages").field("decoder", &self.decoder).finish_non_exhaustive()
    }
}

impl Messages {
    /// The messages in `body`, which `payer` is charged for.
    pub(crate) fn new(body: ReplyBody, max_event: usize, payer: Option<Payer>) -> Messages {
        let (decoder, intake) = (Decoder::new(max_event), Intake::new(payer));
        let (batch, skipping) = (VecDeque::new(), None);
        Messages { body, decoder, max_event, n_read: 0, batch, intake, skipping }
    }

    /// The next message; None at the end of the stream.
    pub(crate) async fn next_message(&mut self) -> Result<Option<Message>, ClientError> {
        loop {
            if let Some(message) = self.batch.pop_front() {
                return Ok(Some(message));
            }
            let Some(data) = self.next_data().await? else { return Ok(None) };
            self.read(&data)?;
        }
    }

    /// What should be the next message, unread.
    async fn next_data(&mut self) -> Result<Option<Bytes>, ClientError> {
        while let Some(event) = self.next_event().await? {
            if is_message(&event) {
                let reservation = self.intake.take(event.data.len());
                return Ok(Some(attach(reservation, event.data)));
            }
        }
        Ok(None)
    }

    /// What should be the next message, unread. One that there is no room for is skipped, because
    /// others wait for what comes after it.
    pub(crate) async fn next_shared(&mut self) -> Result<Option<Incoming>, ClientError> {
        loop {
            match self.next(true).await? {
                Some(StreamItem::Event(event)) if is_message(&event) => {
                    let reservation = self.intake.take(event.data.len());
                    return Ok(Some(Incoming::Message(event.data, reservation)));
                }
                Some(StreamItem::Event(_)) => {}
                Some(StreamItem::Skipped(ends, why)) => {
                    return Ok(Some(Incoming::Skipped(ends, why)));
                }
                None => return Ok(None),
            }
        }
    }

    /// The next event of any name.
    pub(crate) async fn next_event(&mut self) -> Result<Option<DecodedEvent>, ClientError> {
        match self.next(false).await? {
            Some(StreamItem::Event(event)) => Ok(Some(event)),
            Some(StreamItem::Skipped(_, why)) => Err(why.into()),
            None => Ok(None),
        }
    }

    /// Reads on to the end of an event.
    async fn next(&mut self, skips: bool) -> Result<Option<StreamItem>, ClientError> {
        loop {
            let event = self.decoder.next_event().map_err(|_| ClientError::TooLarge {
                what: "a server-sent event",
                limit: self.max_event,
            })?;
            if let Some(event) = event {
                return Ok(Some(StreamItem::Event(event)));
            }
            if let Some(ends) = self.decoder.take_skipped()
                && let Some(why) = self.skipping.take()
            {
                return Ok(Some(StreamItem::Skipped(ends, why)));
            }
            if self.n_read >= TURN {
                self.n_read = 0;
                tokio::task::yield_now().await;
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame.map_err(ClientError::Broken)?.into_data() {
                        self.charge(data.len(), skips).await?;
                        self.decoder.push(&data);
                        self.n_read += data.len();
                    }
                }
            }
        }
    }

    /// Charges for `more` bytes of the event that is being read.
    async fn charge(&mut self, more: usize, skips: bool) -> Result<(), ClientError> {
        if self.skipping.is_some() {
            return Ok(());
        }
        let length = self.decoder.pending() + more;
        if let Err(exhausted) = self.intake.charge(length, DOUBLING * length).await {
            if !skips {
                return Err(exhausted.into());
            }
            self.decoder.skip_event();
            self.skipping = Some(exhausted);
            self.intake.take(0);
        }
        Ok(())
    }

    /// Takes events of so many bytes from now on.
    pub(crate) fn allow(&mut self, max_event: usize) {
        self.max_event = max_event;
        self.decoder.allow(max_event);
    }

    /// Where to resume, if the server gave its events ids.
    pub(crate) fn last_event_id(&self) -> Option<&str> {
        self.decoder.last_event_id()
    }

    /// How long the server wants a client to wait before it comes back.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.decoder.retry().map(|ms| Duration::from_millis(ms).min(MAX_RETRY))
    }

    /// Lets go of a stream whose answer is in.
    pub(crate) fn release(self) {
        discard(self.body);
    }

    /// Reads the data of an event.
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

/// Whether an event is a message; one without data only carries an id or a retry time.
fn is_message(event: &DecodedEvent) -> bool {
    event.name == "message" && !event.data.is_empty()
}

/// Reads a message the server sent.
pub(crate) fn parse(body: &Bytes) -> Result<Message, ClientError> {
    Message::parse(body).map_err(malformed)
}

fn malformed(error: lyceum_wire::ParseError) -> ClientError {
    ClientError::protocol(format!("it sent no JSON-RPC message: {error}"))
}
