//! A POST's way back to its client: a JSON answer that becomes a stream when something is sent
//! before the result.
//!
//! Both eras share it. In the modern era the call runs inside its response and dies with it; in the
//! legacy era it outlives its response, and its stream can be resumed.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

use bytes::Bytes;
use lyceum_wire::{Id, RpcError, encode};
use tokio::time::{Duration, Instant};

use crate::byte_budget::Payer;
use crate::call::Answer;
use crate::context::{Delivery, Outlet, OutletFuture};
use crate::dialect::{Decision, Verdict};
use crate::legacy::Origin;
use crate::outbox::Outbox;
use crate::timers::{Timers, later};

/// The outlet of one POST.
pub(crate) struct PostOutlet {
    verdict: Verdict,
    stream_bytes: usize,
    payer: Payer,
    /// Where a legacy call came from; `None` in the modern era.
    origin: Option<Origin>,
    dropped: metrics::Counter,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stream: Option<Stream>,
    answer: Option<Bytes>,
    finished: bool,
    released: bool,
    /// The response has begun, or never will: a stream can no longer be made of it.
    settled: bool,
    waiter: Option<Waker>,
}

impl State {
    fn wait(&mut self, cx: &mut TaskContext<'_>) {
        match &mut self.waiter {
            Some(waiter) => waiter.clone_from(cx.waker()),
            None => self.waiter = Some(cx.waker().clone()),
        }
    }
}

/// An open stream, and its number where it can be resumed.
#[derive(Clone)]
pub(crate) struct Stream {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) number: Option<u64>,
}

/// How a response begins.
pub(crate) enum First {
    /// With the answer, which is all of it.
    Answered(Answer),
    /// With a stream, on which the answer follows.
    Streaming(Stream),
}

impl PostOutlet {
    pub(crate) fn new(
        verdict: Verdict,
        stream_bytes: usize,
        payer: Payer,
        origin: Option<Origin>,
        dropped: metrics::Counter,
    ) -> Self {
        Self { verdict, stream_bytes, payer, origin, dropped, state: Mutex::default() }
    }

    /// Where a legacy call came from.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// The stream, if the answer has become one.
    pub(crate) fn stream(&self) -> Option<Stream> {
        self.lock().stream.clone()
    }

    /// Whether nothing was streamed before the answer; nothing will be after it then.
    pub(crate) fn stays_whole(&self) -> bool {
        let mut state = self.lock();
        state.settled = state.stream.is_none();
        state.settled
    }

    /// Whether the handler let go of the connection.
    pub(crate) fn is_released(&self) -> bool {
        self.lock().released
    }

