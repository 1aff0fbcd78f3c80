//! What a legacy server sends besides answers: requests of its own, notifications, cancellations.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use lyceum_wire::{Id, Member, Message, Notification, Request, Response, RpcError, encode};
use tokio::task::{AbortHandle, JoinSet};

use super::call::Call;
use super::handler::{Handler, ServerNotification, ServerRequest};
use super::mailbox::Mailbox;
use super::post::Post;
use super::progress::Progress;
use super::silence::Silence;
use crate::byte_budget::Reservation;

/// The server requests of one session that are being answered, on whatever stream they came.
#[derive(Debug, Default)]
pub(crate) struct Answering(Mutex<HashMap<Id, Option<AbortHandle>>>);

/// Takes in the messages of one stream. Dropping it drops the handlers it set to work.
#[derive(Debug)]
pub(crate) struct Traffic {
    post: Post,
    answering: Arc<Answering>,
    tasks: JoinSet<()>,
}

/// Who answers a request of the server.
#[derive(Debug)]
pub(crate) struct Audience {
    pub(crate) handler: Handler,
    /// The clock of the call it belongs to.
    pub(crate) silence: Option<Arc<Silence>>,
    /// Tells when that call is over.
    pub(crate) mailbox: Option<Arc<Mailbox>>,
}

impl Traffic {
    pub(crate) fn new(post: Post, answering: &Arc<Answering>) -> Traffic {
        Traffic { post, answering: Arc::clone(answering), tasks: JoinSet::new() }
    }

    /// Deals with a message of a call's own stream; only a response is left to the caller.
    pub(crate) async fn take(
        &mut self,
        message: Message,
        call: &Call<'_>,
        progress: Option<&Progress>,
    ) -> Option<Response> {
        call.silence.heard();
        self.make_room().await;
        match message {
            Message::Response(response) => return Some(response),
            Message::Request(request) => {
                let handler = call.handler().clone();
                let silence = Some(Arc::clone(&call.silence));
                let audience = Audience { handler, silence, mailbox: None };
                self.answer(request, None, Some(audience));
            }
            Message::Notification(notification) => {
                self.note_cancelled(&notification);
                call.hear(ServerNotification::from(notification), progress).await;
            }
            // Streams are read message by message: batches are taken apart before.
            Message::Batch(_) => {}
        }
        None
    }

    /// Waits while there is too much to answer. Handlers can fill only half of the room, so the other
    /// half always moves on.
    pub(crate) async fn make_room(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        while self.tasks.len() >= 2 * self.post.core().limits.server_requests.max(1) {
            self.tasks.join_next().await;
        }
    }

    /// Hears a notification that belongs to no call.
    pub(crate) async fn hear(&self, notification: Notification) {
        self.note_cancelled(&notification);
        self.post.core().handler.notification(ServerNotification::from(notification)).await;
    }

    fn note_cancelled(&self, Notification { method, params }: &Notification) {
        if method == "notifications/cancelled" {
            let id = params.slice(Member::RequestId).and_then(Id::from_token);
            id.inspect(|id| self.answering.cancel(id));
        }
    }

    /// Has a request answered: by the client's own handler, if it belongs to nobody else.
    /// What is reserved for the request is held until it is answered.
    pub(crate) fn answer(
        &mut self,
        request: Request,
        reservation: Option<Arc<Reservation>>,
        audience: Option<Audience>,
    ) {
        let Request { id, method, params } = request;
        let post = self.post.clone();
        if method == "ping" {
            self.tasks.spawn(async move { send(&post, encode::result(&id, b"{}")).await });
            return;
        }
        let max = post.core().limits.server_requests;
        let Some(place) = self.answering.enter(&id, max) else {
            let error =
                RpcError::internal("too many requests at once, or one with this id already");
            self.tasks.spawn(async move { send(&post, encode::error(Some(&id), &error)).await });
            return;
        };
        let client = || post.core().handler.clone();
        let audience = audience.unwrap_or_else(|| Audience::outside(client()));
        let request = ServerRequest { method: method.to_string(), params: params.raw(), key: None };
        let task = self.tasks.spawn(async move {
            let _reservation = reservation;
            let answer = match audience.ask(request).await {
                Ok(result) => encode::result(&place.id, &result),
                Err(error) => encode::error(Some(&place.id), &error),
            };
            send(&post, answer).await;
        });
        self.answering.started(&id, task);
    }
}

impl Audience {
    /// A handler for what belongs to no call.
    fn outside(handler: Handler) -> Audience {
        Audience { handler, silence: None, mailbox: None }
    }

    /// Has the handler answer, as long as the call is there for which it does.
    async fn ask(self, request: ServerRequest) -> Result<Bytes, RpcError> {
        let _busy = self.silence.as_ref().map(Silence::busy);
        let over = async {
            match &self.mailbox {
                Some(mailbox) => mailbox.abandoned().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            answer = self.handler.request(request) => answer,
            () = over => Err(RpcError::internal("the call this belonged to is over")),
        }
    }
}

async fn send(post: &Post, answer: Bytes) {
    if let Err(error) = post.tell(answer).await {
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
