//! What a legacy server sends besides answers: requests of its own, notifications, cancellations.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use lyceum_wire::{Id, Member, Message, Notification, Request, Response, RpcError, encode};
use tokio::task::{AbortHandle, JoinSet};

use super::link::Link;
use crate::client::handler::{Handler, ServerRequest};
use crate::client::progress::Progress;
use crate::client::silence::Silence;

/// The server requests of one session that are being answered, on whatever stream they came.
#[derive(Debug, Default)]
pub(crate) struct Answering(Mutex<HashMap<Id, Option<AbortHandle>>>);

/// Takes in the messages of one stream. Dropping it drops the handlers it set to work.
#[derive(Debug)]
pub(crate) struct Traffic {
    link: Arc<Link>,
    answering: Arc<Answering>,
    handler: Handler,
    tasks: JoinSet<()>,
    /// The call this stream belongs to, if it belongs to one.
    progress: Option<Progress>,
    silence: Option<Arc<Silence>>,
}

impl Traffic {
    /// The messages of a stream that belongs to no call.
    pub(crate) fn new(link: &Arc<Link>, answering: &Arc<Answering>) -> Traffic {
        Traffic {
            link: Arc::clone(link),
            answering: Arc::clone(answering),
            handler: link.core.handler.clone(),
            tasks: JoinSet::new(),
            progress: None,
            silence: None,
        }
    }

    /// The messages of a call's own stream.
    pub(crate) fn of_call(
        self,
        handler: Option<Handler>,
        progress: Option<Progress>,
        silence: &Arc<Silence>,
    ) -> Traffic {
        let handler = handler.unwrap_or(self.handler);
        Traffic { handler, progress, silence: Some(Arc::clone(silence)), ..self }
    }

    /// Deals with a message; only a response is left to the caller.
    pub(crate) async fn take(&mut self, message: Message) -> Option<Response> {
        if let Some(silence) = &self.silence {
            silence.heard();
        }
        self.make_room().await;
        match message {
            Message::Response(response) => return Some(response),
            Message::Request(request) => self.answer(request),
            Message::Notification(notification) => self.hear(notification).await,
            // Streams are read message by message: batches are taken apart before.
            Message::Batch(_) => {}
        }
        None
    }

    /// Waits while there is too much to answer. Handlers can fill only half of the room, so the other
    /// half always moves on.
    async fn make_room(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        while self.tasks.len() >= 2 * self.link.core.limits.server_requests.max(1) {
            self.tasks.join_next().await;
        }
    }

    async fn hear(&self, Notification { method, params }: Notification) {
        if method == "notifications/cancelled" {
            let id = params.slice(Member::RequestId).and_then(Id::from_token);
            id.inspect(|id| self.answering.cancel(id));
        }
        if !self.progress.as_ref().is_some_and(|mine| mine.takes(&method, &params)) {
            self.handler.notification(&method, params.raw()).await;
        }
    }

    fn answer(&mut self, Request { id, method, params }: Request) {
        let link = Arc::clone(&self.link);
        if method == "ping" {
            self.tasks.spawn(async move { send(&link, encode::result(&id, b"{}")).await });
            return;
        }
        let max = self.link.core.limits.server_requests;
        let Some(place) = self.answering.enter(&id, max) else {
            let error =
                RpcError::internal("too many requests at once, or one with this id already");
            self.tasks.spawn(async move { send(&link, encode::error(Some(&id), &error)).await });
            return;
        };
        let handler = self.handler.clone();
        let busy = self.silence.as_ref().map(Silence::busy);
        let request = ServerRequest { method: method.to_string(), params: params.raw(), key: None };
        let task = self.tasks.spawn(async move {
            let _busy = busy;
            let answer = match handler.request(request).await {
                Ok(result) => encode::result(&place.id, &result),
                Err(error) => encode::error(Some(&place.id), &error),
            };
            send(&link, answer).await;
        });
        self.answering.started(&id, task);
    }
}

async fn send(link: &Link, answer: Bytes) {
    if let Err(error) = link.tell(answer).await {
        tracing::warn!(%error, "could not answer a request of the server");
    }
}

/// A place among the requests being answered; given up when dropped.
struct Place {
    answering: Arc<Answering>,
    id: Id,
}

impl Answering {
    fn enter(self: &Arc<Answering>, id: &Id, max: usize) -> Option<Place> {
        let mut running = self.lock();
        if running.len() >= max || running.contains_key(id) {
            return None;
        }
        running.insert(id.clone(), None);
        Some(Place { answering: Arc::clone(self), id: id.clone() })
    }

    fn started(&self, id: &Id, task: AbortHandle) {
        // It may have ended already.
        if let Some(place) = self.lock().get_mut(id) {
            *place = Some(task);
        }
    }

    fn cancel(&self, id: &Id) {
        let task = self.lock().get(id).cloned().flatten();
        task.inspect(AbortHandle::abort);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Option<AbortHandle>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.answering.lock().remove(&self.id);
    }
}
