//! What keeps bad requests out and the server up: addressing, CORS, bodies, smuggling, faults.

mod addressing;
mod bodies;
mod cors;
mod faults;
mod frames;
mod http2;
mod smuggling;
