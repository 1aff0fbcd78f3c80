//! An OAuth 2.1 client for upstreams, as MCP wants it: a layer around an HTTP stack.
//!
//! A request goes out with the token there is. When the server asks for another one, the layer finds
//! out who gives them out (RFC 9728, RFC 8414), refreshes, logs in (authorization code with PKCE)
//! or shows configured credentials, and sends the request again. Tokens go to the server they are
//! for and nowhere else; what an authorization server gave us is never shown to another one. Tokens
//! that *clients* send to the gateway never come here.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use lyceum_gateway::oauth::{Loopback, OAuth};
//! use lyceum_gateway::stack::stack;
//! use lyceum_http::client::Client;
//!
//! let url = "https://example.com/mcp";
//! let oauth = OAuth::builder("example", url)
//!     .authorizer(Loopback::new(|page| eprintln!("log in at {page}")))
//!     .build()?;
//! let client = Client::builder(url).name("example", "1.0").service(oauth.around(stack())).build()?;
//! let server = client.connect().await?;
//! # Ok(())
//! # }
//! ```

mod assertion;
mod attempt;
mod authorizer;
mod challenge;
mod client;
mod config;
mod dial;
mod discover;
mod error;
mod exposed;
mod loopback;
mod metadata;
mod redirect;
mod scope;
mod service;
mod session;
mod settings;
mod store;
mod token;

use std::sync::Arc;

use http::{Request, Response};
use lyceum_http::client::{BoxError, RequestBody};
use tower_service::Service;

pub use assertion::SigningKey;
pub use authorizer::{Authorizer, Visit};
pub use client::{Proof, RegisteredClient};
pub use config::OAuthConfig;
pub use error::{OAuthError, Stale};
pub use loopback::Loopback;
pub use service::{Authorized, LoginError};
pub use settings::{Grant, OAuthBuilder};
pub use store::TokenStore;

use session::Session;

/// The authorization of one upstream. Clones share it.
#[derive(Clone, Debug)]
pub struct OAuth(Arc<Session>);

impl OAuth {
    /// The authorization of an upstream: its name, and the URL of the server.
    pub fn builder(upstream: impl Into<String>, server: impl Into<String>) -> OAuthBuilder {
        OAuthBuilder::new(upstream.into(), server.into())
    }

    /// `service`, with tokens.
    pub fn around<S>(&self, service: S) -> Authorized<S> {
        Authorized::new(Arc::clone(&self.0), service)
    }

    /// Gets a new token, whether there is one or not: a person logs in, or the configured
    /// credentials are shown. `service` is the bare stack.
    ///
    /// # Errors
    /// When the server does not answer or there is no token in the end.
    pub async fn log_in<S, B>(&self, service: S) -> Result<(), LoginError>
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Clone,
        S::Error: Into<BoxError>,
    {
        service::log_in(&self.0, service).await
    }

    /// Goes by this client from now on; its secret may be another than it was.
    pub(crate) fn set_client(&self, client: Option<RegisteredClient>) {
        self.0.set_client(client);
    }

    /// Returns when another process may have kept a token.
    pub(crate) async fn store_changed(&self) {
        self.0.store_changed().await;
    }

    /// Forgets every token and registration of the upstream, here and in the store.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn log_out(&self) -> Result<(), OAuthError> {
        self.0.forget().await
    }
}
