//! One connection: reads lines, decides what each one is, and keeps its calls within bounds.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use lyceum_http::{
    ByteBudgets, CallerId, Context, Handler, Outbox, Reader, Session, UNCOUNTED_BYTES,
};
use lyceum_wire::{
    ClientCapabilities, Id, Member, Message, Notification, ParseError, Refusal, Request, Revision,
    Route, RoutingHeaders, RpcError, batch_allowed, check_modern_meta, classify, encode, negotiate,
};
use tokio::io::AsyncRead;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Duration;

use super::Options;
use super::calls::{Calls, Place};
use super::lines::{Line, Lines};
use super::outlet::{Client, LineOutlet, Slot};
use super::work::{Backlog, Work, answer};

/// The method whose call goes on for as long as its client listens.
const LISTEN: &str = "subscriptions/listen";
const CANCELLED: &str = "notifications/cancelled";
const INITIALIZED: &str = "notifications/initialized";

/// A connection's state, shared by nothing but its calls.
pub(super) struct Connection<H> {
    handler: Arc<H>,
    options: Options,
    queue: Arc<Outbox>,
    session: Arc<Session>,
    calls: Calls,
    slots: Arc<Semaphore>,
    endpoint: Arc<str>,
    backlog: Backlog,
    tasks: JoinSet<()>,
}

impl<H: Handler> Connection<H> {
    /// A connection, and the messages to write.
    pub(super) fn new(handler: H, options: Options) -> (Self, Reader) {
        let queue = Arc::new(Outbox::new(options.queue_bytes));
        let reader = queue.resume();
        // Until a client says otherwise it gets what an HTTP client without a session gets.
        let session = Session::detached(Revision::V2025_03_26, Arc::clone(&queue));
        let connection = Self {
            handler: Arc::new(handler),
            queue,
            session: Arc::new(session),
            calls: Calls::default(),
            slots: Arc::new(Semaphore::new(options.in_flight.max(1))),
            endpoint: "stdio".into(),
            backlog: Backlog::new(options.line_bytes),
            tasks: JoinSet::new(),
            options,
        };
        (connection, reader)
    }

    pub(super) fn drain(&self) -> Duration {
        self.options.drain
    }

    /// Serves until the input ends and the calls are done, or out of time.
    pub(super) async fn run(mut self, input: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut lines = Lines::new(input, self.options.line_bytes);
        loop {
            tokio::select! {
                permit = Arc::clone(&self.slots).acquire_owned(), if !self.backlog.is_empty() => {
                    self.start_next(permit.expect("the semaphore is never closed"));
                }
                Some(_) = self.tasks.join_next() => {}
                line = lines.next(), if self.backlog.has_room() => match line? {
                    Some(line) => self.take(line).await,
                    None => break,
                },
            }
        }
        self.calls.cancel_endless();
        let drain = self.options.drain;
        if tokio::time::timeout(drain, self.finish()).await.is_err() {
            tracing::warn!(left = self.tasks.len(), "input ended; gave up on running calls");
        }
        self.queue.finish();
        Ok(())
    }

    async fn finish(&mut self) {
        while !self.backlog.is_empty() || !self.tasks.is_empty() {
            tokio::select! {
                permit = Arc::clone(&self.slots).acquire_owned(), if !self.backlog.is_empty() => {
                    self.start_next(permit.expect("the semaphore is never closed"));
                }
                Some(_) = self.tasks.join_next() => {}
            }
        }
    }

    fn start_next(&mut self, permit: tokio::sync::OwnedSemaphorePermit) {
        if let Some(work) = self.backlog.pop() {
            self.tasks.spawn(work.run(permit));
        }
    }

