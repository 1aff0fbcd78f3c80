//! Reading responses: which request one answers, and its result or error.

use std::fmt;

use bytes::Bytes;
use lyceum_wire::{ErrorCode, Id, Message, Params, Response, RpcError};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::ClientError;
use super::stream::parse;

/// The result in a JSON body that answers request `id`.
pub(crate) fn result_in(body: &Bytes, id: &Id) -> Result<Bytes, ClientError> {
    match parse(body) {
        Ok(Message::Response(response)) if response.id == *id => result_of(&response),
        // A server that lost track of the id still said what went wrong.
        Ok(Message::Response(Response { outcome: Err(error), .. })) => {
            Err(ClientError::Rpc(read_error(&error)?))
        }
        Ok(_) => Err(ClientError::protocol("its answer is not the one to our request")),
        Err(malformed) => Err(error_in(body).map_or(malformed, ClientError::Rpc)),
    }
}

/// The result of a response.
pub(crate) fn result_of(response: &Response) -> Result<Bytes, ClientError> {
    match &response.outcome {
        Ok(result) => Ok(result.clone()),
        Err(error) => Err(ClientError::Rpc(read_error(error)?)),
    }
}

/// The error object of a JSON-RPC message, read leniently: refusals often have no id, or `null`.
pub(crate) fn error_in(body: &[u8]) -> Option<RpcError> {
    read_error(error_object(body)?.as_bytes()).ok()
}

/// The same, as raw JSON.
pub(crate) fn raw_error_in(body: &Bytes) -> Option<Bytes> {
    error_object(body).map(|error| body.slice_ref(error.as_bytes()))
}

/// The id of a JSON-RPC message, as it was sent.
pub(crate) fn id_in(body: &Bytes) -> Option<Bytes> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let answer: Answer<'_> = serde_json::from_slice(body).ok()?;
    Some(body.slice_ref(answer.id.get().as_bytes()))
}

fn error_object(body: &[u8]) -> Option<&str> {
    #[derive(Deserialize)]
    struct Refusal<'a> {
        #[serde(borrow)]
        error: &'a RawValue,
    }
    let refusal: Refusal<'_> = serde_json::from_slice(body).ok()?;
    Some(refusal.error.get())
}

/// Reads a JSON-RPC error object.
fn read_error(raw: &[u8]) -> Result<RpcError, ClientError> {
    #[derive(Deserialize)]
    struct ErrorObject<'a> {
        code: i64,
        #[serde(default)]
        message: String,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    let bad =
        |error: &dyn fmt::Display| ClientError::protocol(format!("bad error object: {error}"));
    // Errors are read even from what is no message, so nobody has looked at their depth so far.
    Params::from_raw(Bytes::copy_from_slice(raw)).map_err(|error| bad(&error))?;
    let object: ErrorObject<'_> = serde_json::from_slice(raw).map_err(|error| bad(&error))?;
    let code = i32::try_from(object.code).map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
    let error = RpcError::new(code, object.message);
    Ok(match object.data {
        Some(data) => error.with_data(Bytes::copy_from_slice(data.get().as_bytes())),
        None => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &'static str, expected: Result<&str, &str>) {
        let result = result_in(&Bytes::from_static(body.as_bytes()), &Id::number(1));
        let result = result.map_err(|error| error.to_string());
        match expected {
            Ok(expected) => assert_eq!(result.as_deref(), Ok(expected.as_bytes()), "{body}"),
            Err(part) => assert!(result.clone().unwrap_err().contains(part), "{body}: {result:?}"),
        }
    }

    #[test]
    fn only_our_own_answer_is_taken() {
        check(r#"{"jsonrpc":"2.0","id":1,"result":{"x":1.0}}"#, Ok(r#"{"x":1.0}"#));
        check(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#, Err("not the one to our request"));
        check(r#"{"jsonrpc":"2.0","id":"1","result":{}}"#, Err("not the one to our request"));
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, Err("not the one to our request"));
        check(r#"{"jsonrpc":"2.0","id":1}"#, Err("no JSON-RPC message"));
        check("[]", Err("no JSON-RPC message"));
    }

    #[test]
    fn errors_are_heard_whatever_their_id() {
        for id in ["1", "2", "null", "\"server-error\""] {
            let body =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-1,"message":"no"}}}}"#);
            check(body.leak(), Err("no (-1)"));
        }
        check(r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"no"}}"#, Err("no (-1)"));
        check(r#"{"jsonrpc":"2.0","id":1,"error":{"message":"no"}}"#, Err("bad error object"));
    }

    #[test]
    fn errors_are_held_to_what_messages_are() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for data in [deep.as_str(), r#"{"a":1,"a":2}"#] {
            let error = format!(r#"{{"error":{{"code":-1,"message":"no","data":{data}}}}}"#);
            check(error.clone().leak(), Err("no JSON-RPC message"));
            assert_eq!(error_in(error.as_bytes()), None);
        }
    }
}
