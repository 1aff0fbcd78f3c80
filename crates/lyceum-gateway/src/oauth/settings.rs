//! [`OAuthBuilder`]: what the operator says about one upstream's authorization.

use std::fmt;
use std::sync::Arc;

use lyceum_http::client::Network;
use url::Url;

use super::OAuth;
use super::authorizer::Authorizer;
use super::client::{Proof, RegisteredClient};
use super::dial::Dial;
use super::error::{OAuthError, plain};
use super::session::Session;
use super::store::TokenStore;

/// Why a grant in our own name cannot be had.
pub(super) const NO_CLIENT: &str = "client credentials need a client_id and a secret or key";

/// In whose name a server is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grant {
    /// In a person's, who agrees in a browser.
    #[default]
    AuthorizationCode,
    /// In our own, with configured credentials.
    ClientCredentials,
}

/// Sets up an [`OAuth`].
pub struct OAuthBuilder {
    server: String,
    trusted_hosts: Vec<String>,
    network: Option<Box<dyn FnOnce(Dial) -> Dial + Send>>,
    settings: Settings,
}

/// What an authorization goes by.
pub(super) struct Settings {
    pub(super) upstream: String,
    /// What the session begins with.
    pub(super) client: Option<RegisteredClient>,
    pub(super) client_document: Option<String>,
    pub(super) client_name: String,
    pub(super) grant: Grant,
    pub(super) scopes: Vec<String>,
    pub(super) store: TokenStore,
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
}

impl OAuthBuilder {
    pub(super) fn new(upstream: String, server: String) -> OAuthBuilder {
        OAuthBuilder {
            server,
            trusted_hosts: Vec::new(),
            network: None,
            settings: Settings {
                upstream,
                client: None,
                client_document: None,
                client_name: "Lyceum".to_owned(),
                grant: Grant::default(),
                scopes: Vec::new(),
                store: TokenStore::in_memory(),
                authorizer: None,
            },
        }
    }

    /// Credentials that an authorization server gave the operator.
    #[must_use]
    pub fn client(mut self, client: RegisteredClient) -> OAuthBuilder {
        self.settings.client = Some(client);
        self
    }

    /// The https URL of a client metadata document, for authorization servers that take one as a
    /// client id.
    #[must_use]
    pub fn client_document(mut self, url: impl Into<String>) -> OAuthBuilder {
        self.settings.client_document = Some(url.into());
        self
    }

    /// What a consent page calls us after a dynamic registration.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> OAuthBuilder {
        self.settings.client_name = name.into();
        self
    }

    /// In whose name the server is used; a person's, unless told otherwise.
    #[must_use]
    pub fn grant(mut self, grant: Grant) -> OAuthBuilder {
        self.settings.grant = grant;
        self
    }

    /// Scopes to ask for, in place of all the server has.
    #[must_use]
    pub fn scopes(mut self, scopes: Vec<String>) -> OAuthBuilder {
        self.settings.scopes = scopes;
        self
    }

    /// Hosts of authorization servers that may be on a private network or speak plain http. The
    /// upstream's own host always may.
    #[must_use]
    pub fn trusted_hosts(mut self, hosts: Vec<String>) -> OAuthBuilder {
        self.trusted_hosts = hosts;
        self
    }

    /// Where tokens rest; nowhere, unless told.
    #[must_use]
    pub fn store(mut self, store: TokenStore) -> OAuthBuilder {
        self.settings.store = store;
        self
    }

    /// The way to a person. Without one, requests that need a login fail with
    /// [`OAuthError::LoginNeeded`].
    #[must_use]
    pub fn authorizer(mut self, authorizer: impl Authorizer) -> OAuthBuilder {
        self.settings.authorizer = Some(Arc::new(authorizer));
        self
    }

    /// Uses another network.
    #[must_use]
    pub fn network(mut self, network: impl Network + Clone) -> OAuthBuilder {
        self.network = Some(Box::new(|dial| dial.network(network)));
        self
    }

    /// The authorization, with the token of the last run if there is one. Reads a file.
    ///
    /// # Errors
    /// When what was given makes no sense. A store that cannot be read is only logged.
    pub fn build(self) -> Result<OAuth, OAuthError> {
        let setup = |what: String| OAuthError::Setup(what);
        let server = Url::parse(&self.server)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or_else(|| setup(format!("\"{}\" is no http URL", plain(&self.server))))?;
        let proof = self.settings.client.as_ref().map(|client| &client.proof);
        if self.settings.grant == Grant::ClientCredentials
            && !matches!(proof, Some(Proof::Secret(_) | Proof::Key(_)))
        {
            return Err(setup(NO_CLIENT.into()));
        }
        let document = self.settings.client_document.as_deref();
        if document.is_some_and(|url| !url.starts_with("https://")) {
            return Err(setup("the client document must be at an https URL".into()));
        }
        let mut dial = Dial::new(&server, &self.trusted_hosts)?;
        if let Some(network) = self.network {
            dial = network(dial);
        }
        Ok(OAuth(Arc::new(Session::new(self.settings, server, dial))))
    }
}

impl fmt::Debug for OAuthBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthBuilder").field("server", &self.server).finish_non_exhaustive()
    }
}
