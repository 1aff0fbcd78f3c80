//! Who we are to an authorization server: configured credentials, a document, or a registration.
//!
//! An identity belongs to the issuer it was made for and is never shown to another.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};

use super::assertion::SigningKey;
use super::dial::{Dial, answer};
use super::discover::Issuer;
use super::error::{OAuthError, plain};
use super::exposed;
use crate::credentials::Secret;

/// Credentials the operator got from an authorization server.
#[derive(Clone, Debug)]
pub struct RegisteredClient {
    /// The client id.
    pub id: String,
    /// How the client proves who it is.
    pub proof: Proof,
    /// Whose credentials they are. Without it they are for the first authorization server the
    /// upstream names, and for no other after that.
    pub issuer: Option<String>,
}

/// How a client proves who it is.
#[derive(Clone, Debug)]
pub enum Proof {
    /// Not at all: a public client.
    None,
    /// By a shared secret.
    Secret(Secret),
    /// By signing assertions (`private_key_jwt`).
    Key(Arc<SigningKey>),
}

/// A client as one authorization server knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) id: String,
    #[serde(with = "exposed::optional", default)]
    pub(super) secret: Option<Secret>,
    pub(super) method: Method,
    /// When the secret ends, in seconds of the epoch.
    #[serde(default)]
    pub(super) ends: Option<u64>,
    /// Where it was registered to be redirected to; `None` if it was not registered by us.
    #[serde(default)]
    pub(super) redirect_uri: Option<String>,
}

/// How token requests are authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Method {
    None,
    Basic,
    Post,
    PrivateKeyJwt,
}

impl Method {
    const ALL: [(Method, &str); 4] = [
        (Method::Basic, "client_secret_basic"),
        (Method::Post, "client_secret_post"),
        (Method::None, "none"),
        (Method::PrivateKeyJwt, "private_key_jwt"),
    ];

    fn name(self) -> &'static str {
        Method::ALL.iter().find(|(method, _)| *method == self).expect("all are listed").1
    }

    fn of(name: &str) -> Option<Method> {
        Method::ALL.iter().find(|(_, known)| *known == name).map(|(method, _)| *method)
    }

    /// The first of `able` the issuer takes. What an issuer takes that does not say so is
    /// `client_secret_basic` by RFC 8414, and `none` by everybody's practice with public clients.
    fn choose(issuer: &Issuer, able: &[Method]) -> Option<Method> {
        let taken = |method: &Method| match &issuer.methods {
            Some(taken) => taken.iter().any(|name| name == method.name()),
            None => *method != Method::PrivateKeyJwt,
        };
        able.iter().copied().find(taken)
    }
}

impl RegisteredClient {
    /// This client as `issuer` knows it.
    pub(super) fn at(&self, issuer: &Issuer) -> Result<Identity, OAuthError> {
        let (able, secret): (&[Method], _) = match &self.proof {
            Proof::None => (&[Method::None], None),
            Proof::Secret(secret) => (&[Method::Basic, Method::Post], Some(secret.clone())),
            Proof::Key(_) => (&[Method::PrivateKeyJwt], None),
        };
        // A key is configured because this very server takes it, whatever its metadata leaves out.
        let method = match (Method::choose(issuer, able), &issuer.methods) {
            (Some(method), _) => method,
            (None, None) => able[0],
            (None, Some(_)) => {
                return Err(OAuthError::NoClientAuthentication(plain(&issuer.name)));
            }
        };
        Ok(Identity { id: self.id.clone(), secret, method, ends: None, redirect_uri: None })
    }
}

/// A client whose id is the URL of a document about it.
pub(super) fn document(url: &str) -> Identity {
    let id = url.to_owned();
    Identity { id, secret: None, method: Method::None, ends: None, redirect_uri: None }
}

