//! The gateway against real upstreams.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod breaker;
mod bridge;
#[path = "../../examples/upstream/fixture.rs"]
mod fixture;
mod healing;
mod house;
mod many;
mod matrix;
mod mirror;
mod oauth;
mod reload;
mod stack;
mod sweep;
mod tasks;
