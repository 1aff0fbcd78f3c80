//! [`Line`]: a server at the other end of two byte streams, such as a child process's. One message
//! per line, in both eras; requests of all calls share the way there, and answers the way back.

mod input;
mod queue;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use lyceum_wire::{Id, Response};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::call::Call;
use super::core::Core;
use super::error::ClientError;
use super::life::{End, Life};
use super::mailbox::Keeping;
use super::pending::{Pending, Place};
use super::post::{CancelOnDrop, PARTING, Post};
use super::task::Task;
use super::traffic::{Answering, Traffic};
use input::Lines;
use queue::Queue;
pub(crate) use queue::Ticket;

/// How long a server that takes nothing any more may still bring answers.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The requests that are given up without a word: a server that does not know them does not know
/// how to cancel them either, and `initialize` must not be cancelled.
const UNCANCELLED: [&str; 2] = ["initialize", "server/discover"];

/// What the two directions share.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) core: Arc<Core>,
    queue: Queue,
    pending: Arc<Pending>,
    pub(crate) life: Life,
    /// Whether it is known how to speak to the server.
    is_greeted: AtomicBool,
    /// Ends when everything is written and our side is hung up.
    written: Life,
}

/// The connection itself: it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) line: Arc<Line>,
    _reader: Task,
    _writer: Task,
}

/// A call that has been sent.
#[derive(Debug)]
pub(crate) struct Sent {
    line: Arc<Line>,
    pub(crate) place: Place,
    ticket: Ticket,
    cancel: CancelOnDrop,
}

impl Connection {
    pub(crate) fn open(
        core: &Arc<Core>,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Connection {
        let line = Arc::new(Line {
            core: Arc::clone(core),
            queue: Queue::new(),
            pending: Arc::new(Pending::new(core.limits.pending)),
            life: Life::new(),
            is_greeted: AtomicBool::new(false),
            written: Life::new(),
        });
        let reader = Task::spawn(read(Arc::clone(&line), reader));
        let writer = Task::spawn(write(Arc::clone(&line), writer));
        Connection { line, _reader: reader, _writer: writer }
    }

    /// Sends what is still to be sent, hangs up, and fails the calls that wait.
    pub(crate) async fn close(&self) {
        self.line.queue.close();
        let _ = timeout(PARTING, self.line.written.over()).await;
        self.line.end(End::Closed);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.line.end(End::Closed);
    }
}

impl Line {
    /// Sends a request and waits for its answer.
    pub(crate) async fn call(
        self: &Arc<Line>,
        call: &Call<'_>,
        id: &Id,
        body: Bytes,
    ) -> Result<Response, ClientError> {
        let mut sent = self.send(call, id, body, Keeping::Calls).await?;
        let answer = sent.place.wait(call, id).await;
        sent.done();
        answer.unwrap_or_else(|| Err(sent.lost()))
    }

    /// Sends a request.
    pub(crate) async fn send(
        self: &Arc<Line>,
        call: &Call<'_>,
        id: &Id,
        body: Bytes,
        keeping: Keeping,
    ) -> Result<Sent, ClientError> {
        let place = self.pending.enter(id, call, keeping)?.ok_or_else(|| self.unsent())?;
        let ticket = self.queue.push(body).await.ok_or_else(|| self.unsent())?;
        let mut cancel = CancelOnDrop::new(Post::Line(Arc::clone(self)), id).queued(ticket);
        if UNCANCELLED.contains(&call.method) {
            cancel.disarm();
        }
        Ok(Sent { line: Arc::clone(self), place, ticket, cancel })
    }

    /// Sends a notification or a response.
    pub(crate) async fn tell(&self, body: Bytes) -> Result<(), ClientError> {
        self.queue.push(body).await.map(drop).ok_or_else(|| self.unsent())
    }

    /// It is known how to speak to the server, so it may say more.
    pub(crate) fn greeted(&self) {
        self.is_greeted.store(true, Ordering::Relaxed);
    }

    /// How long a line of the server's may be.
    fn max_bytes(&self) -> usize {
        let limits = &self.core.limits;
        match self.is_greeted.load(Ordering::Relaxed) {
            true => limits.event,
            false => limits.event.min(limits.greeting),
        }
    }

    pub(crate) fn withdraw(&self, ticket: Ticket) -> bool {
        self.queue.withdraw(ticket)
    }

    fn end(&self, why: End) {
        self.life.end(why);
        self.queue.kill();
        self.pending.end();
    }

    fn unsent(&self) -> ClientError {
        // Nothing is taken any more while the connection is being closed.
        self.life.why().unwrap_or(End::Closed).unsent()
    }
}

impl Sent {
    /// There is nothing left to cancel.
    pub(crate) fn done(&mut self) {
        self.cancel.disarm();
    }

    /// Why there is no answer, once the connection has ended.
    pub(crate) fn lost(&self) -> ClientError {
        let why = self.line.life.why().unwrap_or(End::HungUp);
        if self.line.queue.is_unsent(self.ticket) { why.unsent() } else { why.interrupted() }
    }
}

/// Reads until the server hangs up, and wakes whoever waits for what it says.
async fn read(line: Arc<Line>, input: impl AsyncRead + Unpin) {
    let why = tokio::select! {
        ended = take_in(&line, input) => match ended {
            Ok(()) => End::HungUp,
            Err(error) => End::Failed(described(&error).into()),
        },
        () = line.life.over() => return,
    };
    tracing::debug!(%why, "a connection has ended");
    line.end(why);
}

async fn take_in(line: &Arc<Line>, input: impl AsyncRead + Unpin) -> Result<(), ClientError> {
    let mut lines = Lines::new(input, || line.max_bytes(), line.core.payer.clone());
    let mut traffic = Traffic::new(Post::Line(Arc::clone(line)), &Arc::<Answering>::default());
    while let Some(incoming) = lines.next().await? {
        line.pending.take(incoming, &mut traffic).await?;
    }
    Ok(())
}

/// Writes whole lines until nothing is left to write. A server that takes none for as long as one
/// may be silent is given up.
async fn write(line: Arc<Line>, mut output: impl AsyncWrite + Unpin) {
    let patience = line.core.limits.silence;
    let mut batch = BytesMut::new();
    while line.queue.take(&mut batch).await {
        if let Err(error) = write_batch(&mut output, &mut batch, patience).await {
            line.queue.kill();
            if error.kind() != io::ErrorKind::TimedOut {
                // It may have answered before it left, and that is still being read.
                tokio::time::sleep(LAST_WORDS).await;
            }
            return line.end(End::Failed(format!("the server takes no input: {error}").into()));
        }
    }
    let _ = timeout(PARTING, output.shutdown()).await;
    line.written.end(End::Closed);
}

async fn write_batch(
    output: &mut (impl AsyncWrite + Unpin),
    batch: &mut BytesMut,
    patience: Duration,
) -> io::Result<()> {
    while !batch.is_empty() {
        if timeout(patience, output.write_buf(batch)).await?? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    timeout(patience, output.flush()).await?
}

/// An error and what is behind it.
fn described(error: &ClientError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
