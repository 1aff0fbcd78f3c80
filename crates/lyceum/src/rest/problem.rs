//! What goes wrong, as HTTP: one table from codes to statuses, one shape for all errors.

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use lyceum_http::BodyError;
use lyceum_http::guard::Refused;
use lyceum_kb::{Code, Error};
use serde_json::{Map, Value, json};

use crate::keys::Denied;

/// A request that was not done.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) details: Map<String, Value>,
    /// The methods that would have been fine.
    pub(super) allow: Option<HeaderValue>,
    pub(super) challenge: Option<HeaderValue>,
    /// Whether the rest of the request must not be taken for the next one.
    pub(super) close: bool,
    /// Whether the audit trail has it already.
    pub(super) audited: bool,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            details: Map::new(),
            allow: None,
            challenge: None,
            close: false,
            audited: false,
        }
    }

    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "MALFORMED_JSON", message)
    }

    pub(super) fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, "NOT_IMPLEMENTED", message)
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Error::unavailable(message).into()
    }

    pub(super) fn no_such_route() -> Self {
        Error::not_found("nothing is served here; /openapi.json lists what is").into()
    }

    /// Served, but not with this method.
    pub(super) fn wrong_method(allow: HeaderValue) -> Self {
        let text = format!("use {} here", allow.to_str().unwrap_or("another method"));
        let problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", text);
        Self { allow: Some(allow), ..problem }
    }

    pub(super) fn body(&self) -> Bytes {
        let Self { code, message, details, .. } = self;
        let error = json!({ "code": code, "message": message, "details": details });
        json!({ "error": error }).to_string().into()
    }
}

/// The status of each code.
pub(super) fn status(code: Code) -> StatusCode {
    match code {
        Code::InvalidArgument => StatusCode::UNPROCESSABLE_ENTITY,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Conflict | Code::Ambiguous | Code::NotFoundInContent => StatusCode::CONFLICT,
        Code::Forbidden => StatusCode::FORBIDDEN,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let problem = Self::new(status(error.code()), error.code().as_str(), error.message());
        Self { details: error.details().clone(), ..problem }
    }
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Self {
        let problem = Self::new(denied.status(), denied.code(), denied.message());
        // The gate has written it down.
        Self { challenge: denied.challenge(), audited: true, ..problem }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::BAD_REQUEST);
        let code = match status {
            StatusCode::FORBIDDEN => "FORBIDDEN",
            StatusCode::MISDIRECTED_REQUEST => "MISDIRECTED_REQUEST",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "UNSUPPORTED_MEDIA_TYPE",
            _ => "BAD_REQUEST",
        };
        Self::new(status, code, refused.message)
    }
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Self {
        let code = match error {
            BodyError::TooLarge | BodyError::TooManyValues => "PAYLOAD_TOO_LARGE",
            BodyError::NoRoom(_) => "UNAVAILABLE",
            BodyError::TooSlow => "REQUEST_TIMEOUT",
            _ => "BAD_REQUEST",
        };
        Self { close: true, ..Self::new(error.status(), code, error.to_string()) }
    }
}
