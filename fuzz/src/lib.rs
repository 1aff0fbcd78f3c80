//! What must hold for any bytes: one module per fuzz target, each with a `check` that panics if it
//! does not.
//!
//! Every check compares the product with something written apart from it: serde_json, or a slow and
//! simple reader in the same file. A shared mistake would go unseen, so nothing here calls the
//! product to know what is right.

pub mod accept;
pub mod chunks;
pub mod envelope;
mod json;
pub mod routing;
mod spell;
pub mod sse;