    async fn take(&mut self, line: Line) {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong => {
                let limit = self.options.line_bytes;
                let error = format!("the line is longer than {limit} bytes and was skipped");
                return self.queue.push(invalid(error)).await;
            }
        };
        let bytes = line.len();
        match Message::parse(&line) {
            Ok(message) => self.route(message, bytes).await,
            Err(error) => self.queue.push(Refusal::from(error).body()).await,
        }
    }

    async fn route(&mut self, message: Message, bytes: usize) {
        let wants_answer = matches!(message, Message::Request(_) | Message::Batch(_));
        let route = match classify(&message, &RoutingHeaders::NONE, self.options.served) {
            Ok(route) => route,
            Err(refusal) if wants_answer => return self.queue.push(refusal.body()).await,
            Err(_) => return self.note_refused(&message),
        };
        match message {
            Message::Request(request) => {
                if let Err(refusal) = self.request(request, route, bytes) {
                    self.queue.push(refusal.body()).await;
                }
            }
            Message::Notification(notification) => self.notification(notification, route, bytes),
            Message::Response(response) => {
                if !self.session.answer(&response.id, response.outcome) {
                    tracing::debug!(id = %response.id, "answer to a question nobody asked");
                }
            }
            Message::Batch(messages) if batch_allowed(self.session.revision()) => {
                self.batch(messages, bytes);
            }
            Message::Batch(_) => {
                let error = "batches exist only in revision 2025-03-26, send single messages";
                self.queue.push(invalid(error)).await;
            }
        }
    }

    /// Cancelling works whatever else is wrong with the notification.
    fn note_refused(&self, message: &Message) {
        if let Message::Notification(notification) = message
            && notification.method == CANCELLED
        {
            self.cancel(notification);
        }
    }

    fn request(&mut self, request: Request, route: Route, bytes: usize) -> Result<(), Refusal> {
        let endless = route == Route::Modern && request.method == LISTEN;
        let slot = Arc::new(Slot::new(Arc::clone(&self.slots)));
        let cx = match route {
            Route::Modern => self.modern_context(&request)?,
            Route::Initialize => self.initialize(&request, &slot)?,
            Route::Legacy { .. } => self.legacy_context(&request, &slot),
        };
        let place = self.open(&request.id, endless)?;
        let (handler, queue) = (Arc::clone(&self.handler), Arc::clone(&self.queue));
        let call = async move {
            if let Some(answer) = place.run(answer(&*handler, request, cx)).await {
                queue.push(answer).await;
            }
        };
        if endless {
            self.tasks.spawn(call);
        } else {
            self.accept(Work::new(call, slot, bytes));
        }
        Ok(())
    }

    /// Takes the place of a call among the open ones.
    fn open(&self, id: &Id, endless: bool) -> Result<Place, Refusal> {
        let refuse = |error: String| {
            Refusal::bad_request(RpcError::invalid_request(error), Some(id.clone()))
        };
        // Endless calls have no slot, so that they cannot starve the others; they are bounded here.
        if endless && self.calls.n_endless() >= self.options.in_flight {
            return Err(refuse("too many open subscriptions; cancel one first".to_owned()));
        }
        self.calls.open(id, endless).ok_or_else(|| {
            refuse(format!("a request with id {id} is still running; use another id"))
        })
    }

    fn accept(&mut self, work: Work) {
        if self.backlog.is_empty()
            && let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned()
        {
            self.tasks.spawn(work.run(permit));
            return;
        }
        self.backlog.push(work);
    }

    fn notification(&mut self, notification: Notification, route: Route, bytes: usize) {
        if notification.method == CANCELLED {
            return self.cancel(&notification);
        }
        if route == Route::Modern {
            return tracing::debug!(method = %notification.method, "modern notification dropped");
        }
        let slot = Arc::new(Slot::new(Arc::clone(&self.slots)));
        let cx = self.context(&slot);
        let opened = notification.method == INITIALIZED;
        let (handler, session) = (Arc::clone(&self.handler), Arc::clone(&self.session));
        let note = async move {
            handler.notify(notification, cx).await;
            if opened {
                handler.stream_opened(&session);
            }
        };
        self.accept(Work::new(note, slot, bytes));
    }

    fn cancel(&self, notification: &Notification) {
        if let Some(id) = notification.params.slice(Member::RequestId).and_then(Id::from_token) {
            self.calls.cancel(&id);
        }
    }

    /// Runs a batch's messages one after the other and answers them together.
    fn batch(&mut self, messages: Vec<Result<Message, ParseError>>, bytes: usize) {
        let slot = Arc::new(Slot::new(Arc::clone(&self.slots)));
        let mut answers: Vec<Bytes> = Vec::new();
        let mut open = Vec::new();
        for message in messages {
            match message {
                Ok(Message::Request(request)) => match self.open(&request.id, false) {
                    Ok(place) => open.push((place, self.legacy_context(&request, &slot), request)),
                    Err(refusal) => answers.push(refusal.body()),
                },
                Ok(Message::Notification(notification)) => {
                    self.notification(notification, Route::Legacy { header: None }, bytes);
                }
                Ok(Message::Response(response)) => {
                    self.session.answer(&response.id, response.outcome);
                }
                Ok(Message::Batch(_)) => {}
                Err(error) => answers.push(Refusal::from(error).body()),
            }
        }
        let (handler, queue) = (Arc::clone(&self.handler), Arc::clone(&self.queue));
        let budgets = Arc::clone(&self.options.budgets);
        let calls = async move {
            // Small answers always find room, so that a write is never said not to have been answered.
            let mut room = budgets.answer_bytes / 4;
            for (place, cx, request) in open {
                let id = request.id.clone();
                let Some(answer) = place.run(answer(&*handler, request, cx)).await else {
                    continue;
                };
                let fits = answer.len() <= UNCOUNTED_BYTES || answer.len() <= room;
                room = room.saturating_sub(if fits { answer.len() } else { 0 });
                answers.push(if fits { answer } else { too_large_together(&id) });
            }
            if !answers.is_empty() {
                queue.push(joined(answers, &budgets)).await;
            }
        };
        self.accept(Work::new(calls, slot, bytes));
    }

    /// Settles revision and capabilities at once, so that whatever the client sends next without
    /// waiting is served accordingly.
    fn initialize(&self, request: &Request, slot: &Arc<Slot>) -> Result<Context, Refusal> {
        let params = &request.params;
        let Some(requested) = params.text(Member::ProtocolVersion) else {
            let error = RpcError::invalid_params("params.protocolVersion must be a string");
            return Err(Refusal::bad_request(error, Some(request.id.clone())));
        };
        let revision = negotiate(&requested, self.options.served).ok_or_else(|| {
            let error = RpcError::unsupported_version(&requested, self.options.served);
            Refusal::bad_request(error, Some(request.id.clone()))
        })?;
        let capabilities = params.get(Member::Capabilities).and_then(ClientCapabilities::parse);
        self.session.settle(revision, capabilities.unwrap_or_default());
        Ok(self.legacy_context(request, slot))
    }

    fn legacy_context(&self, request: &Request, slot: &Arc<Slot>) -> Context {
        let progress_token = request.params.progress_token();
        Context { progress_token, ..self.context(slot) }
    }

    /// The circumstances of every legacy message.
    fn context(&self, slot: &Arc<Slot>) -> Context {
        let client = Client {
            session: Arc::clone(&self.session),
            patience: self.options.question,
            slot: Arc::clone(slot),
        };
        Context {
            revision: self.session.revision(),
            served: self.options.served,
            capabilities: self.session.capabilities(),
            log_level: Some(self.session.log_level()),
            progress_token: None,
            principal: None,
            peer: None,
            budgets: Arc::clone(&self.options.budgets),
            endpoint: Arc::clone(&self.endpoint),
            session_key: Some([0; 16]),
            session: Some(Arc::clone(&self.session)),
            sealer: Arc::clone(&self.options.sealer),
            outlet: Arc::new(LineOutlet { queue: Arc::clone(&self.queue), client: Some(client) }),
        }
    }

    fn modern_context(&self, request: &Request) -> Result<Context, Refusal> {
        let modern = check_modern_meta(request, self.options.served)?;
        Ok(Context {
            revision: modern.revision,
            served: self.options.served,
            capabilities: modern.capabilities,
            log_level: modern.log_level,
            progress_token: request.params.progress_token(),
            principal: None,
            peer: None,
            budgets: Arc::clone(&self.options.budgets),
            endpoint: Arc::clone(&self.endpoint),
            session_key: None,
            session: None,
            sealer: Arc::clone(&self.options.sealer),
            outlet: Arc::new(LineOutlet { queue: Arc::clone(&self.queue), client: None }),
        })
    }
}

/// The answer to a line that is nobody's request.
fn invalid(message: impl Into<Cow<'static, str>>) -> Bytes {
    encode::error(None, &RpcError::invalid_request(message))
}

/// The refusal of an answer for which its batch has no room.
fn too_large_together(id: &Id) -> Bytes {
    let text = "the answers to this batch are too large together; ask for this one by itself";
    encode::error(Some(id), &RpcError::internal(text))
}

/// The answers of a batch as one, charged for as they were.
fn joined(answers: Vec<Bytes>, budgets: &ByteBudgets) -> Bytes {
    let array = array(&answers);
    if array.len() <= UNCOUNTED_BYTES {
        return array;
    }
    drop(answers);
    budgets.claim_anyway(CallerId::Anonymous, array)
}

/// A batch of answers.
fn array(answers: &[Bytes]) -> Bytes {
    let mut out =
        Vec::with_capacity(answers.iter().map(|answer| answer.len() + 1).sum::<usize>() + 1);
    for (at, answer) in answers.iter().enumerate() {
        out.push(if at == 0 { b'[' } else { b',' });
        out.extend_from_slice(answer);
    }
    out.push(b']');
    out.into()
}
