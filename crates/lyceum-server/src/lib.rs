//! (crate docs)

pub mod stdio;
