//! Token requests: code, refresh token or client credentials in, token out.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use oauth2::basic::{
    BasicClient, BasicErrorResponse, BasicErrorResponseType, BasicTokenResponse, BasicTokenType,
};
use oauth2::{
    AsyncHttpClient, AuthType, AuthorizationCode, ClientId, ClientSecret, EndpointNotSet,
    EndpointSet, HttpRequest, HttpResponse, PkceCodeVerifier, RedirectUrl, RefreshToken,
    RequestTokenError, Scope, TokenResponse, TokenUrl,
};
use url::Url;

use super::assertion::SigningKey;
use super::client::{Identity, Method};
use super::dial::{Dial, answer};
use super::discover::Issuer;
use super::error::{OAuthError, Stale, plain};
use crate::credentials::Secret;

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

type Client =
    BasicClient<EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointSet>;
type Failure = RequestTokenError<OAuthError, BasicErrorResponse>;

/// What an authorization server gave.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    /// Seconds from now.
    pub(super) lifetime: Option<u64>,
}

/// The token endpoint of one issuer, as one client sees it.
pub(super) struct Tokens<'a> {
    endpoint: Endpoint<'a>,
    issuer: &'a Issuer,
    client: Client,
    /// Sent with every request.
    extra: Vec<(&'static str, Cow<'a, str>)>,
}

/// Where requests go.
struct Endpoint<'a> {
    dial: &'a Dial,
    url: &'a Url,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(
        dial: &'a Dial,
        issuer: &'a Issuer,
        identity: &Identity,
        key: Option<&SigningKey>,
        resource: &'a str,
        now: u64,
    ) -> Result<Tokens<'a>, OAuthError> {
        let url = issuer.token()?;
        let mut client = BasicClient::new(ClientId::new(identity.id.clone()))
            .set_token_uri(TokenUrl::from_url(url.clone()));
        let mut extra = vec![("resource", Cow::Borrowed(resource))];
        match (identity.method, &identity.secret, key) {
            (Method::Basic | Method::Post, Some(secret), _) => {
                let basic = identity.method == Method::Basic;
                let kind = if basic { AuthType::BasicAuth } else { AuthType::RequestBody };
                let secret = ClientSecret::new(secret.expose().to_owned());
                client = client.set_auth_type(kind).set_client_secret(secret);
            }
            (Method::PrivateKeyJwt, _, Some(key)) => {
                let assertion = key.assertion(&identity.id, &issuer.name, now)?;
                extra.push(("client_assertion_type", Cow::Borrowed(ASSERTION_TYPE)));
                extra.push(("client_assertion", Cow::Owned(assertion)));
            }
            (Method::None, ..) => client = client.set_auth_type(AuthType::RequestBody),
            _ => return Err(OAuthError::NoClientAuthentication(plain(&issuer.name))),
        }
        Ok(Tokens { endpoint: Endpoint { dial, url }, issuer, client, extra })
    }

    pub(super) async fn for_code(
        &self,
        code: String,
        verifier: PkceCodeVerifier,
        redirect_uri: &str,
    ) -> Result<Granted, OAuthError> {
        let redirect = RedirectUrl::new(redirect_uri.to_owned())
            .map_err(|error| OAuthError::Setup(format!("the redirect URI: {error}")))?;
        let mut request = self
            .client
            .exchange_code(AuthorizationCode::new(code))
            .set_redirect_uri(Cow::Owned(redirect))
            .set_pkce_verifier(verifier);
        for (name, value) in &self.extra {
            request = request.add_extra_param(*name, value.as_ref());
        }
        self.read(request.request_async(&self.endpoint).await)
    }

    pub(super) async fn for_refresh(&self, refresh: &Secret) -> Result<Granted, OAuthError> {
        let refresh = RefreshToken::new(refresh.expose().to_owned());
        let mut request = self.client.exchange_refresh_token(&refresh);
        for (name, value) in &self.extra {
            request = request.add_extra_param(*name, value.as_ref());
        }
        self.read(request.request_async(&self.endpoint).await)
    }

    pub(super) async fn for_client(&self, scopes: &[String]) -> Result<Granted, OAuthError> {
        let mut request = self.client.exchange_client_credentials();
        request = request.add_scopes(scopes.iter().cloned().map(Scope::new));
        for (name, value) in &self.extra {
            request = request.add_extra_param(*name, value.as_ref());
        }
        self.read(request.request_async(&self.endpoint).await)
    }

    fn read(&self, answered: Result<BasicTokenResponse, Failure>) -> Result<Granted, OAuthError> {
        let token = answered.map_err(|failure| self.failed(failure))?;
        if *token.token_type() != BasicTokenType::Bearer {
            return Err(answer(self.endpoint.url, "a token that is not a bearer token"));
        }
        Ok(Granted {
            access: Secret::new(token.access_token().secret()),
            refresh: token.refresh_token().map(|token| Secret::new(token.secret())),
            lifetime: token.expires_in().map(|time| time.as_secs()),
        })
    }

    /// Failures in our own words: the crate's may carry a body, and with it a token.
    fn failed(&self, failure: Failure) -> OAuthError {
        let issuer = plain(&self.issuer.name);
        match failure {
            RequestTokenError::Request(error) => error,
            RequestTokenError::ServerResponse(said) => {
                let reason = plain(&said.to_string());
                match said.error() {
                    BasicErrorResponseType::InvalidGrant => {
                        OAuthError::Stale { issuer, what: Stale::Grant, reason }
                    }
                    BasicErrorResponseType::InvalidClient
                    | BasicErrorResponseType::UnauthorizedClient => {
                        OAuthError::Stale { issuer, what: Stale::Client, reason }
                    }
                    _ => OAuthError::Denied { issuer, reason },
                }
            }
            RequestTokenError::Parse(error, _) => answer(
                self.endpoint.url,
                format!("a token response with a bad \"{}\"", error.path()),
            ),
            RequestTokenError::Other(_) => {
                answer(self.endpoint.url, "something that is no token response")
            }
        }
    }
}

impl<'c> AsyncHttpClient<'c> for Endpoint<'_> {
    type Error = OAuthError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, OAuthError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let response = self.dial.send(self.url, request.map(Bytes::from)).await?;
            Ok(response.map(|body| body.to_vec()))
        })
    }
}
