//! What calls teach about an upstream: whether it may be called, is looked at, or connected to anew.

use std::sync::{Arc, Mutex};

use lyceum_http::client::ClientError;
use tokio::time::Instant;

use super::breaker::Breaker;
use super::refusal::Refusal;
use super::{Connection, Unavailable, Upstream, describe, health, lock};
use crate::config::Share;

impl Upstream {
    /// Whether a call may be made on a connection that one caller has alone.
    pub(super) fn admit_to(
        &self,
        connection: Arc<Connection>,
    ) -> Result<Arc<Connection>, Unavailable> {
        if self.is_apart(&connection) {
            self.admit(&connection.breaker)?;
        }
        Ok(connection)
    }

    /// Whether a call may be made.
    pub(super) fn admit(&self, breaker: &Mutex<Breaker>) -> Result<(), Unavailable> {
        let mut breaker = lock(breaker);
        if breaker.is_closed() {
            return Ok(());
        }
        breaker
            .admit(Instant::now())
            .map_err(|retry| Unavailable::Failing { name: self.config.name.clone(), retry })
    }

    /// Whether silence on a connection says nothing about anybody else's: a process that one caller has
    /// alone.
    fn is_apart(&self, connection: &Connection) -> bool {
        self.config.share == Share::PerSession && connection.is_process()
    }

    /// Something was asked of it in vain; whether it is left alone from now on.
    pub(super) fn failed(&self) -> bool {
        let opens = lock(&self.breaker).failed(Instant::now());
        if opens {
            lock(&self.condition).since = health::now();
        }
        opens
    }

    /// A call was not answered as it should be.
    fn unanswered(&self, connection: &Connection, error: &ClientError) {
        if self.is_apart(connection) {
            lock(&connection.breaker).failed(Instant::now());
        } else {
            self.broke(error);
        }
    }

    /// A call broke off. Of a process that ended nothing is left that could count.
    fn broke(&self, error: &ClientError) {
        if self.failed() {
            self.note_error(describe(error));
        }
    }

    /// A call was answered.
    fn answered(&self, connection: &Connection) {
        if self.is_apart(connection) {
            lock(&connection.breaker).succeeded();
        }
        if lock(&self.breaker).succeeded() {
            lock(&self.condition).since = health::now();
        }
    }

    /// Learns from how a call ended.
    pub(crate) fn learn(&self, connection: &Arc<Connection>, ended: Result<(), &ClientError>) {
        match ended {
            Ok(()) => self.answered(connection),
            Err(
                error
                @ (ClientError::Rpc(_) | ClientError::Status(_) | ClientError::Credentials(_)),
            ) => self.refused(connection, error),
            Err(
                error @ (ClientError::Unreachable(_)
                | ClientError::Unsent(_)
                | ClientError::Broken(_)
                | ClientError::Interrupted
                | ClientError::Closed),
            ) => {
                self.own.forget(connection);
                // What breaks under many calls at once is one failure, not many; and what was never
                // sent says nothing about how calls fare.
                let was_sent = matches!(error, ClientError::Broken(_) | ClientError::Interrupted);
                if connection.suspect() && was_sent {
                    self.broke(error);
                }
                self.suspected.notify_one();
            }
            Err(
                error @ (ClientError::Silent(_)
                | ClientError::TooLarge { .. }
                | ClientError::Protocol(_)),
            ) => self.unanswered(connection, error),
            Err(_) => {}
        }
    }

    fn refused(&self, connection: &Arc<Connection>, error: &ClientError) {
        let refusal = Refusal::of(error);
        if refusal == Some(Refusal::Unwell) {
            return self.unanswered(connection, error);
        }
        // Whoever refuses, is there.
        self.answered(connection);
        self.doubt(connection, error);
        // A session whose tools are forbidden is still a session; one without access is none.
        if refusal == Some(Refusal::Credentials) {
            self.own.forget(connection);
        }
    }

    /// Has it looked into what an error may mean, if that is worth the effort.
    pub(super) fn doubt(&self, connection: &Connection, error: &ClientError) {
        match Refusal::of(error) {
            Some(Refusal::Credentials) if lock(&self.renewals).permit() => {
                self.turned_away.notify_one();
            }
            Some(Refusal::Era | Refusal::Forbidden) if connection.doubt() => {
                self.suspected.notify_one();
            }
            _ => {}
        }
    }
}
