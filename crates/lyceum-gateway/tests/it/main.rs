//! The gateway against real upstreams.
