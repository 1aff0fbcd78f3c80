//! Batches, which only 2025-03-26 has: several messages in one POST, answered together.
//!
//! The answers of a batch have a bound of their own: they are kept until the last one is there, and
//! then joined. Small ones always find room, so that a write that was done is never told to have failed.
//! Few calls run at a time, and once several answers found no room the rest is refused unrun.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context as TaskContext;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use lyceum_wire::{Id, Message, ParseError, Request, RpcError, batch_allowed, encode};
use tokio::sync::Semaphore;

use super::attached::cancelled;
use super::origin::Origin;
use crate::answer;
use crate::byte_budget::{ByteBudget, UNCOUNTED_BYTES};
use crate::call::{Answer, Call};
use crate::caller::CallerId;
use crate::context::Principal;
use crate::dialect::{Decision, Verdict};
use crate::endpoint::Shared;
use crate::handler::Handler;
use crate::outlet::PostOutlet;
use crate::pipeline::{Arrival, Next, Reply, plain_error};
use crate::too_many::TooMany;

impl<H: Handler> Shared<H> {
    pub(super) fn legacy_batch(
        self: &Arc<Self>,
        arrival: &mut Arrival<'_>,
        batch: Vec<Result<Message, ParseError>>,
        origin: Origin,
    ) -> Result<Next, Reply> {
        if !batch_allowed(origin.revision) {
            return Err(plain_error(
                StatusCode::BAD_REQUEST,
                "batches exist only in revision 2025-03-26; send single messages",
            ));
        }
        let verdict = self.negotiate(arrival, b"")?;
        let (shared, principal) = (Arc::clone(self), arrival.principal.take());
        Ok(Next::Later(Box::pin(async move {
            shared.run_batch(batch, verdict, origin, principal).await
        })))
    }

    async fn run_batch(
        self: &Arc<Self>,
        batch: Vec<Result<Message, ParseError>>,
        verdict: Verdict,
        origin: Origin,
        principal: Option<Principal>,
    ) -> Reply {
        let mut requests = Vec::new();
        let mut answers = Vec::new();
        for message in batch {
            match message {
                Ok(Message::Request(request)) => requests.push(request),
                Ok(Message::Notification(notification)) => {
                    let noted =
                        self.legacy_notification(notification, &origin, principal.clone()).await;
                    // Nobody waits for an answer to it, but nobody else would say so either.
                    answers
                        .extend(noted.err().map(|too_many| encode::error(None, &too_many.into())));
                }
                Ok(Message::Response(response)) => drop(self.legacy_response(response, &origin)),
                Ok(Message::Batch(_)) => {
                    let error = RpcError::invalid_request("a batch holds no batches");
                    answers.push(encode::error(None, &error));
                }
                Err(error) => {
                    let id = error.id.clone();
                    answers.push(encode::error(id.as_ref(), &error.into()));
                }
            }
        }
        let Some(first) = requests.first() else {
            return match answers.is_empty() {
                true => answer::empty(StatusCode::ACCEPTED),
                false => answer::json(StatusCode::OK, array(&answers)),
            };
        };
        let id = first.id.clone();
        let outlet = self.outlet(verdict, origin.clone());
        let _responding = outlet.responding();
        let revision = origin.revision;
        self.start_all(requests, answers, origin, principal, &outlet, verdict.decision);
        let gathered = |cx: &mut TaskContext<'_>| {
            outlet.poll_answer(cx).map(|answers| match answers {
                Some(message) => Answer::whole(message),
                None => cancelled(&id),
            })
        };
        let first = outlet.first(&self.timers, self.limits.keep_alive, gathered).await;
        let end = self.begin(first, revision, &outlet, verdict.decision);
        end.into_reply(&mut HeaderMap::new())
    }

    /// Starts every request of a batch; the answers gather in `outlet`.
    fn start_all(
        self: &Arc<Self>,
        requests: Vec<Request>,
        answers: Vec<Bytes>,
        mut origin: Origin,
        principal: Option<Principal>,
        outlet: &Arc<PostOutlet>,
        decision: Decision,
    ) {
        let gathered = Arc::new(Gathered {
            state: Mutex::new(State {
                missing: requests.len(),
                answers,
                room: self.limits.answer_bytes / 4,
                n_refused: 0,
            }),
            running: Semaphore::new(MAX_RUNNING),
            budget: Arc::clone(&self.budgets.answers),
            caller: CallerId::new(principal.clone(), origin.peer),
            outlet: Arc::clone(outlet),
            streamed: decision == Decision::Sse,
        });
        for request in requests {
            let id = request.id.clone();
            let share = Share(Some(Arc::clone(&gathered)));
            // An earlier member may have been the first to need the session's live state.
            origin.look_again();
            let session = match origin.session_for(&request) {
                Ok(session) => session,
                Err(too_many) => {
                    share.give(&id, encode::error(Some(&id), &too_many.into()));
                    continue;
                }
            };
            let (principal, way) = (principal.clone(), Arc::clone(outlet) as _);
            let cx = self.legacy_context(&request, &origin, session, principal, way);
            let call = self.start(request, cx);
            match origin.admit(Some(id.clone())) {
                // Each answer goes to the batch, not to an outlet of its own.
                Ok(running) => running.spawn(async move { share.run(&id, call).await }),
                Err(too_many) => share.give(&id, encode::error(Some(&id), &too_many.into())),
            }
        }
    }
}

