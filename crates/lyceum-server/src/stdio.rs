//! MCP over standard input and output: one JSON-RPC message per line, both eras on one connection.
//!
//! A request with modern `_meta` is served statelessly; `initialize` settles the legacy revision of
//! the connection. Nothing here knows methods other than those the transport itself acts on, and
//! nothing but messages ever goes to the output: logging is for stderr.
//!
//! ```no_run
//! # async fn run(server: impl lyceum_http::Handler) -> std::io::Result<()> {
//! lyceum_server::stdio::serve(server, lyceum_server::stdio::Options::default()).await
//! # }
//! ```

use std::io;
use std::sync::Arc;

use lyceum_http::{ByteBudgets, Handler, Limits, Sealer};
use lyceum_wire::RevisionSet;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Duration;

mod calls;
mod connection;
mod lines;
mod outlet;
mod work;
mod writer;

use connection::Connection;

/// What a connection will hold and how long it will wait.
///
/// Memory is bounded by `2 × line_bytes` of input, `in_flight` calls, `queue_bytes` of output, and what
/// `budgets` allow for answers that the client has not read yet.
#[derive(Debug, Clone)]
pub struct Options {
    /// The revisions served. Default: all.
    pub served: RevisionSet,
    /// Seals cursors and request state. Default: a key that dies with the process, as the
    /// connection does.
    pub sealer: Arc<Sealer>,
    /// What large answers and the work for them are charged to. Default: as [`Limits`] has them.
    pub budgets: Arc<ByteBudgets>,
    /// Bytes of one line; a longer one is skipped and answered with an error. Default: 4 MiB.
    pub line_bytes: usize,
    /// Calls that run at the same time; further ones wait, and then the client does. A call that
    /// waits for the client's answer does not count. Default: 64.
    pub in_flight: usize,
    /// Bytes of output that wait for the client before calls do. Default: 1 MiB.
    pub queue_bytes: usize,
    /// How long the client may take to answer a question of the server. Default: 5 minutes.
    pub question: Duration,
    /// How long running calls may take to finish once the input has ended. Default: 1.5 seconds,
    /// because clients commonly send a signal after 2.
    pub drain: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            served: RevisionSet::ALL,
            sealer: Arc::new(Sealer::ephemeral()),
            budgets: Arc::new(ByteBudgets::new(&Limits::default())),
            line_bytes: 4 << 20,
            in_flight: 64,
            queue_bytes: 1 << 20,
            question: Duration::from_secs(300),
            drain: Duration::from_millis(1500),
        }
    }
}

/// Serves the process's standard input and output until the input ends.
///
/// # Errors
/// When input or output fails for another reason than the client's going away.
pub async fn serve(handler: impl Handler, options: Options) -> io::Result<()> {
    serve_on(handler, options, tokio::io::stdin(), tokio::io::stdout()).await
}

/// Serves any pair of byte streams, such as a Unix socket's halves.
///
/// # Errors
/// When input or output fails for another reason than the client's going away.
pub async fn serve_on(
    handler: impl Handler,
    options: Options,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let (connection, outgoing) = Connection::new(handler, options);
    let drain = connection.drain();
    let mut writing = std::pin::pin!(writer::write_lines(outgoing, output));
    let result = tokio::select! {
        written = &mut writing => written,
        read = connection.run(input) => match read {
            // The queue is closed now; a client that does not read must not keep us.
            Ok(()) => tokio::time::timeout(drain, writing).await.unwrap_or(Ok(())),
            Err(error) => Err(error),
        },
    };
    match result {
        Err(error) if client_left(&error) => Ok(()),
        result => result,
    }
}

fn client_left(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
