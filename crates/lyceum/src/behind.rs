//! The servers behind this one: set up from the configuration, and again when it changes. So is
//! what endpoints offer, of them and of their own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use lyceum_gateway::lock::Lock;
use lyceum_gateway::oauth::TokenStore;
use lyceum_gateway::process::{AllowedCommands, Limits};
use lyceum_gateway::{Allow, Door, Gateway, Setting, UpstreamConfig, stack};
use lyceum_http::{ByteBudgets, Sealer};
use tokio::time::{Duration, interval};

use crate::config::{Config, Endpoint, Environment, Settings};
use crate::knowledge;
use crate::stop::ReloadSignal;

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
pub(crate) fn gateway(
    config: &Config,
    sealer: &Arc<Sealer>,
    budgets: &ByteBudgets,
) -> anyhow::Result<Gateway> {
    let gateway = Gateway::new(setting(config, sealer, budgets));
    gateway.set_lock(lock(&config.lockfile())?);
    warn_of_unset(&config.upstreams);
    gateway.configure(config.upstreams.clone());
    Ok(gateway)
}

/// Says which variables processes are to inherit and cannot.
fn warn_of_unset(upstreams: &[UpstreamConfig]) {
    for upstream in upstreams {
        let inherited = upstream.env.iter().filter(|entry| !entry.contains('='));
        for variable in inherited.filter(|name| std::env::var_os(name).is_none()) {
            let upstream = &upstream.name;
            tracing::warn!(upstream, variable, "the variable is not set, its process lacks it");
        }
    }
}

/// What a lockfile approves of.
fn lock(file: &Path) -> anyhow::Result<Option<Lock>> {
    let lock = Lock::load(file);
    let lock = lock.with_context(|| format!("cannot use the lockfile {}", file.display()))?;
    if lock.as_ref().is_some_and(Lock::is_partial) {
        tracing::warn!(
            "{} does not cover all that upstreams say about their tools (icons, _meta); approve of \
             the tools as they are with lyceum upstreams lock",
            file.display()
        );
    }
    Ok(lock)
}

/// What seals everything clients carry for us, and what we keep of authorization servers.
pub(crate) fn sealer(config: &Config) -> anyhow::Result<Arc<Sealer>> {
    let key = config.seal_key();
    let sealer = Sealer::from_file(&key);
    let problem = || format!("cannot use the sealing key {}", key.display());
    Ok(Arc::new(sealer.with_context(problem)?))
}