/// Calls of a batch that run at a time.
const MAX_RUNNING: usize = 4;
/// Answers without room after which the rest of a batch is refused unrun.
const MAX_REFUSED: usize = 4;

/// The answers of a batch, until all are there.
struct Gathered {
    state: Mutex<State>,
    /// Places for running calls.
    running: Semaphore,
    budget: Arc<ByteBudget>,
    caller: CallerId,
    outlet: Arc<PostOutlet>,
    streamed: bool,
}

struct State {
    missing: usize,
    answers: Vec<Bytes>,
    /// Bytes of further large answers.
    room: usize,
    /// Answers that found no room.
    n_refused: usize,
}

impl Gathered {
    /// An answer that fits in with the others.
    fn fitting(&self, id: &Id, answer: Bytes) -> Bytes {
        if answer.len() <= UNCOUNTED_BYTES {
            return answer;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.room.checked_sub(answer.len()) {
            Some(room) => {
                state.room = room;
                answer
            }
            None => {
                state.n_refused += 1;
                encode::error(Some(id), &TooMany::Batch.into())
            }
        }
    }

    fn is_full(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.n_refused >= MAX_REFUSED
    }

    /// All answers as one, charged for as they were.
    fn joined(&self, answers: &mut Vec<Bytes>) -> Bytes {
        let array = array(answers);
        if array.len() <= UNCOUNTED_BYTES {
            return array;
        }
        answers.clear();
        let reservation = self.budget.reserve_anyway(self.caller.clone(), array.len());
        Arc::new(reservation).attach(array)
    }

    /// Takes one call's answer, or notes that it will have none.
    fn add(&self, answer: Option<Bytes>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.answers.extend(answer);
        state.missing -= 1;
        // Once something was streamed, answers follow as they come.
        let streaming = self.streamed || self.outlet.stream().is_some();
        if streaming {
            state.answers.drain(..).for_each(|answer| self.outlet.partial(answer));
        }
        match (state.missing, streaming) {
            (0, true) => self.outlet.finish(),
            // Every call was cancelled.
            (0, false) if state.answers.is_empty() => self.outlet.finish(),
            (0, false) => self.outlet.complete(self.joined(&mut state.answers)),
            _ => {}
        }
    }
}

/// One call's share in a batch: a cancelled call must not keep the others' answers waiting.
struct Share(Option<Arc<Gathered>>);

impl Share {
    /// Runs a call when it is its turn, unless the batch is full by then.
    async fn run(self, id: &Id, call: Call) {
        let Some(gathered) = self.0.clone() else { return };
        let _place = gathered.running.acquire().await;
        let answer = match gathered.is_full() {
            true => encode::error(Some(id), &TooMany::BatchUnrun.into()),
            false => call.await.message,
        };
        self.give(id, answer);
    }

    fn give(mut self, id: &Id, answer: Bytes) {
        if let Some(gathered) = self.0.take() {
            let answer = gathered.fitting(id, answer);
            gathered.add(Some(answer));
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(gathered) = self.0.take() {
            gathered.add(None);
        }
    }
}

fn array(messages: &[Bytes]) -> Bytes {
    let mut out =
        Vec::with_capacity(2 + messages.iter().map(|message| message.len() + 1).sum::<usize>());
    out.push(b'[');
    for (at, message) in messages.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(message);
    }
    out.push(b']');
    out.into()
}
