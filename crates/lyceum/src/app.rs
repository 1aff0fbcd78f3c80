//! The running server: sockets and tasks, built from a checked configuration.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use hyper::body::Incoming;
use lyceum_http::{Endpoint, Sealer, ServeOptions, Site, serve};
use lyceum_server::Server;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::time::{Duration, Instant, interval};

use crate::config::{self, Config};
use crate::{demo, monitoring};

/// Where 2024-11-05 clients open their stream, and where they send.
const SSE: &str = "/sse";
const MESSAGES: &str = "/messages";
/// The file with the sealing keys, in the data directory.
const SEAL_KEY: &str = "seal.key";
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
    metrics: PrometheusHandle,
}

/// An endpoint and the server behind it.
struct Door {
    endpoint: Endpoint<Server>,
    server: Server,
}

impl App {
    /// Opens the data directory and binds the address.
    ///
    /// # Errors
    /// When the data directory cannot be used or the address cannot be bound.
    pub(crate) async fn start(config: Config, metrics: PrometheusHandle) -> anyhow::Result<Self> {
        let listen = config.listen(false)?;
        create_private(&config.data).with_context(|| {
            format!("cannot create the data directory {}", config.data.display())
        })?;
        let key = config.data.join(SEAL_KEY);
        let first_start = !key.exists();
        let sealer = Sealer::from_file(&key)
            .with_context(|| format!("cannot use the sealing key {}", key.display()))?;
        let doors = doors(&config, Arc::new(sealer))?;
        let listener = TcpListener::bind(listen).await.with_context(|| {
            format!("cannot listen on {listen}; choose another address with --listen")
        })?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, config, first_start, doors, metrics })
    }

    /// Serves until `shutdown` completes, then lets running calls finish.
    pub(crate) async fn run(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let site = self.site();
        let Self { listener, address, config, doors, metrics, .. } = self;
        let reminder = config.is_public().then(|| tokio::spawn(remind(address)));
        let upkeep = tokio::spawn(monitoring::upkeep(metrics));
        let options = ServeOptions { drain: config.drain, ..ServeOptions::default() };
        let stop = async {
            shutdown.await;
            for Door { endpoint, server } in &doors {
                server.close();
                endpoint.close_streams();
            }
        };
        let served = serve(listener, site, options, stop).await;
        upkeep.abort();
        if let Some(reminder) = reminder {
            reminder.abort();
        }
        served
    }

    /// Every path there is.
    fn site(&self) -> Site<Incoming> {
        let Config { hosts, origins, .. } = &self.config;
        let metrics = monitoring::metrics(self.metrics.clone(), hosts.clone(), origins.clone());
        let site = Site::new()
            .handle("/health", monitoring::health(Instant::now()))
            .handle("/metrics", metrics);
        let configured = self.config.endpoints.iter().zip(&self.doors);
        configured.fold(site, |site, (config, Door { endpoint, .. })| {
            let site = site.endpoint(endpoint.clone());
            if config.http_sse { site.http_sse(SSE, endpoint.http_sse(MESSAGES)) } else { site }
        })
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

fn doors(config: &Config, sealer: Arc<Sealer>) -> anyhow::Result<Vec<Door>> {
    let build = |endpoint: &config::Endpoint| {
        let server = demo::server(|tool| endpoint.offers(tool));
        let revocations = revocations(&config.data, &endpoint.path);
        let endpoint = Endpoint::builder(endpoint.path.as_str(), server.clone())
            .dialect(endpoint.dialect)
            .sse(endpoint.sse)
            .explain(endpoint.explain)
            .hosts(config.hosts.clone())
            .origins(config.origins.clone())
            .sealer(Arc::clone(&sealer))
            .limits(config.limits.clone())
            .revocations(&revocations)
            .build()
            .with_context(|| format!("cannot use {}", revocations.display()))?;
        Ok(Door { endpoint, server })
    };
    config.endpoints.iter().map(build).collect()
}

/// The file that remembers the ended sessions of an endpoint. Paths may hold slashes, names may
/// not; a doubled dash keeps `/a/b` and `/a-b` apart.
fn revocations(data: &Path, path: &str) -> PathBuf {
    data.join(format!("ended{}", path.replace('-', "--").replace('/', "-")))
}

fn create_private(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

async fn remind(address: SocketAddr) {
    let mut ticks = interval(REMINDER);
    loop {
        ticks.tick().await;
        tracing::warn!(%address, "anyone who can reach this address is served without credentials");
    }
}
