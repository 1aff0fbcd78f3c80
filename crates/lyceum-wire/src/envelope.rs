//! The JSON-RPC envelope: which members a message has, and what that makes it.
//!
//! [`Envelope::scan`] collects, [`parse_one`] judges; so a body that is not JSON is always -32700, and
//! one that is but is no JSON-RPC message is always -32600, whichever came first in the bytes.

use bytes::Bytes;

use crate::error::ParseError;
use crate::id::{Id, MAX_ID_BYTES, is_id, kept_token};
use crate::message::{Message, Notification, Request, Response};
use crate::params::{Found, Params};
use crate::scan::{Kind, Scan, Scanner, Span, Str};
use crate::text::{Text, resembles, unescape};

/// The names JSON-RPC gives to the members of a message.
const NAMES: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
/// The method that is called most; its text needs no share of the body.
const CALL: &str = "tools/call";

/// What a member of a message is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Version,
    Id,
    Method,
    Params,
    Result,
    Error,
    /// Not a name of JSON-RPC, but one a careless parser would take for it.
    Misspelt,
    Unknown,
}

impl Part {
    fn of(name: &[u8]) -> Part {
        match name {
            b"jsonrpc" => Part::Version,
            b"id" => Part::Id,
            b"method" => Part::Method,
            b"params" => Part::Params,
            b"result" => Part::Result,
            b"error" => Part::Error,
            _ if resembles_envelope_name(name) => Part::Misspelt,
            _ => Part::Unknown,
        }
    }
}

/// What one scanned object has of the envelope.
#[derive(Default)]
pub(crate) struct Envelope {
    version_2: bool,
    id: Span,
    id_valid: bool,
    n_ids: u8,
    method: Option<Result<Str, ()>>,
    params: Option<Kind>,
    found: Found,
    result: Span,
    error: Span,
    error_is_object: bool,
    repeated: bool,
    misspelt: bool,
}

impl Envelope {
    /// Walks the object that starts here.
    pub(crate) fn scan(&mut self, scanner: &mut Scanner<'_>) -> Scan<()> {
        scanner.members(|scanner, name| {
            let member = scanner.named(name, Part::of);
            self.part(member, scanner)
        })?;
        self.repeated = scanner.repeated;
        Ok(())
    }

    fn part(&mut self, part: Part, scanner: &mut Scanner<'_>) -> Scan<()> {
        match part {
            Part::Version => {
                let (_, span) = scanner.token()?;
                self.version_2 = &scanner.bytes[span.range()] == b"\"2.0\"";
            }
            Part::Id => {
                let (kind, span) = scanner.token()?;
                self.n_ids = self.n_ids.saturating_add(1);
                self.id_valid = is_id(kind, &scanner.bytes[span.range()]);
                self.id = span;
            }
            Part::Method if scanner.peek() == b'"' => self.method = Some(Ok(scanner.string()?)),
            Part::Method => {
                scanner.skip()?;
                self.method = Some(Err(()));
            }
            Part::Params => self.params = Some(self.found.scan(scanner)?),
            Part::Result => self.result = scanner.token()?.1,
            Part::Error => {
                let (kind, span) = scanner.token()?;
                self.error_is_object = kind == Kind::Object;
                self.error = span;
            }
            Part::Misspelt | Part::Unknown => {
                self.misspelt |= part == Part::Misspelt;
                scanner.skip()?;
            }
        }
        Ok(())
    }

    /// The id, if it is one and the only one.
    fn known_id(&self, body: &Bytes) -> Option<Id> {
        (self.id_valid && self.n_ids == 1 && self.id.len() as usize <= MAX_ID_BYTES)
            .then(|| Id::from_checked(kept_token(body, self.id.range())))
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
        if self.n_ids > 0 && !self.id_valid {
            return Some("id must be a string or a whole number");
        }
        if self.id.len() as usize > MAX_ID_BYTES {
            return Some("id is longer than 4096 bytes; send a shorter one");
        }
        match self.method {
            Some(Ok(_)) => self.call_fault(),
            Some(Err(())) => Some("method must be a string"),
            None => self.response_fault(),
        }
    }

    fn call_fault(&self) -> Option<&'static str> {
        if !self.result.is_empty() || !self.error.is_empty() {
            return Some("a message is a request or a response, not both");
        }
        if self.found.progress_token_len() > MAX_ID_BYTES {
            return Some("progressToken is longer than 4096 bytes; send a shorter one");
        }
        match self.params {
            None | Some(Kind::Object) => None,
            Some(_) => Some("params must be an object"),
        }
    }

    fn response_fault(&self) -> Option<&'static str> {
        match (!self.result.is_empty(), !self.error.is_empty()) {
            (false, false) => Some("a message has a method, a result or an error"),
            (true, true) => Some("a response has either result or error, not both"),
            (false, true) if !self.error_is_object => Some("error must be an object"),
            _ if self.n_ids == 0 => Some("a response needs the id of its request"),
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
    let id = id.ok_or_else(|| ParseError::invalid_request("a response needs an id"))?;
    let outcome = if envelope.error.is_empty() {
        Ok(body.slice(envelope.result.range()))
    } else {
        Err(body.slice(envelope.error.range()))
    };
    Ok(Message::Response(Response { id, outcome }))
}

fn method_text(method: Str, body: &Bytes) -> Text {
    if body[method.span.range()] == *CALL.as_bytes() {
        return Text::from_static(CALL);
    }
    if !method.escaped {
        return Text::from_checked(kept_token(body, method.span.range()));
    }
    let raw = std::str::from_utf8(&body[method.span.range()]).unwrap_or_default();
    Text::from(unescape(raw))
}

/// Whether a careless parser could take this unknown name for one of the envelope's.
fn resembles_envelope_name(name: &[u8]) -> bool {
    // The longest name has seven letters, and no letter that folds to ASCII takes over three bytes.
    if name.len() > 21 {
        return false;
    }
    let text = std::str::from_utf8(name).unwrap_or_default();
    NAMES.iter().any(|known| resembles(text, known))
}

#[cfg(test)]
mod tests;
