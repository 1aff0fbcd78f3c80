//! The knowledge base as MCP clients see it: tools, resources, prompts.
//!
//! What documents are and how they are found is `lyceum_kb`'s business; this module words it for
//! models. Each tool has a file with its arguments and a function that knows nothing of MCP, so that
//! other surfaces can call it too.

pub(crate) mod answers;
pub(crate) mod arguments;
pub(crate) mod charge;
mod completions;
pub(crate) mod desk;
mod following;
mod prompts;
pub(crate) mod refusal;
mod resources;
mod rights;
mod schema;
mod server;
pub(crate) mod time;
pub(crate) mod tools;
mod uri;
mod whole;

pub(crate) use following::follow;
pub(crate) use rights::offer;
pub(crate) use server::{SCHEMA_VERSION, reserved, server};