/// How upstreams are reached.
pub(crate) fn setting(config: &Config, sealer: &Arc<Sealer>, budgets: &ByteBudgets) -> Setting {
    Setting {
        name: "lyceum".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        allowed_commands: Arc::new(AllowedCommands::new(&config.allowed_commands)),
        process_limits: config.process_limits.clone(),
        stack: stack::stack(),
        tokens: TokenStore::in_file(config.data.join(TOKENS), Arc::clone(sealer)),
        uri_form: config.uri_form,
        relist: config.maintenance.relist,
        budget: Arc::clone(&budgets.relay),
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
    let mut config = file.map(Watched::new);
    let mut reloads = ReloadSignal::catch();
    let mut ticks = interval(LOOK);
    loop {
        let told = tokio::select! {
            _ = ticks.tick() => false,
            () = reloads.next() => true,
        };
        // The lockfile first, so that what the configuration adds is held against the newest.
        if current.lockfile.has_changed() || told {
            let path = &current.lockfile.path;
            match lock(path) {
                // A file that is lost approves of nothing new.
                Ok(None) if gateway.is_locked() => tracing::error!(
                    "the lockfile {} is gone; what it approved of counts until a restart: restore it, \
                     or restart to do without",
                    path.display()
                ),
                Ok(lock) => gateway.set_lock(lock),
                Err(error) => tracing::error!("{error:#}; the old one counts"),
            }
        }
        let is_other = config.as_mut().is_some_and(Watched::has_changed)
            || current.refused.as_mut().is_some_and(Watched::has_changed);
        if (is_other || told)
            && let Err(error) = reload(&origin, &mut current, &gateway, &mut profiles)
        {
            let error = format!("{error:#}");
            tracing::error!(error, "the new configuration cannot be used; the old one counts");
        }
    }
}

/// What is in force.
#[derive(Debug)]
pub(crate) struct Standing {
    /// The configuration the server was started with. Most of it holds until it ends.
    started: Config,
    lockfile: Watched,
    /// A lockfile that could not be used, and kept a configuration from being used that can.
    refused: Option<Watched>,
    stdio: (Vec<String>, Limits),
}

impl Standing {
    pub(crate) fn of(config: &Config) -> Standing {
        Standing {
            started: config.clone(),
            lockfile: Watched::new(config.lockfile()),
            refused: None,
            stdio: (config.allowed_commands.clone(), config.process_limits.clone()),
        }
    }
}

/// An endpoint, and what answers for it.
pub(crate) struct Profile {
    /// As it was configured when last nothing waited for a restart.
    pub(crate) endpoint: Endpoint,
    pub(crate) handler: Door,
}

impl Profile {
    /// Offers what the endpoint at its path offers by now. While a setting waits for a restart, tools
    /// that were added wait with it, because they may be meant for those only who can enter then;
    /// what was taken away is gone.
    fn offer(&mut self, endpoints: &[Endpoint], waits: bool) {
        let same_path = |endpoint: &&Endpoint| endpoint.path == self.endpoint.path;
        let Some(now) = endpoints.iter().find(same_path) else { return };
        let offered = if waits {
            let (before, now) = (allowed(&self.endpoint), allowed(now));
            Arc::new(move |tool: &str| before(tool) && now(tool))
        } else {
            self.endpoint = now.clone();
            allowed(now)
        };
        if knowledge::offer(self.handler.server(), |tool| offered(tool)) {
            tracing::info!(endpoint = %now.path, "the endpoint offers other tools of its own");
        }
        self.handler.allow(offered);
    }
}

/// What an endpoint shows of upstreams.
pub(crate) fn allowed(endpoint: &Endpoint) -> Allow {
    let endpoint = endpoint.clone();
    Arc::new(move |tool| endpoint.offers(tool))
}

/// Puts the configuration as it is now into effect, as far as a running server can.
///
/// # Errors
/// When it cannot be used, or names a lockfile that cannot. Then nothing has changed.
fn reload(
    origin: &Origin,
    current: &mut Standing,
    gateway: &Gateway,
    profiles: &mut [Profile],
) -> anyhow::Result<()> {
    current.refused = None;
    let file = origin.file.as_deref();
    let mut config = Config::load(origin.flags.clone(), file, &origin.environment)?;
    let waiting = current.started.fixed_but_other_in(&config);
    // The data directory is one of them, and the lockfile may be in it.
    config.data.clone_from(&current.started.data);
    let lockfile = config.lockfile();
    if lockfile != current.lockfile.path {
        let lockfile = Watched::new(lockfile);
        match lock(&lockfile.path) {
            Ok(lock) => gateway.set_lock(lock),
            Err(error) => {
                current.refused = Some(lockfile);
                return Err(error);
            }
        }
        current.lockfile = lockfile;
    }
    if !waiting.is_empty() {
        tracing::warn!(
            settings = waiting.join(", "),
            "these changed settings wait until the server is restarted, and with them the tools \
             endpoints were given; upstreams, their lockfile and [stdio] take effect at once"
        );
    }
    for profile in profiles {
        profile.offer(&config.endpoints, !waiting.is_empty());
    }
    let stdio = (config.allowed_commands, config.process_limits);
    if stdio != current.stdio {
        gateway.allow_processes(AllowedCommands::new(&stdio.0), stdio.1.clone());
        current.stdio = stdio;
    }
    tracing::info!(upstreams = config.upstreams.len(), "the configuration was read again");
    warn_of_unset(&config.upstreams);
    gateway.configure(config.upstreams);
    Ok(())
}

/// A file that is looked at now and then.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    seen: Option<Looks>,
}

/// What tells one version of a file from another.
type Looks = (SystemTime, u64);

impl Watched {
    fn new(path: PathBuf) -> Watched {
        Watched { seen: looks(&path), path }
    }

    fn has_changed(&mut self) -> bool {
        let now = looks(&self.path);
        let changed = now != self.seen;
        self.seen = now;
        changed
    }
}

fn looks(path: &Path) -> Option<Looks> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lockfile_stays_with_the_data_directory_until_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let (file, one) = (dir.path().join("lyceum.toml"), dir.path().join("one"));
        let write = |data: &Path| std::fs::write(&file, format!("data = {data:?}")).unwrap();
        let environment = Environment::made_of(&[]);
        let origin = Origin { flags: Settings::default(), file: Some(file.clone()), environment };
        write(&one);
        let flags = origin.flags.clone();
        let config = Config::load(flags, origin.file.as_deref(), &origin.environment).unwrap();
        std::fs::create_dir(&one).unwrap();
        let budgets = ByteBudgets::new(&config.limits);
        let gateway = gateway(&config, &sealer(&config).unwrap(), &budgets).unwrap();
        let mut standing = Standing::of(&config);
        write(&dir.path().join("other"));
        reload(&origin, &mut standing, &gateway, &mut []).unwrap();
        assert_eq!(standing.lockfile.path, one.join("upstreams.lock"));
    }
}
