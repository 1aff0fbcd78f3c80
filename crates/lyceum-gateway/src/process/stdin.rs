//! A child's standard input, which can be ended from two sides.
//!
//! Whoever writes may be waiting for the child to read. Stopping a child begins with the end of its
//! input, so that must not depend on the writer's cooperation.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::AsyncWrite;
use tokio::process::ChildStdin;

/// A child's standard input. Dropping it ends the input.
#[derive(Debug)]
pub struct Stdin(Closer);

/// Ends the input, whoever holds the other half.
#[derive(Debug, Clone)]
pub(super) struct Closer(Arc<Mutex<Pipe>>);

#[derive(Debug)]
struct Pipe {
    /// `None` once the input has ended.
    open: Option<ChildStdin>,
    /// Who waits for the child to read.
    writer: Option<Waker>,
}

impl Stdin {
    pub(super) fn new(pipe: ChildStdin) -> (Stdin, Closer) {
        let closer = Closer(Arc::new(Mutex::new(Pipe { open: Some(pipe), writer: None })));
        (Stdin(closer.clone()), closer)
    }

    fn poll(
        &self,
        cx: &mut Context<'_>,
        act: impl FnOnce(Pin<&mut ChildStdin>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut pipe = self.0.lock();
        let Some(open) = &mut pipe.open else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let result = act(Pin::new(open), cx);
        pipe.writer = result.is_pending().then(|| cx.waker().clone());
        result
    }
}

impl Closer {
    pub(super) fn close(&self) {
        let mut pipe = self.lock();
        pipe.open = None;
        if let Some(writer) = pipe.writer.take() {
            drop(pipe);
            writer.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pipe> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stdin {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl AsyncWrite for Stdin {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(cx, |pipe, cx| pipe.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(cx, |pipe, cx| pipe.poll_flush(cx).map_ok(|()| 0)).map_ok(|_| ())
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.close();
        Poll::Ready(Ok(()))
    }
}
