//! The configuration: plain data, checked in full before a port is bound.
//!
//! Four layers, each covering the one before: built-in defaults, the file, the environment, the
//! command line. Reading them is `document`'s and `environment`'s business, judging them is this
//! file's and `endpoint`'s; nothing here opens a socket or creates a file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use lyceum_gateway::UpstreamConfig;
use lyceum_gateway::glob::Filter;
use lyceum_gateway::names::UriForm;
use lyceum_gateway::process;
use lyceum_http::guard::{HostPolicy, OriginPolicy};
use lyceum_http::{Limits, ServeOptions};
use lyceum_kb::Policy;
use tracing_subscriber::EnvFilter;

mod document;
mod embeddings;
mod endpoint;
mod environment;
mod error;
mod exposure;
mod given;
mod keys;
mod limits;
mod profile;
mod reference;
mod secret;
mod settings;
#[cfg(test)]
mod tests;
mod upstream;
mod values;

pub(crate) use embeddings::{Embeddings, OpenAi};
pub(crate) use endpoint::Endpoint;
pub(crate) use environment::Environment;
pub(crate) use error::ConfigError;
pub(crate) use given::Given;
pub(crate) use limits::Maintenance;
pub(crate) use profile::Profile;
pub(crate) use reference::reference;
pub(crate) use secret::Secret;
pub(crate) use settings::Settings;
pub(crate) use values::{DialectName, StoreKind};

use endpoint::Surroundings;
use exposure::Exposure;
use given::Layer;
use settings::{DocumentSettings, IndexSettings};
use values::{Listen, Preset};

/// Everything a server needs to know before it starts.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    listen: Given<Listen>,
    /// What lets other machines in, if anything does.
    exposure: Option<Exposure>,
    /// Whether the operator accepts that strangers are served.
    open_to_all: bool,
    pub(crate) data: PathBuf,
    pub(crate) hosts: HostPolicy,
    pub(crate) origins: OriginPolicy,
    pub(crate) log: String,
    pub(crate) store: StoreKind,
    pub(crate) embeddings: Embeddings,
    /// What documents may be, and which are embedded.
    pub(crate) policy: Policy,
    /// The names of the keys that may use the HTTP API; `None` means those no endpoint names.
    pub(crate) rest_keys: Option<Vec<String>>,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) upstreams: Vec<UpstreamConfig>,
    lockfile: Option<PathBuf>,
    /// How clients know the URIs of upstreams.
    pub(crate) uri_form: UriForm,
    /// Programs that may be started as upstreams; all if it is empty.
    pub(crate) allowed_commands: Vec<String>,
    /// What each of them may use.
    pub(crate) process_limits: process::Limits,
    pub(crate) limits: Limits,
    pub(crate) connections: ServeOptions,
    pub(crate) maintenance: Maintenance,
}

