//! Which model embeds, and how it is reached.

use crate::config::environment::Environment;
use crate::config::error::ConfigError;
use crate::config::given::Given;
use crate::config::required;
use crate::config::secret::Secret;
use crate::config::settings::EmbeddingSettings;
use crate::config::values::EmbeddingKind;

/// The model texts are embedded with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Embeddings {
    /// The one compiled in.
    Static,
    /// One behind an OpenAI-compatible service.
    OpenAi(OpenAi),
}

/// An OpenAI-compatible embedding service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenAi {
    /// The base address, such as `https://api.openai.com/v1`.
    pub(crate) url: String,
    pub(crate) model: String,
    /// The length of vectors to ask for; `None` leaves it to the model.
    pub(crate) dimensions: Option<u32>,
    pub(crate) key: Option<Secret>,
}

/// Refuses a service that is not described in full, and a description nobody asked for.
pub(crate) fn check(
    settings: EmbeddingSettings,
    environment: &Environment,
) -> Result<Embeddings, ConfigError> {
    let kind = required(settings.kind);
    let names = ["key_env", "key_file"];
    let key = Secret::given(settings.key_env, settings.key_file, names, environment)?;
    match kind.value {
        EmbeddingKind::Static => {
            let stray =
                [settings.url.map(|url| url.source), settings.model.map(|model| model.source)];
            match stray.into_iter().flatten().next() {
                Some(source) => Err(ConfigError::at(
                    &source,
                    "the static model needs no url and no model; write kind = \"openai\" to use them",
                )),
                None => Ok(Embeddings::Static),
            }
        }
        EmbeddingKind::OpenAi => {
            let missing = |what: &str| {
                ConfigError::at(&kind.source, format!("kind = \"openai\" needs {what} as well"))
            };
            let url = settings
                .url
                .ok_or_else(|| missing("url, such as \"https://api.openai.com/v1\","))?;
            let model = settings.model.ok_or_else(|| missing("model"))?;
            Ok(Embeddings::OpenAi(OpenAi {
                url: check_url(url)?,
                model: model.value,
                dimensions: settings.dimensions.map(|given| given.value.get()),
                key,
            }))
        }
    }
}

/// An address without credentials in it: those would end up in logs.
fn check_url(url: Given<String>) -> Result<String, ConfigError> {
    let parsed: Option<http::Uri> = url.value.parse().ok();
    let good = parsed.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
    });
    match good {
        true => Ok(url.value.trim_end_matches('/').to_owned()),
        false => Err(ConfigError::at(
            &url.source,
            "url must be http://HOST… or https://HOST… without a user in it; give the key with \
             key_env or key_file",
        )),
    }
}
