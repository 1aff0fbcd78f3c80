//! [`Attached`]: a legacy call that its response drives, until that begins or is dropped.
//!
//! A client that hangs up has not cancelled its call, so the call then moves to a task of its own. Most
//! calls end before that, and need none.

use std::sync::Arc;
use std::task::{Context, Poll};

use lyceum_wire::{Era, ErrorCode, Id, RpcError};
use tokio::runtime::Handle;

use super::running::RunningCall;
use crate::call::{Answer, Call, Slow};
use crate::outlet::PostOutlet;

/// The code of the error that ends a cancelled call, where the client still waits for one.
const CANCELLED: ErrorCode = ErrorCode(-32800);

/// A call whose response has not begun. Dropped before it is over, it goes on by itself.
pub(super) struct Attached<'a> {
    id: Id,
    call: Slow,
    /// `None` once it is over.
    running: Option<RunningCall>,
    outlet: &'a Arc<PostOutlet>,
}

impl<'a> Attached<'a> {
    pub(super) fn new(
        id: Id,
        call: Call,
        running: RunningCall,
        outlet: &'a Arc<PostOutlet>,
    ) -> Self {
        Self { id, call: Slow::new(call), running: Some(running), outlet }
    }

    /// The answer, once.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Answer> {
        let Some(running) = &self.running else { return Poll::Pending };
        let answer = match self.call.poll(cx) {
            Poll::Ready(answer) => answer,
            Poll::Pending => {
                std::task::ready!(running.poll_stopped(cx));
                cancelled(&self.id)
            }
        };
        self.running = None;
        Poll::Ready(answer)
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        // Without a runtime everything is about to end.
        let (Some(running), Some(call), Ok(_)) =
            (self.running.take(), self.call.take(), Handle::try_current())
        else {
            return;
        };
        let finishes = Finishes(Arc::clone(self.outlet));
        running.spawn(async move {
            let (finishes, answer) = (finishes, call.await);
            finishes.0.complete(answer.message);
        });
    }
}

/// Ends an outlet when its call is over, however it ended.
struct Finishes(Arc<PostOutlet>);

impl Drop for Finishes {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// The answer to a call that its client cancelled.
pub(super) fn cancelled(id: &Id) -> Answer {
    let error = RpcError::new(CANCELLED, "the client cancelled this request");
    Answer::error(id, &error, Era::Legacy)
}
