//! What a client is told of what an upstream answered, or did not.

use std::sync::Arc;

use bytes::Bytes;
use lyceum_http::client::ClientError;
use lyceum_http::{Context, Outcome};
use lyceum_wire::{ClientCapabilities, Era, ErrorCode, Request, RpcError};

use super::result::{self, Shape};
use super::state::State;
use super::tasks::{self, TaskRef};
use super::{Answer, Relay, Subject, asking, error};
use crate::upstream::{Connection, describe};

/// Whence a result comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    era: Era,
    /// The number of the connection.
    connection: u64,
}

impl Source {
    /// What we say ourselves, in the words of an era.
    pub(super) fn nowhere(era: Era) -> Source {
        Source { era, connection: 0 }
    }
}

impl From<&Arc<Connection>> for Source {
    fn from(connection: &Arc<Connection>) -> Source {
        Source { era: connection.era, connection: connection.number }
    }
}

impl Relay<'_> {
    pub(super) fn back(
        &self,
        result: &Bytes,
        request: &Request,
        cx: &Context,
        source: Source,
    ) -> Outcome {
        let shape = Shape {
            method: &request.method,
            client: cx.era(),
            upstream: source.era,
            uris: self.subject.upstream().uris(),
            info: self.info(),
        };
        if let Subject::Tool(_) = &self.subject
            && let Some(own) = tasks::id_in(result)
        {
            let task = TaskRef::new(self.subject.upstream(), source.connection, &own, cx);
            return Outcome::json(tasks::created(self.door, result, &task, cx, &shape));
        }
        match &self.subject {
            Subject::Task(task) => {
                let result = result::passed_back(result, &shape);
                Outcome::json(tasks::followed(&result, task, &shape))
            }
            _ => result::answered(&request.id, result, &shape),
        }
    }

    pub(super) fn info(&self) -> &[u8] {
        self.door.server().brief_info()
    }

    /// The answer to a call an upstream refused or lost.
    pub(super) fn refused(
        &self,
        error: ClientError,
        request: &Request,
        cx: &Context,
        era: Era,
    ) -> Answer {
        let upstream = &self.subject.upstream().config;
        let uris = self.subject.upstream().uris();
        match error {
            ClientError::Rpc(error)
                if cx.era() == Era::Modern
                    && error.code == ErrorCode::URL_ELICITATION_REQUIRED
                    && !asking::url_elicitations(&error).is_empty() =>
            {
                let needed = ClientCapabilities::ELICITATION_URL;
                if !cx.capabilities.has(needed) {
                    return Err(RpcError::missing_capability(&asking::capabilities(needed)));
                }
                let requests = asking::url_elicitations(&error);
                let state = State::Again.seal(request, cx, &upstream.name);
                Ok(Outcome::json(result::input_required(&requests, &state, self.info())))
            }
            ClientError::Rpc(error) => {
                let resource = match &self.subject {
                    Subject::Resource(_, uri) => Some(uri.as_str()),
                    _ => None,
                };
                Err(error::passed_back(error, &request.method, resource, cx.era(), era, uris))
            }
            ClientError::Silent(limit) => self.failed(
                format!("{} did not answer within {limit:?}", upstream.name),
                request,
                cx,
            ),
            ClientError::NoRoom(exhausted) => {
                let name = &upstream.name;
                self.failed(
                    format!("UNAVAILABLE: no room for the answer of {name}: {exhausted}"),
                    request,
                    cx,
                )
            }
            error => {
                let mut problem = format!("{}: {}", upstream.name, describe(&error));
                if let Some(advice) = upstream.how_to_be_allowed(&error) {
                    problem = format!("{problem}; {advice}");
                }
                self.failed(problem, request, cx)
            }
        }
    }

    /// The answer when there is none from the upstream. A model that called a tool is told.
    pub(super) fn failed(&self, problem: String, request: &Request, cx: &Context) -> Answer {
        if !matches!(self.subject, Subject::Tool(_) | Subject::Absent(_, "name", _)) {
            return Err(RpcError::internal(problem));
        }
        let told = result::tool_error(&problem);
        Ok(self.back(&told, request, cx, Source::nowhere(Era::Legacy)))
    }
}
