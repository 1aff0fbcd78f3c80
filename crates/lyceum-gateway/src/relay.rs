//! [`Relay`]: one request of a client's, passed on to an upstream and its answer passed back.
//!
//! | client | upstream | what an upstream's question becomes |
//! |---|---|---|
//! | legacy | legacy | a request to the client |
//! | legacy | modern | a request to the client, then a retry upstream |
//! | modern | modern | `input_required`, with the upstream's state inside ours |
//! | modern | legacy | `input_required`, while the upstream's call is held open (`held`) |

mod answer;
pub(crate) mod asking;
mod error;
mod held;
mod line;
mod params;
mod result;
mod state;
mod subject;
pub(crate) mod tasks;
mod trace;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lyceum_http::client::{CallOptions, CallParams, ClientError};
use lyceum_http::{Context, Outcome};
use lyceum_wire::{ClientCapabilities, Era, Member, Object, Request, RpcError};
use sha2::{Digest, Sha256};

use crate::door::Door;
use crate::upstream::{Connection, Upstream};
use answer::Source;
pub(crate) use held::Held;
use held::{Calling, HeldCall, Step};
use line::Line;
pub(crate) use params::with_member;
use state::State;
pub(crate) use subject::Subject;
use tasks::{Bridge, TaskRef, Tasking};
use trace::Trace;

/// How long a call waits for a connection to be made again before it is repeated.
const RENEWAL: Duration = Duration::from_secs(3);

/// One request on its way through.
#[derive(Debug)]
pub(crate) struct Relay<'a> {
    door: &'a Door,
    subject: Subject,
}

type Answer = Result<Outcome, RpcError>;

