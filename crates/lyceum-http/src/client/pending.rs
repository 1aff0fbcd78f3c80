//! [`Pending`]: calls whose answers may come on a stream that is not theirs alone.
//!
//! Over lines and HTTP+SSE all answers do. Over Streamable HTTP none should, but some servers send
//! an answer, or the progress of a call, on the session's standing stream.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use lyceum_wire::{
    ErrorCode, Id, Member, Message, Notification, Object, Params, ParseError, Response, Writer,
};
use rustc_hash::FxHashMap;

use super::answered::{answered, answered_by};
use super::call::Call;
use super::core::number;
use super::error::ClientError;
use super::handler::{Handler, ServerNotification};
use super::intake::{Incoming, attach};
use super::mailbox::{Keeping, Letter, Mailbox};
use super::progress::{Progress, Token, token_in};
use super::response::raw_error_in;
use super::silence::Silence;
use super::traffic::{Audience, Traffic};
use crate::byte_budget::{Exhausted, Reservation};
use crate::caller::CallerId;
use crate::ends::Ends;

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
const LOG_MESSAGE: &str = "notifications/message";
/// Lines or events in a row that are no messages, after which the server is taken for something else.
const MAX_NOISE: usize = 10_000;

/// The calls of one session that wait for their answers.
#[derive(Debug)]
pub(crate) struct Pending {
    max: usize,
    /// By the numbers that are their ids, so the newest call has the highest. None once the stream
    /// has ended.
    calls: Mutex<Option<FxHashMap<u64, Entry>>>,
    /// Lines or events in a row that were no messages.
    n_noise: AtomicUsize,
}

/// What is known about a waiting call.
#[derive(Debug)]
struct Entry {
    mailbox: Arc<Mailbox>,
    silence: Arc<Silence>,
    token: Option<Token>,
    /// A handler of its own, and on whose behalf it was made.
    handler: Option<Handler>,
    caller: Option<u128>,
    /// The task whose result it waits for.
    task: Option<String>,
    keeping: Keeping,
    /// Who is charged for its answer.
    charged: Option<CallerId>,
}

/// A call's place; given up when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    pending: Arc<Pending>,
    key: u64,
    mailbox: Arc<Mailbox>,
}

impl Pending {
    pub(crate) fn new(max: usize) -> Pending {
        let calls = Mutex::new(Some(FxHashMap::default()));
        Pending { max, calls, n_noise: AtomicUsize::new(0) }
    }

    /// Adds a call; None if the stream has ended.
    pub(crate) fn enter(
        self: &Arc<Pending>,
        id: &Id,
        call: &Call<'_>,
        keeping: Keeping,
    ) -> Result<Option<Place>, ClientError> {
        let key = number(id.as_bytes()).ok_or_else(|| ClientError::protocol("no id of ours"))?;
        let mut calls = self.lock();
        let Some(calls) = calls.as_mut() else { return Ok(None) };
        if calls.len() >= self.max {
            return Err(ClientError::TooManyCalls(self.max));
        }
        let mailbox = Arc::new(Mailbox::new(keeping));
        let entry = Entry {
            mailbox: Arc::clone(&mailbox),
            silence: Arc::clone(&call.silence),
            token: Token::of(call),
            handler: call.options.handler.clone(),
            caller: call.options.caller,
            task: match call.method {
                "tasks/result" => call.params.text_of("taskId").map(Cow::into_owned),
                _ => None,
            },
            keeping,
            charged: call.options.charged.clone(),
        };
        calls.insert(key, entry);
        Ok(Some(Place { pending: Arc::clone(self), key, mailbox }))
    }

    /// Deals with a line or event of a stream that brings more than one call's messages. One that
    /// cannot be read costs no more than the call it answers.
    ///
    /// # Errors
    /// When nothing but noise comes.
    pub(crate) async fn take(
        &self,
        incoming: Incoming,
        traffic: &mut Traffic,
    ) -> Result<(), ClientError> {
        let (data, reservation) = match incoming {
            Incoming::Message(data, reservation) => (data, reservation),
            Incoming::Skipped(ends, exhausted) => {
                self.skip(&ends, exhausted);
                return Ok(());
            }
        };
        let is_message = match Message::parse(&data) {
            Ok(message) => {
                self.deal_with(message, reservation, traffic).await;
                true
            }
            Err(error) => self.settle(&data, &error),
        };
        if is_message {
            self.n_noise.store(0, Ordering::Relaxed);
            return Ok(());
        }
        let n_noise = self.n_noise.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(n_noise, n_bytes = data.len(), "the server sent what is no message");
        if n_noise < MAX_NOISE {
            return Ok(());
        }
        self.n_noise.store(0, Ordering::Relaxed);
        Err(ClientError::protocol("its output is no messages"))
    }

