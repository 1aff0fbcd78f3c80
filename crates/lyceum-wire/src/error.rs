//! Errors on the wire: codes, the error object, and why a body could not be parsed.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use crate::encode::write_str;
use crate::id::Id;
use crate::revision::{Era, RevisionSet, supported_versions_json};
use crate::scan::{Malformed, Scanner};
use crate::text::{excerpt, token_text};

/// A JSON-RPC error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub i32);

impl ErrorCode {
    /// The body is not JSON.
    pub const PARSE_ERROR: ErrorCode = ErrorCode(-32700);
    /// The body is JSON, but not a JSON-RPC message, or not one allowed here.
    pub const INVALID_REQUEST: ErrorCode = ErrorCode(-32600);
    /// No such method.
    pub const METHOD_NOT_FOUND: ErrorCode = ErrorCode(-32601);
    /// The parameters do not fit the method.
    pub const INVALID_PARAMS: ErrorCode = ErrorCode(-32602);
    /// Something went wrong on our side.
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(-32603);
    /// A routing header is missing, malformed, or disagrees with the body (2026-07-28).
    pub const HEADER_MISMATCH: ErrorCode = ErrorCode(-32020);
    /// The request needs a capability the client did not declare (2026-07-28).
    pub const MISSING_CLIENT_CAPABILITY: ErrorCode = ErrorCode(-32021);
    /// The protocol version is not served (2026-07-28).
    pub const UNSUPPORTED_PROTOCOL_VERSION: ErrorCode = ErrorCode(-32022);
    /// No such resource. Legacy revisions only; the modern one says [`Self::INVALID_PARAMS`].
    pub const RESOURCE_NOT_FOUND: ErrorCode = ErrorCode(-32002);
    /// The client must visit a URL first. 2025-11-25 only.
    pub const URL_ELICITATION_REQUIRED: ErrorCode = ErrorCode(-32042);
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A JSON-RPC error object.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// What kind of error.
    pub code: ErrorCode,
    /// One sentence for people: what is wrong and what to do.
    pub message: Cow<'static, str>,
    /// Raw JSON for programs.
    pub data: Option<Bytes>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> RpcError {
        RpcError { code, message: message.into(), data: None }
    }

    /// -32600.
    pub fn invalid_request(message: impl Into<Cow<'static, str>>) -> RpcError {
        RpcError::new(ErrorCode::INVALID_REQUEST, message)
    }

    /// -32602.
    pub fn invalid_params(message: impl Into<Cow<'static, str>>) -> RpcError {
        RpcError::new(ErrorCode::INVALID_PARAMS, message)
    }

    /// -32601, naming the method.
    pub fn method_not_found(method: &str) -> RpcError {
        let method = excerpt(method);
        RpcError::new(ErrorCode::METHOD_NOT_FOUND, format!("method not found: {method}"))
    }

    /// -32603.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> RpcError {
        RpcError::new(ErrorCode::INTERNAL_ERROR, message)
    }

    /// -32020.
    pub fn header_mismatch(message: impl Into<Cow<'static, str>>) -> RpcError {
        RpcError::new(ErrorCode::HEADER_MISMATCH, message)
    }

    /// No such resource, in the code the era knows, with `data.uri`.
    pub fn resource_not_found(uri: &str, era: Era) -> RpcError {
        let code = match era {
            Era::Legacy => ErrorCode::RESOURCE_NOT_FOUND,
            Era::Modern => ErrorCode::INVALID_PARAMS,
        };
        let mut data = Vec::with_capacity(uri.len() + 10);
        data.extend_from_slice(b"{\"uri\":");
        write_str(&mut data, uri);
        data.push(b'}');
        let message = format!("resource not found: {}", excerpt(uri));
        RpcError::new(code, message).with_data(data)
    }

    /// -32021; `required` is the raw `ClientCapabilities` object the request needs.
    pub fn missing_capability(required: &[u8]) -> RpcError {
        let data = [b"{\"requiredCapabilities\":".as_slice(), required, b"}"].concat();
        let message = "the client did not declare a capability this request needs";
        RpcError::new(ErrorCode::MISSING_CLIENT_CAPABILITY, message).with_data(data)
    }

    /// -32022, with what was asked for and what is served.
    pub fn unsupported_version(requested: &str, served: RevisionSet) -> RpcError {
        let requested = excerpt(requested);
        let mut data = Vec::with_capacity(requested.len() + 112);
        data.extend_from_slice(b"{\"supported\":");
        data.extend_from_slice(&supported_versions_json(served));
        data.extend_from_slice(b",\"requested\":");
        write_str(&mut data, &requested);
        data.push(b'}');
        let message = format!("unsupported protocol version: {requested}");
        RpcError::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, message).with_data(data)
    }

    /// Reads an error object, such as the one in [`Response::outcome`](crate::Response::outcome).
    pub fn parse(raw: &[u8]) -> Option<RpcError> {
        let (mut code, mut message, mut data) = (None, None, None);
        let mut scanner = Scanner::new(raw).ok()?;
        if scanner.ahead() != b'{' {
            return None;
        }
        let members = scanner.members(|scanner, name| {
            let name = scanner.text(name);
            let (_, span) = scanner.token()?;
            let value = &raw[span.range()];
            match &*name {
                "code" => code = std::str::from_utf8(value).ok().and_then(|code| code.parse().ok()),
                "message" => message = token_text(value),
                "data" => data = Some(Bytes::copy_from_slice(value)),
                _ => {}
            }
            Ok(())
        });
        members.and_then(|()| scanner.end()).ok()?;
        let message = message?.into_owned().into();
        Some(RpcError { code: ErrorCode(code?), message, data })
    }

    /// Reads the error of a whole response body, even one whose id is null or missing: that is how
    /// many servers answer a request they could not parse, and [`Message`](crate::Message) has no
    /// room for it.
    pub fn from_body(body: &[u8]) -> Option<RpcError> {
        let mut error = None;
        let mut scanner = Scanner::new(body).ok()?;
        if scanner.ahead() != b'{' {
            return None;
        }
        let members = scanner.members(|scanner, name| {
            let (_, span) = scanner.token()?;
            if scanner.named(name, |name| name == b"error") {
                error = Some(span);
            }
            Ok(())
        });
        members.and_then(|()| scanner.end()).ok()?;
        RpcError::parse(&body[error?.range()])
    }

    /// The same error with raw JSON data.
    pub fn with_data(mut self, data: impl Into<Bytes>) -> RpcError {
        self.data = Some(data.into());
        self
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for RpcError {}

/// Why a body is not a message.
#[derive(Clone, Debug)]
pub struct ParseError {
    /// -32700 or -32600.
    pub code: ErrorCode,
    /// What is wrong.
    pub message: Cow<'static, str>,
    /// The message's id, when it has a valid one.
    pub id: Option<Id>,
}

impl ParseError {
    pub(crate) const REPEATED_NAME: &'static str = "an object has the same member twice";

    pub(crate) fn invalid_request(message: &'static str) -> ParseError {
        ParseError { code: ErrorCode::INVALID_REQUEST, message: message.into(), id: None }
    }

    pub(crate) fn repeated_name() -> ParseError {
        ParseError::invalid_request(ParseError::REPEATED_NAME)
    }
}

impl From<Malformed> for ParseError {
    fn from(malformed: Malformed) -> ParseError {
        let message = malformed.message().into();
        ParseError { code: ErrorCode::PARSE_ERROR, message, id: None }
    }
}

impl From<ParseError> for RpcError {
    fn from(error: ParseError) -> RpcError {
        RpcError::new(error.code, error.message)
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ParseError {}
