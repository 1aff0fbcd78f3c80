//! The servers behind this one: set up from the configuration, and again when it changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use lyceum_gateway::lock::Lock;
use lyceum_gateway::oauth::TokenStore;
use lyceum_gateway::process::AllowedCommands;
use lyceum_gateway::{Allow, Door, Gateway, Setting, stack};
use lyceum_http::Sealer;
use tokio::time::{Duration, interval};

use crate::config::{Config, Endpoint, Environment, Settings};

/// What authorization servers gave us, in the data directory.
const TOKENS: &str = "upstream-tokens";
/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Where a configuration came from, so that it can be read again.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) flags: Settings,
    pub(crate) file: Option<PathBuf>,
    pub(crate) environment: Environment,
}

/// The gateway of a configuration. Its upstreams are being connected to from now on.
pub(crate) fn gateway(config: &Config, sealer: &Arc<Sealer>) -> anyhow::Result<Gateway> {
    let gateway = Gateway::new(setting(config, sealer));
    let lockfile = config.lockfile();
    let lock = Lock::load(&lockfile)
        .with_context(|| format!("cannot use the lockfile {}", lockfile.display()))?;
    gateway.set_lock(lock);
    gateway.configure(config.upstreams.clone());
    Ok(gateway)
}

/// What seals everything clients carry for us, and what we keep of authorization servers.
pub(crate) fn sealer(config: &Config) -> anyhow::Result<Arc<Sealer>> {
    let key = config.seal_key();
    let sealer = Sealer::from_file(&key);
    let problem = || format!("cannot use the sealing key {}", key.display());
    Ok(Arc::new(sealer.with_context(problem)?))
}

/// How upstreams are reached.
pub(crate) fn setting(config: &Config, sealer: &Arc<Sealer>) -> Setting {
    Setting {
        name: "lyceum".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        allowed_commands: Arc::new(AllowedCommands::new(&config.allowed_commands)),
        stack: stack::stack(),
        tokens: TokenStore::in_file(config.data.join(TOKENS), Arc::clone(sealer)),
        uri_form: config.uri_form,
    }
}

/// Puts changes of the configuration and of the lockfile into effect, for ever: at SIGHUP, and when
/// a file is another than before. What cannot be used is refused and changes nothing.
pub(crate) async fn follow(
    origin: Origin,
    mut current: Standing,
    gateway: Gateway,
    mut profiles: Vec<Profile>,
) {
    let file = origin.file.clone().or(origin.environment.config_file());
    let mut config = Watched::new(file);
    let mut lockfile = Watched::new(Some(current.lockfile.clone()));
    let mut hangups = Hangups::catch();
    let mut ticks = interval(LOOK);
    loop {
        let told = tokio::select! {
            _ = ticks.tick() => false,
            () = hangups.next() => true,
        };
        if config.has_changed() || told {
            reload(&origin, &mut current, &gateway, &mut profiles);
            lockfile.turn_to(&current.lockfile);
        }
        if lockfile.has_changed() || told {
            match Lock::load(&current.lockfile) {
                Ok(lock) => gateway.set_lock(lock),
                Err(error) => {
                    tracing::error!(%error, "the lockfile cannot be used; the old one counts")
                }
            }
        }
    }
}

/// What the configuration says besides upstreams.
#[derive(Debug)]
pub(crate) struct Standing {
    lockfile: PathBuf,
    allowed_commands: Vec<String>,
    /// What a running server cannot change, by the names of its settings.
    fixed: Vec<(&'static str, String)>,
}

impl Standing {
    pub(crate) fn of(config: &Config) -> Standing {
        Standing {
            lockfile: config.lockfile(),
            allowed_commands: config.allowed_commands.clone(),
            fixed: config.fixed(),
        }
    }
}

/// An endpoint as it is configured, and what answers for it.
pub(crate) struct Profile {
    pub(crate) endpoint: Endpoint,
    pub(crate) handler: Door,
}

impl Profile {
    /// Offers what the endpoint at its path offers by now.
    fn offer(&mut self, endpoints: &[Endpoint]) {
        let now = endpoints.iter().find(|endpoint| endpoint.path == self.endpoint.path);
        if let Some(now) = now.filter(|now| now.tools != self.endpoint.tools) {
            self.endpoint = now.clone();
            self.handler.server().enable_tools(|tool| now.offers(tool));
            self.handler.allow(allowed(now));
            tracing::info!(endpoint = %now.path, "the endpoint offers other tools");
        }
    }
}

/// What an endpoint shows of upstreams.
pub(crate) fn allowed(endpoint: &Endpoint) -> Allow {
    let endpoint = endpoint.clone();
    Arc::new(move |tool| endpoint.offers(tool))
}

fn reload(origin: &Origin, current: &mut Standing, gateway: &Gateway, profiles: &mut [Profile]) {
    let file = origin.file.as_deref();
    match Config::load(origin.flags.clone(), file, &origin.environment) {
        Ok(config) => {
            let Standing { lockfile, allowed_commands, fixed } = Standing::of(&config);
            let changed = fixed.iter().filter(|setting| !current.fixed.contains(setting));
            let changed: Vec<_> = changed.map(|(name, _)| *name).collect();
            if changed.is_empty() {
                profiles.iter_mut().for_each(|profile| profile.offer(&config.endpoints));
            } else {
                // What endpoints offer may be meant for those only who can enter then.
                tracing::warn!(
                    settings = changed.join(", "),
                    "these changed settings wait until the server is restarted, and with them the \
                     tools of endpoints; upstreams, their lockfile and [stdio] take effect at once"
                );
            }
            if allowed_commands != current.allowed_commands {
                gateway.allow_commands(AllowedCommands::new(&allowed_commands));
            }
            (current.lockfile, current.allowed_commands) = (lockfile, allowed_commands);
            tracing::info!(upstreams = config.upstreams.len(), "the configuration was read again");
            gateway.configure(config.upstreams);
        }
        Err(error) => {
            tracing::error!(%error, "the new configuration cannot be used; the old one counts");
        }
    }
}

/// A file that is looked at now and then.
struct Watched {
    path: Option<PathBuf>,
    seen: Option<Looks>,
    /// Nobody has looked at it yet.
    is_new: bool,
}

/// What tells one version of a file from another.
type Looks = (SystemTime, u64);

impl Watched {
    fn new(path: Option<PathBuf>) -> Watched {
        let seen = path.as_deref().and_then(looks);
        Watched { path, seen, is_new: false }
    }

    /// Looks at another file, if it is another one, which counts as a change.
    fn turn_to(&mut self, path: &Path) {
        if self.path.as_deref() != Some(path) {
            (self.path, self.seen, self.is_new) = (Some(path.to_owned()), looks(path), true);
        }
    }

    fn has_changed(&mut self) -> bool {
        let Some(path) = &self.path else { return false };
        let now = looks(path);
        let changed = now != self.seen || std::mem::take(&mut self.is_new);
        self.seen = now;
        changed
    }
}

fn looks(path: &Path) -> Option<Looks> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// SIGHUP, where there is one.
struct Hangups {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    fn catch() -> Hangups {
        #[cfg(unix)]
        return Hangups {
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok(),
        };
        #[cfg(not(unix))]
        Hangups {}
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal {
            signal.recv().await;
            return;
        }
        std::future::pending().await
    }
}
