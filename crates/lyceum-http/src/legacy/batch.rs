//! Batches, which only 2025-03-26 has: several messages in one POST, answered together.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::StatusCode;
use lyceum_wire::{Message, ParseError, RpcError, batch_allowed, encode};

use super::origin::Origin;
use super::post::spawn_call;
use crate::answer;
use crate::dialect::Decision;
use crate::endpoint::Shared;
use crate::handler::Handler;
use crate::outlet::PostOutlet;
use crate::pipeline::{Arrival, Reply, plain_error};

impl<H: Handler> Shared<H> {
    pub(super) async fn legacy_batch(
        self: &Arc<Self>,
        arrival: &mut Arrival<'_>,
        batch: Vec<Result<Message, ParseError>>,
        origin: Origin,
    ) -> Reply {
        if !batch_allowed(origin.revision) {
            return plain_error(
                StatusCode::BAD_REQUEST,
                "batches exist only in revision 2025-03-26; send single messages",
            );
        }
        let verdict = match self.negotiate(arrival, "") {
            Ok(verdict) => verdict,
            Err(reply) => return reply,
        };
        let outlet = self.outlet(verdict, &origin);
        let mut requests = Vec::new();
        let mut answers = Vec::new();
        for message in batch {
            match message {
                Ok(Message::Request(request)) => requests.push(request),
                Ok(Message::Notification(notification)) => {
                    self.legacy_notification(notification, &origin, arrival.principal.clone())
                        .await;
                }
                Ok(Message::Response(response)) => drop(self.legacy_response(response, &origin)),
                Ok(Message::Batch(_)) => {
                    answers.push(encode::error(
                        None,
                        &RpcError::invalid_request("a batch holds no batches"),
                    ));
                }
                Err(error) => {
                    let id = error.id.clone();
                    answers.push(encode::error(id.as_ref(), &error.into()));
                }
            }
        }
        if requests.is_empty() && answers.is_empty() {
            return answer::empty(StatusCode::ACCEPTED);
        }
        let first_id = requests.first().map(|request| request.id.clone());
        let Some(first_id) = first_id else {
            return answer::json(StatusCode::OK, array(&answers));
        };
        let gathered = Arc::new(Gathered {
            state: Mutex::new(State { missing: requests.len(), answers }),
            outlet: Arc::clone(&outlet),
            streamed: verdict.decision == Decision::Sse,
        });
        for request in requests {
            let id = request.id.clone();
            let principal = arrival.principal.clone();
            let cx = self.legacy_context(&request, &origin, principal, Arc::clone(&outlet) as _);
            let call = self.start(request, cx);
            let share = Share(Some(Arc::clone(&gathered)));
            // Each answer goes to the batch, not to an outlet of its own.
            let call = Box::pin(async move {
                let (share, answer) = (share, call.await);
                share.give(answer.message.clone());
                answer
            });
            spawn_call(call, id, &origin, None);
        }
        self.await_first(&first_id, &origin, &outlet, verdict.decision).await
    }
}

/// The answers of a batch, until all are there.
struct Gathered {
    state: Mutex<State>,
    outlet: Arc<PostOutlet>,
    streamed: bool,
}

struct State {
    missing: usize,
    answers: Vec<Bytes>,
}

impl Gathered {
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
            (0, false) => self.outlet.complete(array(&state.answers)),
            _ => {}
        }
    }
}

/// One call's share in a batch: a cancelled call must not keep the others' answers waiting.
struct Share(Option<Arc<Gathered>>);

impl Share {
    fn give(mut self, answer: Bytes) {
        if let Some(gathered) = self.0.take() {
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
