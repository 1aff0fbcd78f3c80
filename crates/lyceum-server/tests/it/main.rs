//! Tests of lyceum-server, by topic. Most call the server in process, as a transport would.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

// A client in process: builds requests and contexts, records what is sent, answers questions.
mod talk;

// Telling clients what changed.
mod changes;
// Progress and log messages.
mod emitting;
// What a server may decide itself: refusals, lists, what it says about its tools.
mod foreign;
mod hooks;
// Behind the HTTP transport: what only shows with a real connection.
mod http;
// Our own client over an in-memory pipe.
mod lines;
// Lists: pages, cursors, things that come and go.
mod lists;
// Reading resources, getting prompts, completing arguments.
mod reading;
// Questions to the client, in both eras.
mod rounds;
// What each revision is told: handshake, discovery, lists, results.
mod shapes;
// Many clients at once over real sockets: no answer reaches the wrong one.
mod isolation;
// The stdio transport over an in-memory pipe.
mod stdio;
// Tasks of both eras.
mod tasks;
// Tools: arguments, errors, structured content.
mod tools;
