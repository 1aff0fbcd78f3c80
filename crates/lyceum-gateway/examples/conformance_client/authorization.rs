//! How the client under test is authorized: what the suite hands over in its context, and a person
//! who agrees to everything at once.

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::LOCATION;
use http::{Request, Uri};
use lyceum_gateway::credentials::Secret;
use lyceum_gateway::oauth::{Authorizer, Grant, OAuth, Proof, RegisteredClient, SigningKey, Visit};
use lyceum_http::client::{BoxError, Policy, SafeDialer};
use serde::Deserialize;

/// The id that the suite wants to see from clients with a metadata document.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
/// Nobody listens there: the redirect is read, not followed.
const REDIRECT_URI: &str = "http://127.0.0.1:3000/callback";

/// What the suite says about a client it knows.
#[derive(Default, Deserialize)]
struct Context {
    client_id: Option<String>,
    client_secret: Option<String>,
    private_key_pem: Option<String>,
    issuer: Option<String>,
}

/// The authorization of a scenario; those that need none never ask for it.
pub(crate) fn oauth(scenario: &str, context: &str, url: &str) -> Result<OAuth, Box<dyn Error>> {
    let mut builder = OAuth::builder("conformance", url)
        .client_name("Lyceum conformance client")
        .authorizer(Agreeable);
    if scenario == "auth/basic-cimd" {
        builder = builder.client_document(CLIENT_DOCUMENT);
    }
    if scenario.starts_with("auth/client-credentials") {
        builder = builder.grant(Grant::ClientCredentials);
    }
    let context: Context = serde_json::from_str(context).unwrap_or_default();
    if let Some(id) = context.client_id {
        let proof = match (context.client_secret, context.private_key_pem) {
            (Some(secret), _) => Proof::Secret(Secret::new(secret)),
            (None, Some(pem)) => Proof::Key(Arc::new(SigningKey::from_pem(&pem)?)),
            (None, None) => Proof::None,
        };
        builder = builder.client(RegisteredClient { id, proof, issuer: context.issuer });
    }
    Ok(builder.build()?)
}

/// Agrees to whatever an authorization page asks.
struct Agreeable;

#[async_trait]
impl Authorizer for Agreeable {
    async fn open(&self) -> Result<Box<dyn Visit>, BoxError> {
        Ok(Box::new(Agreeable))
    }
}

#[async_trait]
impl Visit for Agreeable {
    fn redirect_uri(&self) -> &str {
        REDIRECT_URI
    }

    async fn go(self: Box<Self>, url: &str, _: &str) -> Result<String, BoxError> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = Uri::try_from(url)?;
        let response = SafeDialer::new(Policy::Anywhere).send(request).await?;
        let location = response.headers().get(LOCATION).ok_or("the page does not redirect")?;
        let query =
            location.to_str()?.strip_prefix(REDIRECT_URI).and_then(|at| at.strip_prefix('?'));
        Ok(query.ok_or("the page redirects elsewhere")?.to_owned())
    }
}
