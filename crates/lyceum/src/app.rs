//! The running server: sockets and tasks, built from a checked configuration.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use hyper::body::Incoming;
use lyceum_gateway::Gateway;
use lyceum_http::{ByteBudgets, Endpoint, Sealer, ServeOptions, Site, serve};
use lyceum_kb::{Indexer, Kb};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::time::{Duration, Instant, interval};

use crate::background::Background;
use crate::behind::{self, Origin, Profile, Standing};
use crate::config::{self, Config, Maintenance};
use crate::keys::{Admission, Gate, KeyRing, PathToken, Refusals};
use crate::knox::{self, Surface};
use crate::observed::Observed;
use crate::rest::{self, Doorkeeper, Rest};
use crate::{knowledge, library, monitoring, open_files};

/// How often an operator who serves strangers is reminded of it.
const REMINDER: Duration = Duration::from_secs(60);

/// A bound server that does not serve yet.
pub(crate) struct App {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) config: Config,
    /// Whether the data directory is new.
    pub(crate) first_start: bool,
    doors: Vec<Door>,
    gateway: Gateway,
    rest: Rest,
    background: Background,
    indexer: Indexer,
}

/// An endpoint and what answers for it.
struct Door {
    configured: config::Endpoint,
    endpoint: Endpoint<lyceum_gateway::Door>,
    handler: lyceum_gateway::Door,
    /// What its path must hold.
    token: Option<Arc<PathToken>>,
    /// Everything else at and below its path.
    knox: Option<Surface>,
}

/// What all doors share.
struct House<'a> {
    config: &'a Config,
    kb: Kb,
    gateway: Gateway,
    sealer: Arc<Sealer>,
    ring: Arc<KeyRing>,
    refusals: Arc<Refusals>,
    budgets: Arc<ByteBudgets>,
}

impl App {
    /// Opens the data directory and binds the address.
    ///
    /// # Errors
    /// When the data directory cannot be used or the address cannot be bound.
    pub(crate) async fn start(config: Config, metrics: PrometheusHandle) -> anyhow::Result<Self> {
        if !config.database().exists() {
            // There can be no key, so a server that would refuse to start leaves nothing behind.
            config.listen(false)?;
        }
        let (kb, embedder) = library::open_watched(&config).await?;
        let ring = Arc::new(KeyRing::load(&kb).await.context("reading the API keys")?);
        let listen = config.listen(ring.has_live())?;
        let first_start = !config.seal_key().exists();
        let sealer = behind::sealer(&config)?;
        let (refusals, lines) = Refusals::new();
        let refusals = Arc::new(refusals);
        let integrity = Arc::default();
        let budgets = Arc::new(ByteBudgets::new(&config.limits));
        let gateway = behind::gateway(&config, &sealer, &budgets)?;
        gateway.reserve(knowledge::reserved());
        let house = House {
            config: &config,
            kb: kb.clone(),
            gateway: gateway.clone(),
            sealer,
            ring: Arc::clone(&ring),
            refusals,
            budgets,
        };
        let doors = house.doors()?;
        let rest = house.rest(&doors, metrics.clone(), embedder, Arc::clone(&integrity));
        let listener = TcpListener::bind(listen).await.with_context(|| {
            format!("cannot listen on {listen}; choose another address with --listen")
        })?;
        let address = listener.local_addr()?;
        let mut background = Background::default();
        if config.is_public() && !config.needs_keys() && !ring.has_any() {
            background.run(remind(address));
        }
        background.run(ring.follow(kb.clone()));
        background.run(monitoring::upkeep(metrics));
        let Maintenance { first_integrity_check, integrity_checks, .. } = config.maintenance;
        let checks = rest::CheckTimes::new(first_integrity_check, integrity_checks);
        background.run(rest::check_integrity(kb.clone(), integrity, checks));
        background.run(rest::watch_store(kb.clone()));
        for token in doors.iter().filter_map(|door| door.token.clone()) {
            background.run(token.follow());
        }
        let about_documents = doors.iter().filter(|door| door.knox.is_none());
        let servers = about_documents.map(|door| door.handler.server().clone()).collect();
        background.run(knowledge::follow(&kb, servers).await?);
        background.run(library::apply_skip_rules(kb.clone()));
        let indexer = Indexer::start_sweeping(kb.clone(), config.maintenance.reindex)?;
        background.finish(Refusals::write(lines, kb));
        Ok(Self {
            listener,
            address,
            config,
            first_start,
            doors,
            gateway,
            rest,
            background,
            indexer,
        })
    }

