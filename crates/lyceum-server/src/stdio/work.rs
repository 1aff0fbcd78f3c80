//! Work a connection has accepted, and the line it waits in when too much runs already.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use lyceum_http::{ByteBudgets, CallerId, Context, Handler, UNCOUNTED_BYTES};
use lyceum_wire::{Id, Request, RpcError, encode};
use tokio::sync::OwnedSemaphorePermit;

use super::outlet::Slot;

/// Pieces of work that may wait. Enough for a client to still get a cancellation through.
const MAX_WAITING: usize = 256;

/// Something to run once there is a slot.
pub(super) struct Work {
    job: Pin<Box<dyn Future<Output = ()> + Send>>,
    slot: Arc<Slot>,
    bytes: usize,
}

impl Work {
    /// `bytes` is the input the work keeps alive.
    pub(super) fn new(
        job: impl Future<Output = ()> + Send + 'static,
        slot: Arc<Slot>,
        bytes: usize,
    ) -> Self {
        Self { job: Box::pin(job), slot, bytes }
    }

    pub(super) async fn run(self, permit: OwnedSemaphorePermit) {
        let _held = self.slot.hold(permit);
        self.job.await;
    }
}

/// Work that waits for a slot, in order of arrival.
pub(super) struct Backlog {
    work: VecDeque<Work>,
    bytes: usize,
    limit: usize,
}

impl Backlog {
    /// A backlog that takes no more once it holds `limit` bytes of input.
    pub(super) fn new(limit: usize) -> Self {
        Self { work: VecDeque::new(), bytes: 0, limit }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.work.is_empty()
    }

    pub(super) fn has_room(&self) -> bool {
        self.bytes < self.limit && self.work.len() < MAX_WAITING
    }

    pub(super) fn push(&mut self, work: Work) {
        self.bytes += work.bytes;
        self.work.push_back(work);
    }

    pub(super) fn pop(&mut self) -> Option<Work> {
        let work = self.work.pop_front()?;
        self.bytes -= work.bytes;
        Some(work)
    }
}

/// Runs a call to its answer. A handler that panics answers with an error, like any other failure.
pub(super) async fn answer(handler: &impl Handler, request: Request, cx: Context) -> Bytes {
    let (id, budgets) = (request.id.clone(), Arc::clone(&cx.budgets));
    let mut call = std::pin::pin!(async { handler.call(request, cx).await });
    let result = std::future::poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx))).unwrap_or_else(|_| {
            Poll::Ready(Err(RpcError::internal("the server failed while handling this request")))
        })
    });
    match result.await {
        Ok(outcome) if outcome.is_charged() => outcome.into_response(&id),
        Ok(outcome) => charged(outcome.into_response(&id), &id, &budgets).await,
        Err(error) => encode::error(Some(&id), &error),
    }
}

/// An answer that is charged for until it is written: a client that reads slowly makes its further
/// calls wait, and fail after a while, instead of having their answers pile up.
async fn charged(answer: Bytes, id: &Id, budgets: &ByteBudgets) -> Bytes {
    if answer.len() <= UNCOUNTED_BYTES {
        return answer;
    }
    let limit = budgets.answer_bytes;
    if answer.len() > limit {
        let text = format!("the answer is larger than {limit} bytes; ask for less at once");
        return encode::error(Some(id), &RpcError::internal(text));
    }
    let claimed = budgets.claim(&CallerId::Anonymous, answer).await;
    claimed.unwrap_or_else(|exhausted| {
        encode::error(Some(id), &RpcError::internal(exhausted.to_string()))
    })
}
