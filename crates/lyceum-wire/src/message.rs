//! [`Message`]: what a body holds, borrowed from it.

use bytes::Bytes;

use crate::envelope::{Envelope, parse_one};
use crate::error::ParseError;
use crate::id::Id;
use crate::params::Params;
use crate::scan::Scanner;
use crate::text::Text;

/// How many messages a batch may hold.
pub const MAX_BATCH: usize = 50;

/// One JSON-RPC message, or a batch, borrowed from the body it came in.
#[derive(Clone, Debug)]
pub enum Message {
    /// Something to answer.
    Request(Request),
    /// Something to take note of.
    Notification(Notification),
    /// An answer to a request of ours.
    Response(Response),
    /// Several messages at once (2025-03-26 only); a bad one does not spoil the others.
    Batch(Vec<Result<Message, ParseError>>),
}

/// A message that wants an answer.
#[derive(Clone, Debug)]
pub struct Request {
    /// Goes back verbatim with the answer.
    pub id: Id,
    /// The method.
    pub method: Text,
    /// Its parameters.
    pub params: Params,
}

/// A message that wants none.
#[derive(Clone, Debug)]
pub struct Notification {
    /// The method.
    pub method: Text,
    /// Its parameters.
    pub params: Params,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Response {
    /// The request it answers.
    pub id: Id,
    /// The raw JSON of `result`, or of `error`.
    pub outcome: Result<Bytes, Bytes>,
}

impl Message {
    /// Reads a body in one pass. The message keeps slices of it.
    pub fn parse(body: &Bytes) -> Result<Message, ParseError> {
        let mut scanner = Scanner::new(body)?;
        match scanner.ahead() {
            b'{' => {
                let mut envelope = Envelope::default();
                envelope.scan(&mut scanner)?;
                scanner.end()?;
                parse_one(&envelope, body)
            }
            b'[' => {
                let batch = batch(&mut scanner, body)?;
                scanner.end()?;
                if batch.is_empty() {
                    return Err(ParseError::invalid_request("a batch must not be empty"));
                }
                Ok(Message::Batch(batch))
            }
            _ => {
                scanner.skip()?;
                scanner.end()?;
                Err(not_an_object())
            }
        }
    }

    /// The method of a request or notification.
    pub fn method(&self) -> Option<&Text> {
        match self {
            Message::Request(request) => Some(&request.method),
            Message::Notification(notification) => Some(&notification.method),
            Message::Response(_) | Message::Batch(_) => None,
        }
    }

    /// The params of a request or notification.
    pub fn params(&self) -> Option<&Params> {
        match self {
            Message::Request(request) => Some(&request.params),
            Message::Notification(notification) => Some(&notification.params),
            Message::Response(_) | Message::Batch(_) => None,
        }
    }

    /// The id to put on an error about this message: a request's own, otherwise none.
    pub fn request_id(&self) -> Option<&Id> {
        match self {
            Message::Request(request) => Some(&request.id),
            _ => None,
        }
    }
}

fn batch(
    scanner: &mut Scanner<'_>,
    body: &Bytes,
) -> Result<Vec<Result<Message, ParseError>>, ParseError> {
    let mut batch = Vec::new();
    let mut too_many = false;
    scanner.elements(|scanner| {
        if scanner.peek() != b'{' {
            scanner.skip()?;
            batch.push(Err(not_an_object()));
        } else {
            scanner.repeated = false;
            let mut envelope = Envelope::default();
            envelope.scan(scanner)?;
            batch.push(parse_one(&envelope, body));
        }
        too_many |= batch.len() > MAX_BATCH;
        batch.truncate(MAX_BATCH);
        Ok(())
    })?;
    if too_many {
        return Err(ParseError::invalid_request("a batch may hold at most 50 messages"));
    }
    Ok(batch)
}

fn not_an_object() -> ParseError {
    ParseError::invalid_request("a JSON-RPC message is an object")
}
