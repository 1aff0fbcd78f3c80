//! The JSON-RPC envelope: which members a message has, and what that makes it.
//!
//! [`Envelope::scan`] collects, [`parse_one`] judges; so a body that is not JSON is always -32700, and
//! one that is but is no JSON-RPC message is always -32600, whichever came first in the bytes.

use bytes::Bytes;

use crate::error::ParseError;
use crate::id::{Id, is_id};
use crate::message::{Message, Notification, Request, Response};
use crate::params::{Found, Params};
use crate::scan::{Kind, Scan, Scanner, Span, Str};
use crate::text::{Text, unescape};

/// The names JSON-RPC gives to the members of a message.
const NAMES: [&[u8]; 6] = [b"jsonrpc", b"id", b"method", b"params", b"result", b"error"];

type Token = Option<(Kind, Span)>;

/// What one scanned object has of the envelope.
#[derive(Default)]
pub(crate) struct Envelope {
    version_2: bool,
    id: Token,
    id_valid: bool,
    method: Option<Result<Str, ()>>,
    params: Option<Kind>,
    found: Found,
    result: Token,
    error: Token,
    n_ids: u8,
    repeated: bool,
    misspelt: bool,
}

impl Envelope {
    /// Walks the object that starts here.
    pub(crate) fn scan(scanner: &mut Scanner<'_>) -> Scan<Envelope> {
        let mut envelope = Envelope::default();
        scanner.members(|scanner, name| envelope.member(scanner, name))?;
        envelope.repeated = scanner.repeated;
        Ok(envelope)
    }

    fn member(&mut self, scanner: &mut Scanner<'_>, name: Str) -> Scan<()> {
        match scanner.name(name).as_ref() {
            b"jsonrpc" => {
                let (_, span) = scanner.token()?;
                self.version_2 = &scanner.bytes[span.range()] == b"\"2.0\"";
            }
            b"id" => {
                let (kind, span) = scanner.token()?;
                self.n_ids = self.n_ids.saturating_add(1);
                self.id_valid = is_id(kind, &scanner.bytes[span.range()]);
                self.id = Some((kind, span));
            }
            b"method" if scanner.peek() == Some(b'"') => self.method = Some(Ok(scanner.string()?)),
            b"method" => {
                scanner.value()?;
                self.method = Some(Err(()));
            }
            b"params" => self.params = Some(self.found.scan(scanner)?),
            b"result" => self.result = Some(scanner.token()?),
            b"error" => self.error = Some(scanner.token()?),
            other => {
                self.misspelt |= resembles_envelope_name(other);
                scanner.value()?;
            }
        }
        Ok(())
    }

    /// The id, if it is one and the only one.
    fn known_id(&self, body: &Bytes) -> Option<Id> {
        let (_, span) = self.id.filter(|_| self.id_valid && self.n_ids == 1)?;
        Some(Id::from_checked(body.slice(span.range())))
    }

    /// What is wrong with the envelope whatever kind of message it is.
    fn fault(&self) -> Option<&'static str> {
        if self.repeated {
            return Some(ParseError::REPEATED_NAME);
        }
        if self.misspelt {
            return Some("a member differs from a JSON-RPC member only in case");
        }
        if !self.version_2 {
            return Some("jsonrpc must be \"2.0\"");
        }
        if self.id.is_some() && !self.id_valid {
            return Some("id must be a string or a whole number");
        }
        match (self.method, self.result.is_some(), self.error) {
            (Some(Err(())), _, _) => Some("method must be a string"),
            (_, true, Some(_)) => Some("a response has either result or error, not both"),
            (Some(Ok(_)), true, _) | (Some(Ok(_)), _, Some(_)) => {
                Some("a message is a request or a response, not both")
            }
            (Some(Ok(_)), ..) if !matches!(self.params, None | Some(Kind::Object)) => {
                Some("params must be an object")
            }
            (None, false, None) => Some("a message has a method, a result or an error"),
            (None, ..) if self.id.is_none() => Some("a response needs the id of its request"),
            (None, _, Some((kind, _))) if kind != Kind::Object => Some("error must be an object"),
            _ => None,
        }
    }
}

/// Turns a scanned envelope into the message it is.
pub(crate) fn parse_one(envelope: &Envelope, body: &Bytes) -> Result<Message, ParseError> {
    let id = envelope.known_id(body);
    if let Some(message) = envelope.fault() {
        return Err(ParseError { id, ..ParseError::invalid_request(message) });
    }
    if let Some(Ok(method)) = envelope.method {
        let method = method_text(method, body);
        let params = Params::new(body, envelope.found);
        return Ok(match id {
            Some(id) => Message::Request(Request { id, method, params }),
            None => Message::Notification(Notification { method, params }),
        });
    }
    let outcome = match (envelope.result, envelope.error) {
        (Some((_, span)), _) => Ok(body.slice(span.range())),
        (_, Some((_, span))) => Err(body.slice(span.range())),
        (None, None) => return Err(ParseError::invalid_request("not a message")),
    };
    let id = id.ok_or_else(|| ParseError::invalid_request("a response needs an id"))?;
    Ok(Message::Response(Response { id, outcome }))
}

fn method_text(method: Str, body: &Bytes) -> Text {
    if !method.escaped {
        return Text::from_checked(body.slice(method.span.range()));
    }
    let raw = std::str::from_utf8(&body[method.span.range()]).unwrap_or_default();
    Text::from(unescape(raw))
}

/// Whether a careless parser could take this unknown name for one of the envelope's: equal but for
/// case, counting the few non-ASCII characters that fold to ASCII letters.
fn resembles_envelope_name(name: &[u8]) -> bool {
    // The longest name has seven letters, and no letter that folds to ASCII takes over three bytes.
    if name.len() > 21 {
        return false;
    }
    let text = std::str::from_utf8(name).unwrap_or_default();
    NAMES.iter().any(|known| text.chars().map(fold).eq(known.iter().map(|b| char::from(*b))))
}

fn fold(letter: char) -> char {
    match letter {
        'ſ' => 's',
        '\u{212A}' => 'k',
        'İ' | 'ı' => 'i',
        _ => letter.to_ascii_lowercase(),
    }
}