/// What a client tells about itself when it registers.
#[derive(Serialize)]
struct Introduction<'a> {
    client_name: &'a str,
    redirect_uris: [&'a str; 1],
    grant_types: [&'a str; 2],
    response_types: [&'a str; 1],
    token_endpoint_auth_method: &'a str,
    /// Redirects go to this machine, so whatever starts us, we are a native application.
    application_type: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    scope: &'a str,
}

#[derive(Deserialize)]
struct Registration {
    client_id: String,
    client_secret: Option<String>,
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: Option<String>,
}

/// Registers a client dynamically (RFC 7591).
pub(super) async fn register(
    dial: &Dial,
    issuer: &Issuer,
    client_name: &str,
    redirect_uri: &str,
    scopes: &[String],
) -> Result<Identity, OAuthError> {
    let nowhere = || OAuthError::NoRegistration(plain(&issuer.name));
    let url = issuer.register.as_ref().ok_or_else(nowhere)?;
    // A native application keeps no secrets, unless the server insists.
    let wanted = Method::choose(issuer, &[Method::None, Method::Basic, Method::Post]);
    let wanted = wanted.ok_or_else(|| OAuthError::NoClientAuthentication(plain(&issuer.name)))?;
    let scope = scopes.join(" ");
    let mut introduction = Introduction {
        client_name,
        redirect_uris: [redirect_uri],
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: wanted.name(),
        application_type: "native",
        scope: &scope,
    };
    let mut response = dial.post(url, &introduction).await?;
    // Some want to hear the scopes here, others know none but their own: those of servers they give
    // out tokens for are settled when somebody logs in.
    if !scope.is_empty() && is_about_metadata(&response) {
        introduction.scope = "";
        response = dial.post(url, &introduction).await?;
    }
    if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) {
        return Err(nowhere());
    }
    if !response.status().is_success() {
        let said = plain(&String::from_utf8_lossy(response.body()));
        return Err(answer(url, format!("HTTP {} to a registration: {said}", response.status())));
    }
    // The answer holds a secret, so it is not quoted.
    let registration: Registration = serde_json::from_slice(response.body())
        .map_err(|_| answer(url, "a registration that cannot be read"))?;
    let told = registration.token_endpoint_auth_method.as_deref().and_then(Method::of);
    Ok(Identity {
        id: registration.client_id,
        method: told.unwrap_or(wanted),
        secret: registration.client_secret.map(Secret::new),
        ends: registration.client_secret_expires_at.filter(|at| *at != 0),
        redirect_uri: Some(redirect_uri.to_owned()),
    })
}

/// Whether a registration was refused because of what it says.
fn is_about_metadata(response: &Response<Bytes>) -> bool {
    #[derive(Deserialize)]
    struct Said {
        error: String,
    }
    let said = serde_json::from_slice::<Said>(response.body());
    response.status() == StatusCode::BAD_REQUEST
        && said.is_ok_and(|said| said.error == "invalid_client_metadata")
}

impl Identity {
    /// Whether this registration still serves for a login that ends at `redirect_uri`.
    pub(super) fn serves(&self, redirect_uri: &str, now: u64) -> bool {
        let lives = self.ends.is_none_or(|ends| now + 60 < ends);
        lives && self.redirect_uri.as_deref() == Some(redirect_uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer(methods: Option<&[&str]>) -> Issuer {
        Issuer {
            name: "https://as".to_owned(),
            authorize: None,
            token: None,
            register: None,
            scopes: Vec::new(),
            has_pkce: true,
            methods: methods.map(|names| names.iter().map(|&name| name.to_owned()).collect()),
            sends_iss: false,
            takes_documents: false,
        }
    }

    #[test]
    fn a_client_authenticates_as_the_issuer_wants_and_the_client_can() {
        let secret = Proof::Secret(Secret::new("s"));
        let check = |proof: &Proof, methods: Option<&[&str]>, expected: Option<Method>| {
            let proof = proof.clone();
            let client = RegisteredClient { id: "c".to_owned(), proof, issuer: None };
            let found = client.at(&issuer(methods)).ok().map(|identity| identity.method);
            assert_eq!(found, expected, "{client:?} {methods:?}");
        };
        check(&secret, None, Some(Method::Basic));
        check(&secret, Some(&["client_secret_post"]), Some(Method::Post));
        check(&secret, Some(&["none", "client_secret_post"]), Some(Method::Post));
        check(&secret, Some(&["private_key_jwt"]), None);
        check(&Proof::None, None, Some(Method::None));
        check(&Proof::None, Some(&["none"]), Some(Method::None));
        check(&Proof::None, Some(&["client_secret_basic"]), None);
    }

    #[test]
    fn a_registration_serves_its_redirect_until_its_secret_ends() {
        let mut identity = document("https://us/client.json");
        identity.redirect_uri = Some("http://127.0.0.1:1/callback".to_owned());
        identity.ends = Some(1000);
        assert!(identity.serves("http://127.0.0.1:1/callback", 900));
        assert!(!identity.serves("http://127.0.0.1:2/callback", 900));
        assert!(!identity.serves("http://127.0.0.1:1/callback", 990));
    }

    #[test]
    fn secrets_do_not_show() {
        let proof = Proof::Secret(Secret::new("hunter2"));
        let client = RegisteredClient { id: "c".to_owned(), proof, issuer: None };
        let identity = client.at(&issuer(None)).unwrap();
        assert!(!format!("{client:?} {identity:?}").contains("hunter2"));
    }
}
