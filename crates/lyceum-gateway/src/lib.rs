//! Other MCP servers behind one door.
//!
//! An upstream is a child process, a Streamable HTTP server or an old HTTP+SSE server, of any
//! revision. What it offers appears in a [`lyceum_server::Server`] next to that server's own tools,
//! and calls are passed on as bytes: only ids, names, URIs and `_meta` are rewritten, and whatever the
//! client's era and the upstream's era do differently.
//!
//! This crate has never heard of the knowledge base, of configuration files or of command lines.

mod absent;
mod catalogue;
mod clashes;
mod config;
pub mod credentials;
mod door;
mod drift;
mod gateway;
pub mod glob;
pub mod import;
pub mod invisible;
mod listing;
pub mod lock;
pub mod names;
pub mod oauth;
pub mod process;
mod redact;
mod relay;
mod reserved;
mod routes;
pub mod stack;
mod tree;
mod upstream;
pub mod url_form;

pub use config::{EraChoice, HeaderSource, Share, Target, UpstreamConfig};
pub use door::{Door, Shown};
pub use gateway::{Form, Gateway, Why};
pub use reserved::Reserved;
pub use routes::Allow;
pub use upstream::{Health, Setting, Status};
