//! [`OAuthConfig`]: what an operator says about an upstream's authorization, as plain data.

use std::sync::Arc;

use super::OAuth;
use super::assertion::SigningKey;
use super::client::{Proof, RegisteredClient};
use super::error::OAuthError;
use super::settings::{Grant, NO_CLIENT, OAuthBuilder};
use crate::config::HeaderSource;

/// The authorization of an upstream, as it is configured. The default is that a person logs in and
/// everything else is found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OAuthConfig {
    /// In whose name the server is used.
    pub grant: Grant,
    /// The id of a client that was registered by hand; `None` registers one when needed.
    pub client_id: Option<String>,
    /// Its secret, if it has one.
    pub client_secret: Option<HeaderSource>,
    /// Its private key in PEM, if it signs assertions instead.
    pub client_key: Option<HeaderSource>,
    /// Whose client it is; `None` is the first authorization server the upstream names.
    pub issuer: Option<String>,
    /// The https URL of a client metadata document.
    pub client_document: Option<String>,
    /// Scopes to ask for; none asks for what the server wants.
    pub scopes: Vec<String>,
    /// Hosts of authorization servers on private networks or without TLS.
    pub trusted_hosts: Vec<String>,
}

impl OAuthConfig {
    /// The authorization of this upstream, to be given a store and the way to a person. Reads
    /// secrets from where they are now.
    ///
    /// # Errors
    /// When a secret is not there, or the members do not fit together.
    pub fn builder(
        &self,
        upstream: &str,
        server: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<OAuthBuilder, OAuthError> {
        let mut builder = OAuth::builder(upstream, server)
            .grant(self.grant)
            .scopes(self.scopes.clone())
            .trusted_hosts(self.trusted_hosts.clone());
        if let Some(url) = &self.client_document {
            builder = builder.client_document(url);
        }
        Ok(match self.client(env)? {
            Some(client) => builder.client(client),
            None => builder,
        })
    }

    /// Whether the members fit together, as far as that can be told without secrets.
    ///
    /// # Errors
    /// When they do not.
    pub fn check(&self) -> Result<(), OAuthError> {
        let refused = |why: &str| Err(OAuthError::Setup(why.to_owned()));
        let has_proof = self.client_secret.is_some() || self.client_key.is_some();
        if self.client_secret.is_some() && self.client_key.is_some() {
            return refused("give client_secret or client_key, not both");
        }
        if self.client_id.is_none() && (has_proof || self.issuer.is_some()) {
            return refused(
                "client_secret, client_key and issuer belong to a client_id, which is missing",
            );
        }
        if self.grant == Grant::ClientCredentials && !(self.client_id.is_some() && has_proof) {
            return refused(NO_CLIENT);
        }
        Ok(())
    }

    /// The client that was registered by hand, with its secret as it is now.
    pub(crate) fn client(
        &self,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<RegisteredClient>, OAuthError> {
        self.check()?;
        let proof = self.proof(env)?;
        let with_id = |id: &String| {
            let (id, issuer) = (id.clone(), self.issuer.clone());
            RegisteredClient { id, proof, issuer }
        };
        Ok(self.client_id.as_ref().map(with_id))
    }

    fn proof(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Proof, OAuthError> {
        match (&self.client_secret, &self.client_key) {
            (None, None) => Ok(Proof::None),
            (Some(secret), _) => Ok(Proof::Secret(secret.resolve(env)?)),
            (None, Some(key)) => {
                let key = SigningKey::from_pem(key.resolve(env)?.expose())?;
                Ok(Proof::Key(Arc::new(key)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(edit: impl FnOnce(&mut OAuthConfig), expected: Result<(), &str>) {
        let mut config = OAuthConfig::default();
        edit(&mut config);
        let env = |name: &str| (name == "SECRET").then(|| "hunter2".to_owned());
        let built = config.builder("up", "https://h/mcp", &env).and_then(OAuthBuilder::build);
        match (built, expected) {
            (Ok(_), Ok(())) => {}
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (built, _) => panic!("{config:?}: {built:?}"),
        }
    }

    fn text(value: &str) -> Option<String> {
        Some(value.to_owned())
    }

    #[test]
    fn members_have_to_fit_together() {
        let secret = || Some(HeaderSource::parse("env:SECRET"));
        check(|_| (), Ok(()));
        check(|config| config.client_id = text("c"), Ok(()));
        check(|config| config.client_secret = secret(), Err("client_id, which is missing"));
        check(|config| config.issuer = text("https://as"), Err("client_id, which is missing"));
        check(|config| config.grant = Grant::ClientCredentials, Err("need a client_id"));
        check(|config| config.client_document = text("http://us/c.json"), Err("https URL"));
        check(|config| config.trusted_hosts = vec!["a b".to_owned()], Err("is no host"));
        let with_secret = |config: &mut OAuthConfig| {
            config.client_id = text("c");
            config.client_secret = secret();
            config.grant = Grant::ClientCredentials;
        };
        check(with_secret, Ok(()));
        check(
            |config| {
                with_secret(config);
                config.client_key = secret();
            },
            Err("not both"),
        );
        check(
            |config| {
                config.client_id = text("c");
                config.client_key = secret();
            },
            Err("PKCS #8"),
        );
        check(
            |config| {
                with_secret(config);
                config.client_secret = Some(HeaderSource::parse("env:OTHER"));
            },
            Err("cannot be read"),
        );
    }
}