    /// Says that a response is being made, until the guard is dropped.
    pub(crate) fn responding(&self) -> Responding<'_> {
        Responding(self)
    }

    /// Turns the answer into a stream, if it is not one yet and still can become one.
    pub(crate) fn open(&self) -> Option<Stream> {
        let mut state = self.lock();
        if state.stream.is_some() || state.settled {
            return state.stream.clone();
        }
        let replayable = self.origin.as_ref().and_then(|origin| origin.replayable(&self.payer));
        let stream = match replayable {
            Some((number, outbox)) => Stream { outbox, number: Some(number) },
            None => {
                let outbox = Outbox::new(self.stream_bytes).charged_to(self.payer.clone());
                Stream { outbox: Arc::new(outbox), number: None }
            }
        };
        // The call may have ended while its response decided to stream.
        match state.answer.take() {
            Some(answer) => stream.outbox.conclude(answer),
            None if state.finished => stream.outbox.finish(),
            None => {}
        }
        state.stream = Some(stream.clone());
        wake(&mut state);
        Some(stream)
    }

    /// Whether silence may be filled with keep-alive comments by turning the answer into a stream.
    pub(crate) fn may_stream(&self) -> bool {
        matches!(self.verdict.decision, Decision::Sse | Decision::ServersChoice)
            && self.verdict.can_stream
    }

    /// The answer is there: the last message of the stream, or the whole response.
    pub(crate) fn complete(&self, answer: Bytes) {
        let mut state = self.lock();
        match &state.stream {
            Some(stream) => stream.outbox.conclude(answer),
            None => state.answer = Some(answer),
        }
        wake(&mut state);
    }

    /// One of several answers (batches); the stream goes on.
    pub(crate) fn partial(&self, answer: Bytes) {
        if let Some(stream) = self.open() {
            stream.outbox.push_answer(answer);
        }
    }

    /// No more answers will come.
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        state.finished = true;
        if let Some(stream) = &state.stream {
            stream.outbox.finish();
        }
        wake(&mut state);
    }

    /// Drives a call until its response can begin. After `patience` that is a stream, if it may be.
    pub(crate) async fn first(
        &self,
        timers: &Timers,
        patience: Duration,
        mut call: impl FnMut(&mut TaskContext<'_>) -> Poll<Answer>,
    ) -> First {
        let mut first = pin!(poll_fn(|cx| match call(cx) {
            Poll::Ready(answer) => Poll::Ready(self.answered(answer)),
            Poll::Pending => self.poll_stream(cx).map(First::Streaming),
        }));
        if self.may_stream() {
            tokio::select! {
                biased;
                first = first.as_mut() => return first,
                // Set only if it is needed.
                () = async { timers.wait(later(Instant::now(), patience)).await } => {}
            }
            // Nothing to say for a while: a stream can carry keep-alive comments.
            self.open();
        }
        first.await
    }

    /// How the response to a call begins that is over.
    pub(crate) fn answered(&self, answer: Answer) -> First {
        match self.stream() {
            None => First::Answered(answer),
            Some(stream) => {
                stream.outbox.conclude(answer.message);
                First::Streaming(stream)
            }
        }
    }

    /// The stream, once there is one.
    fn poll_stream(&self, cx: &mut TaskContext<'_>) -> Poll<Stream> {
        let mut state = self.lock();
        match &state.stream {
            Some(stream) => Poll::Ready(stream.clone()),
            None => {
                state.wait(cx);
                Poll::Pending
            }
        }
    }

    /// What the response was [completed](Self::complete) with; `None` if nothing ever will be.
    pub(crate) fn poll_answer(&self, cx: &mut TaskContext<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.lock();
        match state.answer.take() {
            Some(answer) => Poll::Ready(Some(answer)),
            None if state.finished && state.stream.is_none() => Poll::Ready(None),
            None => {
                state.wait(cx);
                Poll::Pending
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outlet for PostOutlet {
    fn send(&self, message: Bytes) -> OutletFuture<'_, Delivery> {
        let stream = if self.may_stream() { self.open() } else { self.stream() };
        Box::pin(async move {
            if let Some(stream) = stream
                && stream.outbox.offer(message).await
            {
                return Delivery::Queued;
            }
            self.dropped.increment(1);
            Delivery::Dropped
        })
    }

    fn ask<'a>(
        &'a self,
        method: &'a str,
        params: &'a [u8],
    ) -> OutletFuture<'a, Result<Bytes, RpcError>> {
        Box::pin(async move {
            let Some(origin) = &self.origin else {
                return Err(RpcError::internal("servers send no requests in this revision"));
            };
            if !self.verdict.can_stream {
                return Err(RpcError::internal(format!(
                    "cannot send {method}: this answer cannot be an event stream; the client must \
                     accept text/event-stream and the endpoint must allow it"
                )));
            }
            let (session, limit) = origin.session_to_ask(method)?;
            let Some(stream) = self.open() else {
                return Err(RpcError::internal(format!(
                    "cannot send {method}: the client is gone"
                )));
            };
            let send = |id: &Id| {
                let request = encode::request(id, method, Some(params));
                async move { stream.outbox.push(request).await }
            };
            session.ask(method, limit, send).await
        })
    }

    fn release(&self) -> bool {
        if !self.may_stream() || !self.origin.as_ref().is_some_and(Origin::polls) {
            return false;
        }
        let Some(stream) = self.open().filter(|stream| stream.number.is_some()) else {
            return false;
        };
        // The response may not have been built yet; it learns from the flag to end at once.
        self.lock().released = true;
        stream.outbox.detach();
        true
    }
}

/// A response in the making. When it is dropped, a stream that nobody began to read never will be.
pub(crate) struct Responding<'a>(&'a PostOutlet);

impl Drop for Responding<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.settled = true;
        if let Some(stream) = &state.stream {
            stream.outbox.abandon();
        }
    }
}

fn wake(state: &mut State) {
    if let Some(waiter) = state.waiter.take() {
        waiter.wake();
    }
}

#[cfg(test)]
mod tests;