impl<'a> Relay<'a> {
    pub(crate) fn new(door: &'a Door, subject: Subject) -> Relay<'a> {
        Relay { door, subject }
    }

    /// Passes the request on and the answer back.
    #[expect(clippy::manual_async_fn, reason = "an async fn would keep room for the request twice")]
    pub(crate) fn run(self, request: Request, cx: Context) -> impl Future<Output = Answer> + Send {
        async move {
            let mut trace = Trace::begin();
            let answer = self.answer(&request, &cx, &mut trace).await;
            if let Some(answered) = trace.answered() {
                self.subject.upstream().count(answered);
            }
            trace.tell(&self.subject, &request, &cx, answer.as_ref().err());
            answer
        }
    }

    async fn answer(&self, request: &Request, cx: &Context, trace: &mut Trace) -> Answer {
        let state = match cx.era() {
            Era::Modern => State::read(request, cx, &self.subject.upstream().config.name)?,
            Era::Legacy => State::Fresh,
        };
        if let State::Held(id) = state {
            return Box::pin(self.resume(id, request, cx, trace)).await;
        }
        if let Subject::Completion(upstream, ..) = &self.subject
            && !self.completes(upstream, cx).await
        {
            let none = Bytes::from_static(NO_COMPLETIONS);
            return Ok(self.back(&none, request, cx, Source::nowhere(cx.era())));
        }
        let upstream = self.subject.upstream();
        if let Subject::Absent(..) = self.subject {
            trace.unreached();
            return self.failed(upstream.why_absent().to_string(), request, cx);
        }
        loop {
            let connecting = trace.clock();
            let connected = match &self.subject {
                Subject::Task(task) => upstream.connection_number(task.connection, cx).await,
                _ => upstream.connection(cx).await,
            };
            let connection = match connected {
                Ok(connection) => connection,
                Err(unavailable) => {
                    trace.unreached();
                    return match unavailable.unknown_task() {
                        Some(unknown) => Err(unknown),
                        None => self.failed(unavailable.to_string(), request, cx),
                    };
                }
            };
            trace.connected(&connection, connecting);
            let ended = self.attempt(&connection, &state, request, cx, trace).await;
            upstream.learn(&connection, ended.as_ref().map(|_| ()).map_err(|failure| &failure.0));
            let Failure(error) = match ended {
                Ok(answer) => return answer,
                Err(failure) => failure,
            };
            trace.failed(&error);
            let repeat = trace.retries == 0 && self.may_repeat(&error);
            if !repeat || !upstream.renewed(&connection, RENEWAL).await {
                return self.refused(error, request, cx, connection.era);
            }
            trace.retries += 1;
        }
    }

    /// Whether a failed call may be made again: it never arrived, or twice is as good as once.
    fn may_repeat(&self, error: &ClientError) -> bool {
        let lost = matches!(error, ClientError::Broken(_) | ClientError::Interrupted);
        let never_sent = matches!(
            error,
            ClientError::Unreachable(_) | ClientError::Unsent(_) | ClientError::Closed
        );
        never_sent || (lost && self.subject.may_repeat())
    }

    async fn completes(&self, upstream: &Upstream, cx: &Context) -> bool {
        upstream.open(cx).await.is_ok_and(|connection| connection.offers.completions)
    }

    /// One attempt over one connection.
    async fn attempt(
        &self,
        connection: &Arc<Connection>,
        state: &State,
        request: &Request,
        cx: &Context,
        trace: &mut Trace,
    ) -> Result<Answer, Failure> {
        let in_use = connection.enter();
        if let Some(level) = cx.log_level {
            connection.want_level(level).await;
        }
        if let Subject::Task(task) = &self.subject
            && cx.era() != connection.era
        {
            trace.asked();
            let bridge = Bridge { door: self.door, task, connection, cx };
            let ending = Box::pin(bridge.answer(request)).await?;
            return Ok(ending.map(|result| self.back(&result, request, cx, connection.into())));
        }
        let raw = request.params.raw().unwrap_or_default();
        let (tasking, params) = match self.prepare(connection, state, request, &raw, cx) {
            Ok(prepared) => prepared,
            Err(error) => return Ok(Err(error)),
        };
        trace.asked();
        if cx.era() == Era::Legacy || connection.era == Era::Modern {
            return self.call_directly(connection, tasking, &params, request, cx, trace).await;
        }
        let params = params.into_owned();
        let line = Line::holding(cx.clone(), self.subject.upstream());
        let options = trace.count(self.options(connection, &line, tasking, request, cx));
        let held_on = Arc::clone(connection);
        let (connection, method) = (Arc::clone(connection), request.method.to_string());
        let upstream = Arc::clone(self.subject.upstream());
        let (door, cx_of_call, line_of_call) = (self.door.clone(), cx.clone(), Arc::clone(&line));
        let calling: Calling = Box::pin(async move {
            let _in_use = in_use;
            let result = match tasking {
                Tasking::Awaited => tasks::start(&connection, method, params, &options).await?,
                _ => connection.peer.call_params(&method, &params, &options).await?,
            };
            match tasks::id_in(&result).filter(|_| tasking == Tasking::Awaited) {
                Some(own) => {
                    let task = TaskRef::new(&upstream, connection.number, &own, &cx_of_call);
                    let (connection, cx) = (&connection, &cx_of_call);
                    let bridge = Bridge { door: &door, task: &task, connection, cx };
                    let ending = Box::pin(bridge.awaited(&line_of_call, options)).await?;
                    ending.map_err(ClientError::Rpc)
                }
                None => Ok(result),
            }
        });
        let call = HeldCall::new(calling, line, held_on);
        self.advance(call, request, cx).await
    }

    /// Makes a call whose questions reach the client while it runs, or are handed back.
    async fn call_directly(
        &self,
        connection: &Arc<Connection>,
        mut tasking: Tasking,
        params: &CallParams<'_>,
        request: &Request,
        cx: &Context,
        trace: &Trace,
    ) -> Result<Answer, Failure> {
        let upstream = self.subject.upstream();
        let task = match &self.subject {
            Subject::Task(task) => Some(task.public.clone()),
            _ => None,
        };
        let line = Line::direct(cx.clone(), upstream, task);
        let mut options = trace.count(self.options(connection, &line, tasking, request, cx));
        let mut result = None;
        if tasking != Tasking::Awaited {
            let called = connection.peer.call_params(&request.method, params, &options).await;
            if cx.era() == Era::Legacy && called.as_ref().is_err_and(tasks::wants_extension) {
                tasking = Tasking::Awaited;
                options = trace.count(self.options(connection, &line, tasking, request, cx));
            } else {
                result = Some(called?);
            }
        }
        let mut result = match result {
            Some(result) => result,
            None => {
                let (method, params) = (request.method.to_string(), params.clone().into_owned());
                Box::pin(tasks::start(connection, method, params, &options)).await?
            }
        };
        if cx.era() == Era::Modern {
            result = match state::wrap(result, request, cx, &upstream.config.name) {
                Ok(result) => result,
                Err(error) => return Ok(Err(error)),
            };
        }
        let started = match tasking {
            Tasking::Plain => None,
            _ => tasks::id_in(&result),
        };
        match (tasking, started) {
            (Tasking::Awaited, Some(own)) => {
                let task = TaskRef::new(upstream, connection.number, &own, cx);
                let bridge = Bridge { door: self.door, task: &task, connection, cx };
                let ending = Box::pin(bridge.awaited(&line, options)).await?;
                Ok(ending.map(|result| self.back(&result, request, cx, connection.into())))
            }
            // The client wanted a task, and the upstream did not need one.
            (Tasking::Started, None) if cx.era() == Era::Legacy => {
                let shown = self.back(&result, request, cx, connection.into());
                let server = self.door.server();
                Ok(server.ended_task(shown.as_bytes(), cx, tasks::wished_ttl(request)))
            }
            _ => Ok(Ok(self.back(&result, request, cx, connection.into()))),
        }
    }

    /// Lets a call that may be held go on to its end or its next question.
    async fn advance(
        &self,
        mut call: HeldCall,
        request: &Request,
        cx: &Context,
    ) -> Result<Answer, Failure> {
        match call.step().await {
            Step::Ended(result) => {
                let source = Source::from(call.connection());
                Ok(Ok(self.back(&result?, request, cx, source)))
            }
            Step::Asked => {
                if let Err(missing) = call.missing_capability(cx.capabilities) {
                    return Ok(Err(missing));
                }
                let requests = call.requests();
                let upstream = self.subject.upstream();
                let handle = self.door.gateway.held().keep(call, upstream, cx);
                let answer = handle.map(|id| {
                    let state = State::Held(id).seal(request, cx, &upstream.config.name);
                    Outcome::json(result::input_required(&requests, &state, self.info()))
                });
                Ok(answer)
            }
        }
    }

    /// Goes on with a call that was held while its client was asked.
    async fn resume(&self, id: u128, request: &Request, cx: &Context, trace: &mut Trace) -> Answer {
        let void = || RpcError::invalid_params(state::VOID);
        let responses = request.params.get(Member::InputResponses).unwrap_or_default();
        let responses = Object::parse(responses)
            .map_err(|_| RpcError::invalid_params("inputResponses must be an object"))?;
        let mut call = self.door.gateway.held().take(id).ok_or_else(void)?;
        call.attach(cx.clone());
        call.answer(&responses);
        let connection = Arc::clone(call.connection());
        trace.resumed(&connection);
        let ended = self.advance(call, request, cx).await;
        let upstream = self.subject.upstream();
        upstream.learn(&connection, ended.as_ref().map(|_| ()).map_err(|failure| &failure.0));
        match ended {
            Ok(answer) => answer,
            Err(Failure(error)) => {
                trace.failed(&error);
                self.refused(error, request, cx, Era::Legacy)
            }
        }
    }

    /// What is to be called, and what it has to do with tasks.
    fn prepare<'r>(
        &'r self,
        connection: &Connection,
        state: &'r State,
        request: &Request,
        raw: &'r [u8],
        cx: &Context,
    ) -> Result<(Tasking, CallParams<'r>), RpcError> {
        let tasking = match &self.subject {
            Subject::Tool(tool) => Tasking::of(tool, request, cx, connection.era)?,
            _ => Tasking::Plain,
        };
        let bridged = cx.era() != connection.era;
        let passed = matches!(state, State::Passed(_));
        let dropped = |name: &str| match name {
            "requestState" => true,
            "inputResponses" => !passed && (bridged || *state == State::Again),
            "task" => bridged,
            _ => false,
        };
        let mut params = params::passed_on(raw, &self.subject.passing(), dropped)?;
        if let State::Passed(state) = state {
            params.text("requestState", state);
        }
        if tasking != Tasking::Plain && connection.era == Era::Legacy {
            params.remove("task");
            params.raw("task", "{}");
        }
        Ok((tasking, params))
    }

