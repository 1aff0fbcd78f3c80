//! Write MCP servers as plain async functions: one API for both protocol eras, over HTTP and stdio.
//!
//! A [`Server`] is built once and answers every revision from 2024-11-05 to 2026-07-28. It never
//! touches a socket: it is a [`lyceum_http::Handler`], and a transport calls it.
//!
//! ```
//! use lyceum_server::{Call, Server, tool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Greet {
//!     name: Option<String>,
//! }
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Name {
//!     name: String,
//! }
//!
//! let server = Server::builder("greeter", "1.0.0")
//!     .tool(tool("greet", "Greets by name.", |cx: Call, args: Greet| async move {
//!         let name = match args.name {
//!             Some(name) => name,
//!             None => cx.elicit::<Name>("user_name", "What is your name?").await?.name,
//!         };
//!         cx.progress(1.0, Some(1.0)).await;
//!         Ok(format!("Hello, {name}!"))
//!     }))
//!     .build();
//! ```

mod annotations;
mod ask;
mod builder;
mod cache;
mod call;
mod capabilities;
mod changes;
mod completion;
mod content;
mod discover;
mod dispatch;
mod error;
mod foreign;
mod identity;
mod json;
mod legacy;
mod listen;
mod listen_filter;
mod listing;
mod page;
mod prompt;
mod refused;
mod resource;
mod resource_read;
mod rounds;
mod schema;
mod server;
mod shelf;
mod since;
pub mod stdio;
mod tasks;
mod template;
mod tool;
mod tool_call;
mod tool_result;
mod uri_template;

pub use annotations::{Icon, Role, Theme};
pub use ask::{Answers, Ask, Elicited, Root, Sampled, Sampling};
pub use builder::Builder;
pub use cache::Cache;
pub use call::Call;
pub use completion::Completing;
pub use content::{Content, ResourceLink};
pub use error::{Capability, ToolError};
pub use foreign::{Foreign, ForeignItem, ForeignNews, ForeignTasks, UriClaim};
pub use listen_filter::ListenFilter;
pub use listing::ResourcePage;
pub use lyceum_wire::LogLevel;
pub use prompt::{IntoMessages, Prompt, PromptArguments, PromptMessage, prompt};
pub use refused::Refused;
pub use resource::{IntoContents, Resource, ResourceContents, resource};
pub use resource_read::MAX_URI_BYTES;
pub use schema::{FormError, Schema, SchemaError, schema_settings};
pub use server::Server;
pub use template::{ResourceTemplate, template};
pub use tool::{NoArguments, Tool, tool, tool_with_schema};
pub use tool_result::{IntoToolResult, Json, ToolResult};
pub use uri_template::{TemplateError, Variables};
