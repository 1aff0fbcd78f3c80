//! What a server plugs into the transport: one trait, called once per request.
//!
//! The transport decides framing, sessions and status codes; a handler decides results. Handlers
//! see raw JSON in both directions, so nothing they do not name is lost.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use lyceum_wire::{Id, Notification, ParamHeaders, Request, RpcError, Writer, encode};

use crate::byte_budget::{Reservation, UNCOUNTED_BYTES};
use crate::context::Context;
use crate::legacy::Session;

/// Answers MCP requests, in whichever era they arrive.
///
/// `initialize` and `server/discover` are ordinary requests here: [`Context::revision`] holds the
/// negotiated revision, and the transport mints the session afterwards.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request. Dropping the future cancels the call.
    ///
    /// An error with code -32601 tells the transport that the method does not exist, which the
    /// modern era reports as HTTP 404.
    fn call(
        &self,
        request: Request,
        cx: Context,
    ) -> impl Future<Output = Result<Outcome, RpcError>> + Send;

    /// Takes note of a notification. `notifications/cancelled` never gets here: the transport
    /// drops the call's future instead.
    fn notify(&self, notification: Notification, cx: Context) -> impl Future<Output = ()> + Send {
        let _ = (notification, cx);
        async {}
    }

    /// A legacy session opened its standalone stream: from now on [`Session::notify`] reaches it.
    ///
    /// Called again whenever the stream is reopened; keep a `Weak` to the session.
    fn stream_opened(&self, session: &Arc<Session>) {
        let _ = session;
    }

    /// The legacy session with this key is over: its client said so, or closed the one stream it had.
    /// Sessions whose clients just stay away are not told of.
    fn session_ended(&self, key: [u8; 16]) {
        let _ = key;
    }

    /// The `Mcp-Param-*` headers that the input schema of the tool a `tools/call` names asks for, if
    /// any.
    fn param_headers(&self, call: &Request) -> Option<Arc<ParamHeaders>> {
        let _ = call;
        None
    }

    /// Name, version and title for the information document and page served to a plain GET.
    fn about(&self) -> About<'_>;
}

/// How a server introduces itself to somebody who opens its address in a browser.
#[derive(Debug, Clone)]
pub struct About<'a> {
    /// The server's name.
    pub name: &'a str,
    /// The server's version.
    pub version: &'a str,
    /// A sentence on what it offers.
    pub description: &'a str,
    /// Further members of the information document.
    pub details: Vec<(&'static str, String)>,
}

/// The raw JSON of a request's `result` member, already in the shape of the request's era.
#[derive(Debug, Clone)]
pub struct Outcome {
    form: Form,
    charge: Option<Arc<Reservation>>,
}

#[derive(Debug, Clone)]
enum Form {
    Result(Bytes),
    /// The whole response, and where the result starts in it.
    Response(Bytes, usize),
}

impl Outcome {
    /// Wraps compact, single-line JSON.
    pub fn json(result: impl Into<Bytes>) -> Self {
        Self { form: Form::Result(result.into()), charge: None }
    }

    /// Has `fill` write the members of the result of request `id`, in about `room` bytes: where the
    /// response needs them, so that nobody has to copy them there.
    pub fn written(id: &Id, room: usize, fill: impl FnOnce(&mut Writer)) -> Self {
        let response = encode::result_with(id, room, fill);
        Self { form: Form::Response(response, encode::result_start(id)), charge: None }
    }

    /// Serializes `result`.
    ///
    /// # Errors
    /// When `result` cannot be represented as JSON.
    pub fn of<T: serde::Serialize>(result: &T) -> Result<Self, RpcError> {
        match serde_json::to_vec(result) {
            Ok(json) => Ok(Self::json(json)),
            Err(error) => Err(RpcError::internal(format!("result is not JSON: {error}"))),
        }
    }

    /// Holds `reservation` until the client has taken the response. A large result that brings none
    /// is charged for when it is there, and may be refused then.
    #[must_use]
    pub fn charged(self, reservation: Option<Arc<Reservation>>) -> Self {
        Self { charge: reservation, ..self }
    }

    /// Whether a reservation came with it.
    pub fn is_charged(&self) -> bool {
        self.charge.is_some()
    }

    /// The JSON text.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.form {
            Form::Result(result) => result,
            Form::Response(response, start) => &response[*start..response.len() - 1],
        }
    }

    /// The response to request `id`.
    pub fn into_response(self, id: &Id) -> Bytes {
        let response = match self.form {
            Form::Result(result) if result.len() > UNCOUNTED_BYTES => {
                encode::result_around(id, result.into())
            }
            Form::Result(result) => encode::result(id, &result),
            Form::Response(response, _) => response,
        };
        match self.charge {
            Some(charge) => charge.attach(response),
            None => response,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_the_same_whether_it_is_wrapped_or_written_in_place() {
        let large = format!("\"{}\"", "x".repeat(UNCOUNTED_BYTES));
        for (id, value) in [(Id::number(1), "1"), (Id::number(1_234_567), large.as_str())] {
            let wrapped = Outcome::json(format!(r#"{{"a":{value}}}"#));
            let written = Outcome::written(&id, 0, |out| out.raw("a", value));
            assert_eq!(written.as_bytes(), wrapped.as_bytes());
            assert_eq!(written.into_response(&id), wrapped.into_response(&id));
        }
    }
}
