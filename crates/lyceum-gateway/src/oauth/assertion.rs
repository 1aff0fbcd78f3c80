//! [`SigningKey`]: assertions a client signs to prove who it is (RFC 7523, `private_key_jwt`).

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::json;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use super::error::OAuthError;

/// How long an assertion may be on its way.
const LIFETIME: u64 = 300;

/// A private key of the operator: P-256 (ES256) or RSA (RS256).
pub struct SigningKey {
    key: Key,
    random: SystemRandom,
}

enum Key {
    P256(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
}

impl SigningKey {
    /// Reads a PKCS #8 private key in PEM.
    pub fn from_pem(pem: &str) -> Result<SigningKey, OAuthError> {
        let unfit = || OAuthError::Setup("the key is not a P-256 or RSA key in PKCS #8 PEM".into());
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| unfit())?;
        let der = der.secret_pkcs8_der();
        let random = SystemRandom::new();
        let p256 = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random);
        let key = match p256 {
            Ok(pair) => Key::P256(Box::new(pair)),
            Err(_) => Key::Rsa(Box::new(RsaKeyPair::from_pkcs8(der).map_err(|_| unfit())?)),
        };
        Ok(SigningKey { key, random })
    }

    /// An assertion that we are `client`, for `issuer` only.
    pub(super) fn assertion(
        &self,
        client: &str,
        issuer: &str,
        now: u64,
    ) -> Result<String, OAuthError> {
        let algorithm = match self.key {
            Key::P256(_) => "ES256",
            Key::Rsa(_) => "RS256",
        };
        let id = URL_SAFE_NO_PAD.encode(lyceum_http::random::<16>());
        let claims = json!({
            "iss": client, "sub": client, "aud": issuer, "jti": id,
            "iat": now, "exp": now + LIFETIME,
        });
        let header = json!({ "alg": algorithm, "typ": "JWT" });
        let encode = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = self.sign(signed.as_bytes())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, OAuthError> {
        let failed = |_| OAuthError::Setup("the key cannot sign".to_owned());
        match &self.key {
            Key::P256(pair) => {
                let signature = pair.sign(&self.random, text).map_err(failed)?;
                Ok(signature.as_ref().to_vec())
            }
            Key::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &self.random, text, &mut signature).map_err(failed)?;
                Ok(signature)
            }
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}