    /// Ends the call that something unreadable answers; whether it seems to be an answer.
    fn settle(&self, data: &Bytes, problem: &ParseError) -> bool {
        if !data.starts_with(b"{") {
            return false;
        }
        let id = answered(data);
        // Some servers log in JSON where their messages go.
        let error = raw_error_in(data).filter(|error| error.starts_with(b"{"));
        match (error, id) {
            (Some(error), Some(id)) => self.answer(Response { id, outcome: Err(error) }),
            // A server that lost track of the id still said what went wrong.
            (Some(error), None) => self.blame(error),
            // There will be no other answer.
            (None, Some(id)) => self.refuse(&id, problem),
            (None, None) => return false,
        }
        true
    }

    /// Ends the call that is answered by a message there was no room for.
    fn skip(&self, ends: &Ends, exhausted: Exhausted) {
        let key = answered_by(ends).and_then(|id| number(id.as_bytes()));
        tracing::warn!(call = key, "dropped a large message of the server: {exhausted}");
        if let Some(entry) = key.and_then(|key| self.lock().as_mut()?.remove(&key)) {
            entry.silence.heard();
            entry.mailbox.refuse(exhausted);
        }
    }

    async fn deal_with(
        &self,
        message: Message,
        reservation: Option<Arc<Reservation>>,
        traffic: &mut Traffic,
    ) {
        traffic.make_room().await;
        match message {
            Message::Response(response) => self.answer_charged(response, reservation),
            Message::Request(request) => {
                let audience = match task_in(&request.params) {
                    Some(task) => self.followers(&task),
                    None => self.audience(),
                };
                traffic.answer(request, reservation, audience);
            }
            Message::Notification(notification) => {
                match self.addressee(&notification) {
                    Some(mailbox) => {
                        let mut note = ServerNotification::from(notification);
                        note.params = note.params.map(|params| attach(reservation, params));
                        mailbox.put(note).await;
                    }
                    None => traffic.hear(notification).await,
                };
            }
            Message::Batch(batch) => {
                for message in batch.into_iter().flatten() {
                    Box::pin(self.deal_with(message, reservation.clone(), traffic)).await;
                }
            }
        }
    }

    /// Takes an error that names no request for the answer to the only call there is.
    fn blame(&self, error: Bytes) {
        let only = match &*self.lock() {
            Some(calls) if calls.len() == 1 => calls.keys().next().copied(),
            _ => None,
        };
        if let Some(key) = only {
            self.answer(Response { id: Id::number(key), outcome: Err(error) });
        }
    }

    /// Takes an answer that is no message for a failure of the request it names.
    fn refuse(&self, id: &Id, problem: &ParseError) {
        let mut error = Writer::new();
        error.raw("code", ErrorCode::INTERNAL_ERROR.0.to_string());
        error.text("message", &format!("the server's answer cannot be read: {problem}"));
        self.answer(Response { id: id.clone(), outcome: Err(error.finish()) });
    }

    /// The stream has ended: no answer will come.
    pub(crate) fn end(&self) {
        let calls = self.lock().take();
        for entry in calls.into_iter().flat_map(FxHashMap::into_values) {
            entry.mailbox.lose();
        }
    }

    /// Hands an answer to its call, which is charged for it from now on.
    fn answer_charged(&self, mut response: Response, reservation: Option<Arc<Reservation>>) {
        let Some(mut reservation) = reservation else { return self.answer(response) };
        let key = number(response.id.as_bytes());
        let entry = key.and_then(|key| self.lock().as_mut()?.remove(&key));
        let Some(entry) = entry else { return self.answer(response) };
        entry.silence.heard();
        let Some(caller) = &entry.charged else { return entry.mailbox.answer(response) };
        // What the messages of a batch share stays with the server.
        let charged = Arc::get_mut(&mut reservation).map_or(Ok(()), |own| own.transfer(caller));
        match charged {
            Ok(()) => {
                response.outcome = match response.outcome {
                    Ok(result) => Ok(attach(Some(reservation), result)),
                    Err(error) => Err(attach(Some(reservation), error)),
                };
                entry.mailbox.answer(response);
            }
            Err(exhausted) => entry.mailbox.refuse(exhausted),
        }
    }

