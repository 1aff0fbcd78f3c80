//! [`Pending`]: calls whose answers may come on a stream that is not theirs alone.
//!
//! Over HTTP+SSE all answers do. Over Streamable HTTP none should, but some servers send an answer,
//! or the progress of a call, on the session's standing stream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lyceum_wire::{Id, Message, Params, Response};
use tokio::sync::oneshot;

use super::Call;
use super::traffic::Traffic;
use crate::client::error::ClientError;
use crate::client::progress::Progress;
use crate::client::silence::Silence;

/// The calls of one session that wait for their answers.
#[derive(Debug)]
pub(crate) struct Pending {
    max: usize,
    /// None once the stream has ended.
    calls: Mutex<Option<HashMap<Id, Entry>>>,
}

/// What is known about a waiting call.
#[derive(Debug)]
pub(crate) struct Waiting {
    progress: Option<Progress>,
    silence: Arc<Silence>,
}

#[derive(Debug)]
struct Entry {
    waiting: Waiting,
    answer: oneshot::Sender<Response>,
}

/// A call's place; given up when dropped.
#[derive(Debug)]
pub(crate) struct Answer {
    pending: Arc<Pending>,
    id: Id,
    answer: oneshot::Receiver<Response>,
}

impl Waiting {
    pub(crate) fn of(call: &Call<'_>, id: &Id) -> Waiting {
        let progress = Progress::of(call.options, &call.params, id);
        Waiting { progress, silence: Arc::clone(&call.silence) }
    }
}

impl Pending {
    pub(crate) fn new(max: usize) -> Pending {
        Pending { max, calls: Mutex::new(Some(HashMap::new())) }
    }

    /// Adds a call; None if the stream has ended.
    pub(crate) fn enter(
        self: &Arc<Pending>,
        id: &Id,
        waiting: Waiting,
    ) -> Result<Option<Answer>, ClientError> {
        let mut calls = self.lock();
        let Some(calls) = calls.as_mut() else { return Ok(None) };
        if calls.len() >= self.max {
            return Err(ClientError::TooManyCalls(self.max));
        }
        let (sender, answer) = oneshot::channel();
        calls.insert(id.clone(), Entry { waiting, answer: sender });
        Ok(Some(Answer { pending: Arc::clone(self), id: id.clone(), answer }))
    }

    /// Deals with a message of a stream that brings more than one call's.
    pub(crate) async fn take(&self, message: Message, traffic: &mut Traffic) {
        if let Message::Notification(notification) = &message
            && self.progress(&notification.method, &notification.params)
        {
            return;
        }
        if let Some(response) = traffic.take(message).await {
            self.answer(response);
        }
    }

    fn answer(&self, response: Response) {
        let entry = self.lock().as_mut().and_then(|calls| calls.remove(&response.id));
        if let Some(entry) = entry {
            // Whoever waited may have left at this very moment.
            let _ = entry.answer.send(response);
        }
    }

    /// Hands a progress notification to its call; false if it belongs to none.
    fn progress(&self, method: &str, params: &Params) -> bool {
        let mine = self.lock().iter().flat_map(HashMap::values).find_map(|entry| {
            let progress = entry.waiting.progress.as_ref()?;
            progress.is_about(method, params).then(|| {
                entry.waiting.silence.heard();
                progress.clone()
            })
        });
        // The sink is somebody else's code: it runs after the lock is let go.
        mine.inspect(|progress| progress.pass_on(params)).is_some()
    }

    /// The stream has ended: no answer will come.
    pub(crate) fn end(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<HashMap<Id, Entry>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answer {
    pub(crate) async fn wait(mut self) -> Result<Response, ClientError> {
        (&mut self.answer).await.map_err(|_| ClientError::Interrupted)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(calls) = self.pending.lock().as_mut() {
            calls.remove(&self.id);
        }
    }
}
