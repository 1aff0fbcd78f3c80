//! The Knox surface, row by row: each test is named after the row of docs/knox.md it stands for.

mod calls; // what is not MCP: K9
mod endpoint; // the paths and headers of MCP: K1 to K8
mod house; // a lyceum with the preset, and servers behind it
mod messages; // JSON-RPC: K10 to K17
mod names; // names and discovery: K30 to K34
mod operations; // configuration, keys, logs: K50 to K56
mod streams; // event streams: K20 to K23
mod upstreams; // servers behind it: K40 to K46
