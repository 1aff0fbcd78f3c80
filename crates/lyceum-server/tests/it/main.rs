//! Integration tests of writing and running servers.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod stdio; // the stdio transport over an in-memory pipe
