//! Finding out who gives out tokens for a server, and what they are good for.

use url::Url;

use super::challenge::Challenge;
use super::dial::{Dial, answer};
use super::error::{OAuthError, plain};
use super::metadata::{self, AuthorizationServer, ProtectedResource};

/// What is known about a protected server.
#[derive(Debug)]
pub(super) struct Discovered {
    /// The server's name for itself, to be repeated to the authorization server as it is.
    pub(super) resource: String,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) issuer: Issuer,
}

/// An authorization server, with endpoints that may be asked.
#[derive(Debug)]
pub(super) struct Issuer {
    /// The name in its own metadata, as it is written there.
    pub(super) name: String,
    pub(super) authorize: Option<Url>,
    pub(super) token: Option<Url>,
    pub(super) register: Option<Url>,
    pub(super) scopes: Vec<String>,
    pub(super) has_pkce: bool,
    /// How clients may authenticate, if it says so.
    pub(super) methods: Option<Vec<String>>,
    /// Whether its redirects always say who they are from.
    pub(super) sends_iss: bool,
    /// Whether a URL can be a client id.
    pub(super) takes_documents: bool,
}

/// Asks the server, then the authorization server it names. If it names several, `preferred` is
/// taken if it is among them.
pub(super) async fn discover(
    dial: &Dial,
    server: &Url,
    challenge: &Challenge,
    preferred: Option<&str>,
) -> Result<Discovered, OAuthError> {
    let Some((place, found)) = protected_resource(dial, server, challenge).await? else {
        return without_resource_metadata(dial, server).await;
    };
    let resource = found.resource.unwrap_or_default();
    if !metadata::covers(&resource, server) {
        let (resource, server) = (plain(&resource), metadata::canonical(server));
        return Err(OAuthError::ResourceMismatch { resource, server });
    }
    let named = found.authorization_servers.unwrap_or_default();
    let chosen = named.iter().find(|name| Some(name.as_str()) == preferred).or(named.first());
    let nobody = || OAuthError::NoAuthorizationServer(plain(place.as_str()));
    let name = chosen.ok_or_else(nobody)?;
    let issuer = authorization_server(dial, name).await?.ok_or_else(nobody)?;
    Ok(Discovered { resource, scopes: found.scopes_supported, issuer })
}

/// The authorization server of this name; `None` if it has no metadata.
pub(super) async fn authorization_server(
    dial: &Dial,
    name: &str,
) -> Result<Option<Issuer>, OAuthError> {
    let unfit = || OAuthError::NoAuthorizationServer(plain(name));
    let url = Url::parse(name).map_err(|_| unfit())?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(unfit());
    }
    for place in metadata::server_metadata_urls(&url) {
        if let Some(found) = dial.document::<AuthorizationServer>(&place).await? {
            let issuer = found.issuer.clone().unwrap_or_default();
            if !metadata::is_same_issuer(name, &issuer) {
                let (expected, found) = (plain(name), plain(&issuer));
                return Err(OAuthError::IssuerMismatch { expected, found });
            }
            return Issuer::read(dial, issuer, found, &place).map(Some);
        }
    }
    Ok(None)
}

async fn protected_resource(
    dial: &Dial,
    server: &Url,
    challenge: &Challenge,
) -> Result<Option<(Url, ProtectedResource)>, OAuthError> {
    let told = challenge.resource_metadata.as_deref().and_then(|text| Url::parse(text).ok());
    for place in told.into_iter().chain(metadata::resource_metadata_urls(server)) {
        if let Some(found) = dial.document(&place).await? {
            return Ok(Some((place, found)));
        }
    }
    Ok(None)
}

/// Servers of 2025-03-26 are their own authorization server, with or without metadata.
async fn without_resource_metadata(dial: &Dial, server: &Url) -> Result<Discovered, OAuthError> {
    let origin = server.origin().ascii_serialization();
    let issuer = match authorization_server(dial, &origin).await? {
        Some(issuer) => issuer,
        None => Issuer::at_default_places(origin, server),
    };
    Ok(Discovered { resource: metadata::canonical(server), scopes: None, issuer })
}

impl Issuer {
    fn read(
        dial: &Dial,
        name: String,
        found: AuthorizationServer,
        place: &Url,
    ) -> Result<Issuer, OAuthError> {
        // Judged here as well, because the user's browser goes to one of them, not this process.
        let endpoint = |text: Option<String>| {
            let read = |text: String| {
                let bad = |_| answer(place, format!("with the bad URL \"{}\"", plain(&text)));
                let url = Url::parse(&text).map_err(bad)?;
                dial.judge(&url).map(|_| url)
            };
            text.map(read).transpose()
        };
        let methods = found.code_challenge_methods_supported.unwrap_or_default();
        Ok(Issuer {
            name,
            authorize: endpoint(found.authorization_endpoint)?,
            token: endpoint(found.token_endpoint)?,
            register: endpoint(found.registration_endpoint)?,
            scopes: found.scopes_supported.unwrap_or_default(),
            has_pkce: methods.iter().any(|method| method == "S256"),
            methods: found.token_endpoint_auth_methods_supported,
            sends_iss: found.authorization_response_iss_parameter_supported == Some(true),
            takes_documents: found.client_id_metadata_document_supported == Some(true),
        })
    }

    fn at_default_places(name: String, server: &Url) -> Issuer {
        let at = |path| {
            let mut url = server.clone();
            url.set_path(path);
            url.set_query(None);
            url.set_fragment(None);
            Some(url)
        };
        Issuer {
            name,
            authorize: at("/authorize"),
            token: at("/token"),
            register: at("/register"),
            scopes: Vec::new(),
            // That revision demands it of every server.
            has_pkce: true,
            methods: None,
            sends_iss: false,
            takes_documents: false,
        }
    }

    /// The endpoint for tokens.
    pub(super) fn token(&self) -> Result<&Url, OAuthError> {
        self.token.as_ref().ok_or_else(|| self.lacks("token endpoint"))
    }

    /// The page where users agree, if codes are safe on the way back from there.
    pub(super) fn authorize(&self) -> Result<&Url, OAuthError> {
        if !self.has_pkce {
            return Err(OAuthError::NoPkce(plain(&self.name)));
        }
        self.authorize.as_ref().ok_or_else(|| self.lacks("authorization endpoint"))
    }

    fn lacks(&self, what: &'static str) -> OAuthError {
        OAuthError::NoEndpoint { issuer: plain(&self.name), what }
    }
}
