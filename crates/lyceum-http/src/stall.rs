//! A connection that is given up when its client stops taking bytes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Duration, Sleep, sleep};

use crate::connections::{InFlight, Watch};

/// Up to so many bytes, joining head and body costs less than the kernel asks for two pieces.
const SMALL: usize = 1024;

/// Fails writes that make no progress for `patience`. Costs nothing while writes succeed. Over
/// HTTP/1.1 it also notes when a request begins to come.
pub(crate) struct StallGuard<T> {
    inner: T,
    patience: Duration,
    watch: Arc<Watch>,
    /// Whether bytes that come belong to a request; HTTP/2 has others.
    is_http1: bool,
    stalled: Option<Stalled>,
}

/// A write that waits for its client. The answer it is part of counts as under way: the body may be
/// gone already while its last megabytes still are in hyper's hands.
struct Stalled {
    gives_up: Pin<Box<Sleep>>,
    _in_flight: InFlight,
}

impl<T> StallGuard<T> {
    pub(crate) fn new(inner: T, patience: Duration, watch: Arc<Watch>, is_http1: bool) -> Self {
        Self { inner, patience, watch, is_http1, stalled: None }
    }

    /// Starts the clock when a write has to wait, stops it when one gets through.
    fn judge<R>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Stalled {
            gives_up: Box::pin(sleep(self.patience)),
            _in_flight: self.watch.waiting(),
        });
        match stalled.gives_up.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for StallGuard<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if self.is_http1 && buffer.filled().len() > before {
            self.watch.heard();
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for StallGuard<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.judge(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        if length <= SMALL {
            let mut joined = [0; SMALL];
            let mut rest = &mut joined[..];
            for slice in slices {
                let (place, after) = rest.split_at_mut(slice.len());
                place.copy_from_slice(slice);
                rest = after;
            }
            return self.poll_write(cx, &joined[..length]);
        }
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.judge(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.judge(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.judge(cx, shut)
    }
}
