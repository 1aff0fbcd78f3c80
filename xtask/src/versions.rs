//! Every version of a foreign tool the test run installs, in one place.
//!
//! Exact, so that a run next year tests against what was meant. Crates are pinned by `Cargo.lock`.

/// The test runner, crate `cargo-nextest`; only built when the machine has none.
pub(crate) const NEXTEST: &str = "0.9.143";

/// Runs the conformance suite, the TypeScript client and the reference server; the suite needs 22, Debian has 20.
pub(crate) const NODE: &str = "22.23.3";

/// The official suite, npm package `@modelcontextprotocol/conformance`.
pub(crate) const CONFORMANCE: &str = "0.2.0-alpha.12";

/// The official TypeScript SDK, npm package `@modelcontextprotocol/sdk`.
pub(crate) const TYPESCRIPT_SDK: &str = "1.32.2";

/// The schema library the TypeScript SDK asks its users to bring.
pub(crate) const ZOD: &str = "4.6.7";

/// The official Python SDK, PyPI package `mcp`: the newest of the line before the stateless era.
pub(crate) const PYTHON_SDK_1: &str = "1.30.0";

/// The newest Python SDK.
pub(crate) const PYTHON_SDK_2: &str = "2.3.0";

/// A server of other people, npm package `@modelcontextprotocol/server-everything`.
pub(crate) const REFERENCE_SERVER: &str = "2026.8.31";

/// A gateway ours is measured beside, crate `mcp-proxy`.
pub(crate) const MCP_PROXY: &str = "0.6.0";

/// Another one, PyPI package `fastmcp`, and what its HTTP server is fast with.
pub(crate) const FASTMCP: &str = "4.1.2";
pub(crate) const UVLOOP: &str = "0.22.1";
pub(crate) const HTTPTOOLS: &str = "0.7.1";
