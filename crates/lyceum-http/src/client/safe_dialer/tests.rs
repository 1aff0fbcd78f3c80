//! What the dialer refuses, with a trap that must stay empty, and what it fetches.

mod fetching;
mod refusing;
mod stage;
