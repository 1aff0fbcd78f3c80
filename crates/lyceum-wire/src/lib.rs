//! MCP on the wire: JSON-RPC envelopes over bytes, revisions and eras, error codes, routing headers.
//!
//! Everything here is a pure function over bytes: no I/O, no async, no clock, no serde on the way of
//! a message. [`Message::parse`] reads a body once and keeps slices of it; [`classify`] decides which
//! era it belongs to; [`check_modern`] runs the modern checks; [`encode`] writes the answer.
//!
//! ```
//! use bytes::Bytes;
//! use lyceum_wire::{Member, Message, encode};
//!
//! let body = Bytes::from_static(br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"}}"#);
//! let Ok(Message::Request(request)) = Message::parse(&body) else { panic!("a request") };
//! assert_eq!(request.method, "tools/call");
//! assert_eq!(request.params.text(Member::Name).as_deref(), Some("echo"));
//! assert_eq!(encode::result(&request.id, b"{}"), r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
//! ```
#![warn(missing_docs)]

mod capabilities;
mod checked;
mod classify;
pub mod encode;
mod envelope;
mod error;
mod id;
mod level;
mod message;
pub mod mirror;
mod modern;
mod names;
mod number;
mod object;
mod param_headers;
mod params;
mod revision;
mod scan;
mod text;

pub use capabilities::ClientCapabilities;
pub use classify::{Field, Refusal, Route, RoutingHeaders, batch_allowed, classify, is_modern_get};
pub use error::{ErrorCode, ParseError, RpcError};
pub use id::{Id, MAX_ID_BYTES};
pub use level::LogLevel;
pub use message::{MAX_BATCH, Message, Notification, Request, Response};
pub use mirror::{BadValue, decode_value, encode_value, required_name};
pub use modern::{
    ModernRequest, check_modern, check_modern_meta, check_modern_notification, removed_in_modern,
};
pub use object::{Object, Writer, elements, string};
pub use param_headers::{InvalidAnnotation, ParamHeader, ParamHeaders};
pub use params::{Member, Params};
pub use revision::{Era, Revision, RevisionSet, negotiate, supported_versions_json};
pub use scan::MAX_DEPTH;
pub use text::{Text, excerpt, resembles};
