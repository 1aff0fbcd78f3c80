//! Integration tests of the binary, started as a process.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod alarms; // what is reported when something is wrong
mod commands; // import, export, search, get, ls, put, rm, check, backup, restore
mod convert; // the process that reads files of strangers
mod docs; // pages written from what the server says
mod doctor; // what the doctor says about good, strict and hopeless servers
mod durability; // what survives kills, failing disks and cut connections
mod embedding; // what an embedding service is asked, and how often
mod ingest; // pages and files of the web, as documents
mod keys; // who may enter, and what is written down about those who may not
mod knowledge; // the knowledge base over MCP
mod knox; // what clients of the Knox MCP proxy find
mod lyceum; // starts the binary and talks to it
mod memory; // what it takes when callers ask for as much as they can
mod readme; // what the README shows
mod refusals; // configurations it does not start with
mod rest; // the HTTP API beside MCP
mod serve; // what it serves over HTTP
mod stdio; // what it serves over standard input and output
mod talk; // what it prints
mod traffic; // steady traffic for a while
mod upstreams; // other servers behind it