impl Config {
    /// The names of the settings that `other` has otherwise and that a running server cannot change.
    pub(crate) fn fixed_but_other_in(&self, other: &Self) -> Vec<&'static str> {
        let without_tools =
            |endpoint: &Endpoint| Endpoint { tools: Filter::default(), ..endpoint.clone() };
        let endpoints = |config: &Self| -> Vec<Endpoint> {
            config.endpoints.iter().map(without_tools).collect()
        };
        let rules = |config: &Self| (config.policy.max_body, config.policy.skip_prefixes.clone());
        let intervals = |config: &Self| (config.maintenance.clone(), config.policy.answers_kept);
        // The values themselves are compared, secrets too, not what may be shown of them.
        let same = [
            ("listen", self.listen.value == other.listen.value),
            ("i_know_unauthenticated", self.open_to_all == other.open_to_all),
            ("data", self.data == other.data),
            ("hosts", self.hosts == other.hosts),
            ("origins", self.origins == other.origins),
            ("log", self.log == other.log),
            ("store", self.store == other.store),
            ("embeddings", self.embeddings == other.embeddings),
            ("documents, index", rules(self) == rules(other)),
            ("rest", self.rest_keys == other.rest_keys),
            ("endpoint", endpoints(self) == endpoints(other)),
            ("preset", self.uri_form == other.uri_form),
            ("limits", self.limits == other.limits && self.connections == other.connections),
            ("maintenance", intervals(self) == intervals(other)),
        ];
        same.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }

    /// Reads all layers and checks the result.
    pub(crate) fn load(
        flags: Settings,
        file: Option<&Path>,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        let mut settings = document::defaults();
        if let Some(path) = file.map(Path::to_owned).or(environment.config_file()) {
            settings.cover(document::file(&path)?);
        }
        settings.cover(environment.settings()?);
        settings.cover(flags);
        Self::check(settings, environment)
    }

    fn check(settings: Settings, environment: &Environment) -> Result<Self, ConfigError> {
        let listen = required(settings.listen);
        let (host_list, origin_list) = (required(settings.hosts), required(settings.origins));
        let hosts = hosts(listen.value.0, &host_list)?;
        let origins = origins(&origin_list)?;
        let exposure = Exposure::find(&listen, (&host_list, &hosts), (&origin_list, &origins));
        let preset = settings.preset.map(|preset| preset.value);
        let knox_prefix = required(settings.knox.prefix);
        let around = Surroundings {
            preset: preset.map(Preset::dialect),
            knox: preset.filter(|preset| *preset == Preset::Knox).map(|_| &knox_prefix),
            sse: required(settings.sse).value,
            public: exposure.is_some(),
            environment,
        };
        let (maintenance, answers_kept) = limits::maintenance(settings.maintenance);
        let policy = Policy { answers_kept, ..policy(settings.documents, settings.index, preset) };
        let (limits, connections) = limits::check(settings.limits, policy.max_body)?;
        Ok(Self {
            open_to_all: required(settings.i_know_unauthenticated).value,
            data: data(settings.data, environment)?,
            hosts,
            origins,
            log: log(required(settings.log))?,
            store: required(settings.store).value,
            embeddings: embeddings::check(settings.embeddings, environment)?,
            policy,
            rest_keys: settings.rest.keys.map(|given| given.value),
            endpoints: endpoint::check(settings.endpoint, &around)?,
            upstreams: upstream::check(settings.upstream)?,
            lockfile: settings.lockfile.map(|given| given.value),
            uri_form: if around.knox.is_some() { UriForm::Dot } else { UriForm::Plus },
            process_limits: limits::processes(&settings.stdio),
            allowed_commands: settings
                .stdio
                .allowed_commands
                .map(|given| given.value)
                .unwrap_or_default(),
            listen,
            exposure,
            limits,
            connections,
            maintenance,
        })
    }

    /// The address to listen on, unless it would let strangers in and nobody accepted that:
    /// `guarded` says whether there is a key to ask them for.
    pub(crate) fn listen(&self, guarded: bool) -> Result<SocketAddr, ConfigError> {
        match &self.exposure {
            Some(exposure) if !self.open_to_all && !guarded => Err(exposure.refusal()),
            _ => Ok(self.listen.value.0),
        }
    }

    /// Whether callers need a key even before the first one is made.
    pub(crate) fn needs_keys(&self) -> bool {
        self.is_public() && !self.open_to_all
    }

    /// Whether other machines can reach the server, be it through a proxy.
    pub(crate) fn is_public(&self) -> bool {
        self.exposure.is_some()
    }

    /// The file with the approved definitions of upstreams' tools.
    pub(crate) fn lockfile(&self) -> PathBuf {
        self.lockfile.clone().unwrap_or_else(|| self.data.join("upstreams.lock"))
    }

    /// The file with the sealing keys.
    pub(crate) fn seal_key(&self) -> PathBuf {
        self.data.join("seal.key")
    }

    /// The file with the knowledge.
    pub(crate) fn database(&self) -> PathBuf {
        self.data.join("knowledge.db")
    }
}

fn policy(documents: DocumentSettings, index: IndexSettings, preset: Option<Preset>) -> Policy {
    let skipped = preset.map_or(&[][..], Preset::skip_prefixes);
    Policy {
        max_body: required(documents.max_bytes).value.get() as usize,
        skip_prefixes: match index.skip_prefixes {
            Some(given) => given.value,
            None => skipped.iter().map(|&prefix| prefix.to_owned()).collect(),
        },
        ..Policy::default()
    }
}

/// Unwraps a setting the defaults give.
fn required<T>(setting: Option<Given<T>>) -> Given<T> {
    setting.expect("defaults.toml has this key")
}

fn data(data: Option<Given<PathBuf>>, environment: &Environment) -> Result<PathBuf, ConfigError> {
    match data {
        Some(given) if given.value.as_os_str().is_empty() => {
            Err(ConfigError::at(&given.source, "data is empty; name a directory"))
        }
        Some(given) => Ok(given.value),
        None => environment.data_home().ok_or_else(|| {
            ConfigError::new("there is no home directory to keep data in; name one with --data DIR")
        }),
    }
}

fn hosts(listen: SocketAddr, hosts: &Given<Vec<String>>) -> Result<HostPolicy, ConfigError> {
    let mut policy = HostPolicy::for_bind(listen);
    for host in &hosts.value {
        policy.allow(host).map_err(|error| ConfigError::at(&hosts.source, error.to_string()))?;
    }
    Ok(policy)
}

fn origins(origins: &Given<Vec<String>>) -> Result<OriginPolicy, ConfigError> {
    let mut policy = OriginPolicy::loopback();
    for origin in &origins.value {
        policy
            .allow(origin)
            .map_err(|error| ConfigError::at(&origins.source, error.to_string()))?;
    }
    Ok(policy)
}

fn log(log: Given<String>) -> Result<String, ConfigError> {
    match EnvFilter::try_new(&log.value) {
        Ok(_) => Ok(log.value),
        Err(_) => Err(ConfigError::at(
            &log.source,
            format!(
                "{:?} is no log filter; write error, warn, info, debug or trace, or a list such as \
                 info,lyceum_http=debug",
                log.value
            ),
        )),
    }
}
