//! MCP over HTTP for every revision, 2024-11-05 to 2026-07-28, on one URL.
//!
//! [`Endpoint`] is a tower service: it guards, negotiates, parses and classifies each request, calls
//! a [`Handler`] and frames its answer as JSON or as an event stream. [`Site`] puts endpoints at
//! their paths and [`serve`] accepts connections. The matching [`client`] speaks every revision too.
#![warn(missing_docs)]

mod absorb;
pub mod accept;
mod answer;
mod authenticate;
mod body;
mod byte_budget;
mod call;
mod caller;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
mod connections;
mod context;
pub mod cors;
mod counters;
pub mod dialect;
mod endpoint;
#[cfg(feature = "client")]
mod ends;
pub mod explain;
mod fields;
#[cfg(feature = "server")]
mod flow_stall;
pub mod guard;
mod handler;
mod info;
mod legacy;
mod limits;
mod modern;
mod outbox;
mod outlet;
mod pipeline;
mod request_id;
mod seal;
mod secret_file;
#[cfg(feature = "server")]
mod serve;
mod site;
pub mod sse;
#[cfg(feature = "server")]
mod stall;
mod stream;
mod timers;
mod too_many;
#[cfg(feature = "server")]
mod watched;

pub use answer::AnswerBody;
pub use authenticate::{Authenticate, AuthenticateFuture, Lapse, Unauthorized};
pub use body::{BodyError, read as read_body};
pub use byte_budget::{ByteBudget, ByteBudgets, Exhausted, PATIENCE, Reservation, UNCOUNTED_BYTES};
pub use caller::{CallerId, peer};
pub use context::{Caller, Context, Delivery, Outlet, OutletFuture, Principal};
pub use dialect::Dialect;
pub use endpoint::{Endpoint, EndpointBuilder, InfoDocument, ResponseFuture};
pub use guard::{HostPolicy, OriginPolicy};
pub use handler::{About, Handler, Outcome};
pub use legacy::{HttpSse, MAX_QUESTIONS, MAX_SUBSCRIPTION_BYTES, MAX_SUBSCRIPTIONS, Session};
pub use limits::Limits;
pub use outbox::{Outbox, Reader, UNCOUNTED_STREAM_BYTES};
pub use request_id::{REQUEST_ID, request_id};
pub use seal::{KEY_BYTES, MAX_TOKEN_BYTES, Purpose, Sealer, random};
pub use secret_file::open_secret_file;
#[cfg(feature = "server")]
pub use serve::{ServeOptions, serve};
pub use site::Site;
