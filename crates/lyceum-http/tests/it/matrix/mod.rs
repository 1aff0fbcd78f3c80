//! The status and error matrix, row by row, for both eras. Each test is named after its row.

mod calls;
mod door;
mod envelope;
mod sessions;
mod versions;

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, StatusCode};
use lyceum_http::{Authenticate, AuthenticateFuture, Principal, Unauthorized};
use lyceum_testkit::Response;
use serde_json::{Value, json};

/// Expects a refusal: its status, its code, the id it echoes (`null` means none), all as one line
/// of JSON.
#[track_caller]
pub(crate) fn refused(response: &Response, status: u16, code: i64, id: Value) {
    let text = response.text();
    assert_eq!(response.status(), status, "{text}");
    assert_eq!(response.head.get("content-type"), Some("application/json"), "{text}");
    assert!(!text.contains(['\n', '\r']), "one line: {text:?}");
    let body = response.json();
    assert_eq!(body["error"]["code"], json!(code), "{text}");
    assert_eq!(body["jsonrpc"], "2.0", "{text}");
    assert!(body["error"]["message"].as_str().is_some_and(|text| text.len() > 5), "{text}");
    if id.is_null() {
        assert!(body.get("id").is_none(), "an unknown id is left out: {text}");
    } else {
        assert_eq!(body["id"], id, "{text}");
    }
}

/// Expects a result with this id.
#[track_caller]
pub(crate) fn succeeded(response: &Response, id: impl Into<Value>) -> Value {
    assert_eq!(response.status(), 200, "{}", response.text());
    let message = match response.head.get("content-type") {
        Some("application/json") => response.json(),
        _ => response.events().last().expect("a stream ends with its answer").json(),
    };
    assert!(message.get("error").is_none(), "{message}");
    assert_eq!(message["id"], id.into(), "{message}");
    message
}

/// Lets in whoever says `Authorization: Bearer <name>`, except `weak`, who lacks a scope.
pub(crate) struct Bearer;

impl Bearer {
    pub(crate) fn shared() -> Arc<dyn Authenticate> {
        Arc::new(Self)
    }
}

impl Authenticate for Bearer {
    fn authenticate<'a>(&'a self, head: &'a Parts) -> AuthenticateFuture<'a> {
        Box::pin(async move {
            let credentials =
                head.headers.get("authorization").and_then(|value| value.to_str().ok());
            match credentials.and_then(|value| value.strip_prefix("Bearer ")) {
                Some("weak") => Err(Unauthorized {
                    status: StatusCode::FORBIDDEN,
                    challenge: Some(HeaderValue::from_static(
                        r#"Bearer error="insufficient_scope""#,
                    )),
                    message: "ask for more".into(),
                }),
                Some(name) => Ok(Some(Principal::new(name))),
                None => Err(Unauthorized::bearer("send a bearer token")),
            }
        })
    }
}
