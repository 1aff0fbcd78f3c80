//! Integration tests: an endpoint with a fixture behind it, called in process or over loopback.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

// The client against scripted servers.
mod client;
// What the five dialects do differently.
mod dialects;
// Messages that could belong to either era.
mod edge_cases;
// The handler behind every test.
mod fixture;
// An endpoint to call, and the requests to call it with.
mod lab;
// The status and error matrix.
mod matrix;
// Calls driven step by step.
mod puppet;
// Streams: upgrade, cancellation, resumption, backpressure.
mod streams;
