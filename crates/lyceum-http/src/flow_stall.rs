//! HTTP/2 answers that are given up when their client grants them no window.
//!
//! Such a client may go on reading the connection and answering its pings, so [`StallGuard`] sees
//! nothing. hyper runs each stream on a task of its own, takes one piece of the body, and does not
//! ask for the next before the client made room for it: a stream that holds a piece and stands still
//! is stuck. Dropping its task resets that stream alone.
//!
//! [`StallGuard`]: crate::stall::StallGuard

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::Executor;
use pin_project_lite::pin_project;
use tokio::time::{Duration, Sleep, sleep};

/// The most a body hands out at once over HTTP/2: what fits a frame, so that waiting for window is
/// waiting for as much, and not for a whole answer.
pub(crate) const PIECE: usize = 16 << 10;

thread_local! {
    /// What the body did within the current poll of its stream, if it was asked: whether it handed
    /// out a piece. A poll neither moves between threads nor waits, so this is as good as a return
    /// value, which hyper leaves no way for.
    static HANDED_OUT: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Notes, from within a body, whether it just handed out a piece.
pub(crate) fn handed_out(piece: bool) {
    HANDED_OUT.set(Some(piece));
}

/// Runs the streams of HTTP/2 connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streams {
    patience: Duration,
}

impl Streams {
    /// Streams that stand still for `patience` are given up.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience }
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        tokio::spawn(Stream { stream, patience: self.patience, stuck: false, gives_up: None });
    }
}

pin_project! {
    struct Stream<F> {
        #[pin]
        stream: F,
        patience: Duration,
        // Whether the last piece still waits for window.
        stuck: bool,
        gives_up: Option<Pin<Box<Sleep>>>,
    }
}

impl<F: Future<Output = ()>> Future for Stream<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        HANDED_OUT.set(None);
        if this.stream.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if let Some(piece) = HANDED_OUT.take() {
            *this.stuck = piece;
            *this.gives_up = None;
        }
        if !*this.stuck {
            return Poll::Pending;
        }
        let patience = *this.patience;
        let gives_up = this.gives_up.get_or_insert_with(|| Box::pin(sleep(patience)));
        std::task::ready!(gives_up.as_mut().poll(cx));
        tracing::debug!("gave up a stream whose client grants it no window");
        Poll::Ready(())
    }
}
