//! The matching client: one API for servers of every revision, over HTTP or over lines.
//!
//! Connecting finds out what the server speaks; from then on both eras look alike. Params and
//! results stay raw JSON, so that a gateway can pass on what it does not know. Everything a server
//! can make the client hold or wait for has a [limit](Limits). No TLS of its own: give the builder
//! an HTTP stack that has it.
//!
//! ```no_run
//! # async fn example() -> Result<(), lyceum_http::client::ClientError> {
//! use lyceum_http::client::{CallOptions, Client};
//!
//! let client = Client::builder("http://127.0.0.1:8808/mcp").name("example", "1.0").build()?;
//! let server = client.connect().await?;
//! for tool in server.list_tools().await? {
//!     println!("{}", tool.name);
//! }
//! let result = server.call_tool("echo", r#"{"text":"hello"}"#, &CallOptions::new()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A server in a child process is reached over its input and output, with the same API:
//!
//! ```no_run
//! # use lyceum_http::client::{Client, ClientError};
//! # async fn example(
//! #     stdout: impl tokio::io::AsyncRead + Send + Unpin + 'static,
//! #     stdin: impl tokio::io::AsyncWrite + Send + Unpin + 'static,
//! # ) -> Result<(), ClientError> {
//! let server = Client::builder("").name("example", "1.0").connect_over(stdout, stdin).await?;
//! # Ok(())
//! # }
//! ```

mod answered;
mod builder;
mod call;
mod connect;
mod core;
mod endpoint;
mod error;
mod exchange;
mod handler;
mod http1;
mod input;
mod intake;
mod legacy;
mod life;
mod limits;
mod line;
mod listen;
mod listing;
mod mailbox;
mod modern;
mod options;
mod params;
mod peer;
mod pending;
mod plain;
mod post;
mod progress;
mod remote;
mod reply;
mod response;
#[cfg(feature = "fetch")]
mod safe_dialer;
mod silence;
mod stream;
mod task;
mod tools;
mod traffic;

pub use builder::{Client, ClientBuilder};
pub use connect::Transport;
pub use error::{BoxError, ClientError, NoCredentials, RefusedStatus};
pub use exchange::RequestBody;
pub use handler::{ClientHandler, ServerNotification, ServerRequest};
pub use limits::Limits;
pub use listen::Subscription;
pub use options::CallOptions;
pub use params::CallParams;
pub use peer::Peer;
#[cfg(feature = "fetch")]
pub use safe_dialer::{
    DialError, Fetched, Network, NetworkFuture, Policy, SafeDialer, SystemNetwork,
};
pub use tools::Tool;
