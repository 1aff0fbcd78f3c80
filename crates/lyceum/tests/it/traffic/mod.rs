//! Steady traffic for a while, as a team's agents make it.
//!
//! Named `release_…`: what is asked for is asked of the optimized binary.

mod lag; // how long vectors take to follow writes
mod mixed; // all tools at once
mod soak; // all periodic work, every few seconds
