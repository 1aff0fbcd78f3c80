//! Integration tests: an endpoint with a fixture behind it, called in process or over loopback.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

// Batches of 2025-03-26.
mod batch;
// Bytes that callers share.
mod budgets;
// The client against scripted servers.
mod client;
// What the five dialects do differently.
mod dialects;
// Messages that could belong to either era.
mod edge_cases;
// The handler behind every test.
mod fixture;
// Guards at the door, and faults.
mod guards;
// Streams in the manner of Knox.
mod hand_over;
// The transport of 2024-11-05.
mod http_sse;
// An endpoint to call, and the requests to call it with.
mod lab;
// The status and error matrix.
mod matrix;
// What one caller may hold.
mod principals;
// Calls driven step by step.
mod puppet;
// The accept loop.
mod serve;
// Session ids and what they cost.
mod sessions;
// Streams: upgrade, cancellation, resumption, backpressure.
mod streams;