    fn options(
        &self,
        connection: &Connection,
        line: &Arc<Line>,
        tasking: Tasking,
        request: &Request,
        cx: &Context,
    ) -> CallOptions {
        let upstream = self.subject.upstream();
        let silence = match request.method.as_str() {
            "tasks/result" => tasks::RESULT,
            _ => upstream.config.call_timeout,
        };
        let options = CallOptions::new().shared_handler(Arc::clone(line)).silence(silence);
        let mut options = options.charge_to(cx.caller_id());
        if let Some(caller) = caller(cx) {
            options = options.caller(caller);
        }
        if cx.progress_token.is_some() {
            options = options.progress_to_handler();
        }
        if connection.era == Era::Modern {
            let declared = request.params.slice(Member::MetaClientCapabilities);
            let has = match tasking {
                Tasking::Plain => cx.capabilities,
                _ => cx.capabilities | ClientCapabilities::TASKS_EXTENSION,
            };
            let declared = declared.unwrap_or_else(|| asking::capabilities(has));
            options = options.capabilities(declared);
            if let Some(level) = cx.log_level {
                options = options.log_level(level);
            }
            if cx.era() == Era::Modern {
                options = options.hand_back_input_requests();
            }
        }
        options
    }
}

/// The upstream did not answer, or with an error.
struct Failure(ClientError);

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure(error)
    }
}

const NO_COMPLETIONS: &[u8] = br#"{"completion":{"values":[],"hasMore":false}}"#;

/// A key that is the same for all calls of one client, and for no two clients; None if nothing says
/// whose a call is, so that it has nothing to do with any other.
fn caller(cx: &Context) -> Option<u128> {
    if let Some(session) = cx.session_key {
        return Some(u128::from_ne_bytes(session));
    }
    let principal = cx.principal.as_ref()?.as_str();
    let digest = Sha256::new()
        .chain_update(cx.endpoint.as_bytes())
        .chain_update([0])
        .chain_update(principal.as_bytes())
        .finalize();
    Some(u128::from_be_bytes(digest[..16].try_into().expect("a digest has 32 bytes")))
}