    /// Reads the configuration again when it changes.
    pub(crate) fn follow(&mut self, origin: Origin) {
        let standing = Standing::of(&self.config);
        let profile = |door: &Door| Profile {
            endpoint: door.configured.clone(),
            handler: door.handler.clone(),
        };
        let profiles = self.doors.iter().map(profile).collect();
        self.background.run(behind::follow(origin, standing, self.gateway.clone(), profiles));
    }

    /// Serves until `shutdown` completes, then lets running calls finish.
    pub(crate) async fn run(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let site = self.site();
        let Self { listener, config, doors, gateway, rest, mut background, indexer, .. } = self;
        let most = config.connections.connections;
        let connections = open_files::connections(open_files::limit(), most);
        let options = ServeOptions { connections, ..config.connections.clone() };
        let stop = async {
            shutdown.await;
            for Door { endpoint, handler, .. } in &doors {
                handler.server().close();
                endpoint.close_streams();
            }
        };
        let served = serve(listener, site, options, stop).await;
        // What hands out work goes first, so that what writes it down can finish.
        background.calm_down().await;
        drop((doors, rest, indexer));
        gateway.close().await;
        background.stop().await;
        served
    }

    /// Every path there is.
    fn site(&self) -> Site<Incoming> {
        let site = self.doors.iter().fold(Site::new(), |site, door| {
            let site = door.open(site);
            match door.configured.http_sse_paths() {
                Some([sse, messages]) => site.http_sse(&sse, door.endpoint.http_sse(messages)),
                None => site,
            }
        });
        let (judge, rest) = (self.rest.clone(), self.rest.clone());
        site.matching(move |path| judge.claims(path), move |request| rest.respond(request))
    }

    /// The address of `path` for a client on this machine.
    pub(crate) fn url(&self, path: &str) -> String {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        format!("http://{address}{path}")
    }
}

