//! [`Stdio`]: a session over lines. It is the connection itself, and ends with it.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;

use super::{Greeting, handshake};
use crate::client::call::Call;
use crate::client::core::Core;
use crate::client::error::ClientError;
use crate::client::life::Life;
use crate::client::line::{Connection, Line};
use crate::client::options::CallOptions;
use crate::client::params::CallParams;
use crate::client::response::result_of;

#[derive(Debug)]
pub(crate) struct Stdio {
    connection: Arc<Connection>,
    pub(super) greeting: Greeting,
}

impl Stdio {
    /// Shakes hands.
    pub(crate) async fn open(
        core: &Arc<Core>,
        connection: Arc<Connection>,
    ) -> Result<Stdio, ClientError> {
        let params = handshake::params(core)?;
        let options = CallOptions::new();
        let params = CallParams::parse(&params)?;
        let hello = Call::new(core, handshake::METHOD, &params, &options);
        let raw = hello.watch(pin!(call(&connection.line, &hello))).await?;
        let revision = handshake::accept(core, &raw)?;
        connection.line.tell(handshake::initialized()).await?;
        Ok(Stdio { connection, greeting: Greeting { revision, raw } })
    }

    pub(crate) async fn call(&self, what: &Call<'_>) -> Result<Bytes, ClientError> {
        call(&self.connection.line, what).await
    }

    pub(crate) async fn tell(&self, body: Bytes) -> Result<(), ClientError> {
        self.connection.line.tell(body).await
    }

    pub(crate) fn life(&self) -> &Life {
        &self.connection.line.life
    }

    pub(crate) async fn close(&self) {
        self.connection.close().await;
    }
}

async fn call(line: &Arc<Line>, call: &Call<'_>) -> Result<Bytes, ClientError> {
    let id = call.core.next_id();
    let body = call.legacy_body(&id);
    result_of(&line.call(call, &id, body).await?)
}