    fn answer(&self, response: Response) {
        let key = number(response.id.as_bytes());
        let entry = key.and_then(|key| self.lock().as_mut()?.remove(&key));
        match entry {
            Some(entry) => {
                entry.silence.heard();
                entry.mailbox.answer(response);
            }
            None => tracing::debug!(id = %response.id, "an answer to no request of ours"),
        }
    }

    /// The call a notification is about.
    fn addressee(&self, notification: &Notification) -> Option<Arc<Mailbox>> {
        let Notification { method, params } = notification;
        if method == LOG_MESSAGE {
            return self.audience()?.mailbox;
        }
        if let Some(key) = subscription(params) {
            let calls = self.lock();
            let entry = calls.as_ref()?.get(&key)?;
            return (entry.keeping == Keeping::Subscriptions).then(|| Arc::clone(&entry.mailbox));
        }
        let token = token_in(method, params.raw().as_ref())?;
        let calls = self.lock();
        let calls = calls.as_ref()?;
        let by_id = number(&token).and_then(|key| calls.get(&key));
        let by_id = by_id.filter(|entry| entry.token == Some(Token::Id));
        let given = Some(Token::Given(token));
        let entry = by_id.or_else(|| calls.values().find(|entry| entry.token == given))?;
        entry.silence.heard();
        Some(Arc::clone(&entry.mailbox))
    }

    /// The call that may be meant by a message that names none.
    fn audience(&self) -> Option<Audience> {
        self.newest(|_| true)
    }

    /// The call that waits for the result of a task. Somebody else's call is no substitute, even
    /// if it is the only one.
    fn followers(&self, task: &str) -> Option<Audience> {
        self.newest(|entry| entry.task.as_deref() == Some(task))
    }

    /// The newest of those calls that have a handler of their own, if one caller made them all.
    fn newest(&self, is_meant: impl Fn(&Entry) -> bool) -> Option<Audience> {
        let calls = self.lock();
        let mut heard = calls.iter().flatten().filter_map(|(key, entry)| {
            let handler = entry.handler.as_ref().filter(|_| is_meant(entry))?;
            Some((key, handler, entry))
        });
        let first = heard.next()?;
        let caller = first.2.caller;
        let mut newest = first;
        for other in heard {
            if caller.is_none() || other.2.caller != caller {
                return None;
            }
            if other.0 > newest.0 {
                newest = other;
            }
        }
        let (_, handler, entry) = newest;
        Some(Audience {
            handler: handler.clone(),
            silence: Some(Arc::clone(&entry.silence)),
            mailbox: Some(Arc::clone(&entry.mailbox)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<FxHashMap<u64, Entry>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits for the answer, and lets the call hear what comes before it; None if the stream ended.
    pub(crate) async fn wait(
        &self,
        call: &Call<'_>,
        id: &Id,
    ) -> Option<Result<Response, ClientError>> {
        let progress = Progress::of(call, id);
        loop {
            match self.next().await {
                Letter::Note(note) => call.hear(note, progress.as_ref()).await,
                Letter::Answer(response) => return Some(Ok(response)),
                Letter::Refused(exhausted) => return Some(Err(exhausted.into())),
                Letter::Lost | Letter::Overflow => return None,
            }
        }
    }

    pub(crate) async fn next(&self) -> Letter {
        self.mailbox.next().await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(calls) = self.pending.lock().as_mut() {
            calls.remove(&self.key);
        }
        self.mailbox.abandon();
    }
}

/// The subscription a notification belongs to.
fn subscription(params: &Params) -> Option<u64> {
    let meta = Object::parse(params.get(Member::Meta)?).ok()?;
    number(meta.get(SUBSCRIPTION_ID)?.as_bytes())
}

/// The task a request of the server's belongs to, if it says so (2025-11-25).
fn task_in(params: &Params) -> Option<String> {
    let meta = Object::parse(params.get(Member::Meta)?).ok()?;
    Object::parse(meta.get(RELATED_TASK)?.as_bytes()).ok()?.text("taskId")
}