impl House<'_> {
    fn doors(&self) -> anyhow::Result<Vec<Door>> {
        let named = self.config.endpoints.iter().filter_map(|endpoint| endpoint.keys.as_ref());
        let live = self.ring.live_names();
        for missing in named.flatten().filter(|name| !live.contains(name)) {
            tracing::warn!(key = missing, "an endpoint names an API key that nobody has");
        }
        self.config.endpoints.iter().map(|endpoint| self.door(endpoint)).collect()
    }

    fn door(&self, endpoint: &config::Endpoint) -> anyhow::Result<Door> {
        let config = self.config;
        let token = endpoint.token.clone().map(|secret| {
            PathToken::load(&endpoint.path, secret, Arc::clone(&self.refusals))
                .with_context(|| format!("cannot use the token of {}", endpoint.path))
        });
        let token = token.transpose()?;
        let admission = || admission(endpoint, token.as_ref());
        let server = match endpoint.is_knox {
            true => knox::server(),
            false => {
                let max_text = config.policy.max_body;
                knowledge::server(&self.kb, max_text, |tool| endpoint.offers(tool))
            }
        };
        let handler = self.gateway.door(server, behind::allowed(endpoint));
        let revocations = revocations(&config.data, &endpoint.path);
        let mut built = Endpoint::builder(endpoint.path.as_str(), handler.clone())
            .dialect(endpoint.dialect)
            .sse(endpoint.sse)
            .explain(endpoint.explain)
            .hosts(config.hosts.clone())
            .origins(config.origins.clone())
            .authenticate(Arc::new(self.gate(admission(), &endpoint.path)))
            .sealer(Arc::clone(&self.sealer))
            .limits(config.limits.clone())
            .budgets(Arc::clone(&self.budgets))
            .revocations(&revocations);
        if endpoint.is_knox {
            let base = &endpoint.path;
            let info = knox::info(base, &handler, &self.gateway);
            built = built.hand_over(knox::messages(base)).info(info);
        }
        let built =
            built.build().with_context(|| format!("cannot use {}", revocations.display()))?;
        let knox = endpoint.is_knox.then(|| {
            let keeper = self.keeper(admission(), &endpoint.path);
            Surface::new(built.clone(), handler.clone(), self.gateway.clone(), keeper)
        });
        Ok(Door { configured: endpoint.clone(), endpoint: built, handler, token, knox })
    }

    /// The HTTP API. A key made for an endpoint stays out of it, unless it is named.
    fn rest(
        &self,
        doors: &[Door],
        metrics: PrometheusHandle,
        embedder: Arc<Observed>,
        integrity: Arc<rest::Integrity>,
    ) -> Rest {
        let config = self.config;
        let bound = config.endpoints.iter().filter_map(|endpoint| endpoint.keys.clone()).flatten();
        let admission = match &config.rest_keys {
            Some(names) => Admission::Only(names.clone()),
            None => Admission::Except(bound.collect()),
        };
        let door = self.keeper(admission, "rest");
        let desk = rest::Desk {
            kb: self.kb.clone(),
            max_text: config.policy.max_body,
            sealer: Arc::clone(&self.sealer),
            metrics,
            embedder,
            integrity,
            gateway: self.gateway.clone(),
            whole: knowledge::server(&self.kb, config.policy.max_body, |_| true),
            profiles: doors.iter().map(profiled).collect(),
            started: Instant::now(),
        };
        Rest::new(desk, door)
    }

    fn keeper(&self, admission: Admission, name: &str) -> Doorkeeper {
        Doorkeeper {
            gate: self.gate(admission, name),
            refusals: Arc::clone(&self.refusals),
            hosts: self.config.hosts.clone(),
            origins: self.config.origins.clone(),
            limits: self.config.limits.clone(),
            budgets: Arc::clone(&self.budgets),
        }
    }

    fn gate(&self, admission: Admission, name: &str) -> Gate {
        let (ring, refusals) = (Arc::clone(&self.ring), Arc::clone(&self.refusals));
        Gate::new(ring, refusals, admission, self.config.needs_keys(), name)
    }
}

impl Door {
    /// Puts the endpoint at its path, or behind its token.
    fn open(&self, site: Site<Incoming>) -> Site<Incoming> {
        let endpoint = self.endpoint.clone();
        if let Some(surface) = &self.knox {
            let (judge, surface) = (surface.clone(), surface.clone());
            return site
                .guarded_by(&endpoint)
                .matching(move |path| judge.claims(path), move |request| surface.respond(request));
        }
        let Some(token) = self.token.clone() else { return site.endpoint(endpoint) };
        let judge = Arc::clone(&token);
        site.guarded_by(&endpoint).matching(
            move |path| judge.admits(path),
            move |mut request| {
                token.conceal(&mut request);
                endpoint.respond(request)
            },
        )
    }
}

fn profiled(door: &Door) -> rest::Profiled {
    rest::Profiled {
        name: door.configured.profile_name().to_owned(),
        path: door.configured.path.clone(),
        dialect: door.configured.dialect.as_str(),
        server: door.handler.server().clone(),
    }
}

fn admission(endpoint: &config::Endpoint, token: Option<&Arc<PathToken>>) -> Admission {
    match (token, &endpoint.keys) {
        (Some(token), _) => Admission::PathToken(Arc::clone(token)),
        (None, Some(names)) => Admission::Only(names.clone()),
        (None, None) => Admission::Any,
    }
}

/// The file that remembers the ended sessions of an endpoint. Paths may hold slashes, names may
/// not; a doubled dash keeps `/a/b` and `/a-b` apart.
fn revocations(data: &Path, path: &str) -> PathBuf {
    data.join(format!("ended{}", path.replace('-', "--").replace('/', "-")))
}

async fn remind(address: SocketAddr) {
    let mut ticks = interval(REMINDER);
    loop {
        ticks.tick().await;
        tracing::warn!(%address, "anyone who can reach this address is served without credentials");
    }
}
