//! The gateway against real upstreams.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod ages;
mod arrival;
mod breaker;
mod bridge;
mod canaries;
mod census;
mod clashes;
mod contained;
mod crowd;
mod depth;
#[path = "../../examples/upstream/fixture.rs"]
mod fixture;
mod goodbye;
mod healing;
mod hostile;
mod house;
mod judged;
mod log;
mod many;
mod matrix;
mod mirror;
mod oauth;
mod own;
mod processes;
mod raw;
mod redeployed;
mod reload;
mod renewal;
mod reshared;
mod second_look;
mod shelves;
mod smuggling;
mod stack;
mod sweep;
mod tasks;
mod traced;
