//! [`Gateway`]: all upstreams, and the endpoints that show them.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use lyceum_server::Server;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::catalogue::{Catalogue, public_uri};
use crate::config::UpstreamConfig;
use crate::door::Door;
use crate::relay::Held;
use crate::routes::{Allow, Routes};
use crate::upstream::{Audience, Health, Setting, Status, Upstream, supervise};

/// Other servers, shown at any number of endpoints. Cheap to clone; all clones are the same.
#[derive(Debug, Clone)]
pub struct Gateway(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    setting: Arc<Setting>,
    upstreams: Mutex<Vec<Running>>,
    catalogue: ArcSwap<Catalogue>,
    doors: Mutex<Vec<Weak<DoorState>>>,
    held: Arc<Held>,
    /// Counts changes of any upstream's listing or condition.
    changes: watch::Sender<u64>,
}

/// An upstream and the task that looks after it.
#[derive(Debug)]
struct Running {
    upstream: Arc<Upstream>,
    task: JoinHandle<()>,
}

/// What one endpoint shows.
pub(crate) struct DoorState {
    pub(crate) server: Server,
    pub(crate) routes: ArcSwap<Routes>,
    allows: Allow,
}

impl Gateway {
    /// A gateway without upstreams.
    pub fn new(setting: Setting) -> Gateway {
        Gateway(Arc::new(Inner {
            setting: Arc::new(setting),
            upstreams: Mutex::default(),
            catalogue: ArcSwap::default(),
            doors: Mutex::default(),
            held: Arc::default(),
            changes: watch::Sender::new(0),
        }))
    }

    /// Puts `configs` behind the gateway in place of what was there. Upstreams whose configuration
    /// is the same are left alone. Never fails: what cannot be reached is tried again.
    pub fn configure(&self, configs: Vec<UpstreamConfig>) {
        let mut upstreams = lock(&self.0.upstreams);
        let mut before = std::mem::take(&mut *upstreams);
        for config in configs {
            let same = before.iter().position(|running| running.upstream.config == config);
            let running = match same {
                Some(place) => before.swap_remove(place),
                None => self.start(config),
            };
            upstreams.push(running);
        }
        drop(upstreams);
        for gone in before {
            gone.stop();
        }
        self.refresh();
    }

    fn start(&self, config: UpstreamConfig) -> Running {
        let upstream = Arc::new(Upstream::new(config, Arc::clone(&self.0.setting)));
        let audience = Arc::new(ToGateway(Arc::downgrade(&self.0)));
        let task = tokio::spawn(supervise(Arc::clone(&upstream), audience));
        Running { upstream, task }
    }

    /// A handler that answers for `server` and, as far as `allows` says, for everything behind the
    /// gateway.
    pub fn door(&self, server: Server, allows: Allow) -> Door {
        let state = Arc::new(DoorState { server, routes: ArcSwap::default(), allows });
        state.show(&self.0.catalogue.load());
        let mut doors = lock(&self.0.doors);
        doors.retain(|door| door.strong_count() > 0);
        doors.push(Arc::downgrade(&state));
        drop(doors);
        self.refresh();
        Door { state, gateway: self.clone() }
    }

    /// How every upstream is doing, in the order of the configuration.
    pub fn health(&self) -> Vec<(String, Health)> {
        let catalogue = self.0.catalogue.load();
        let collisions = catalogue.tool_names.collisions();
        let of = |upstream: &Arc<Upstream>| {
            let name = &upstream.config.name;
            let mine = collisions.iter().filter(|collision| collision.other.upstream == *name);
            let told = mine.map(|collision| {
                let taken_by = match collision.keeper.upstream.as_str() {
                    "" => "this server",
                    other => other,
                };
                format!("{} is taken by {taken_by}, shown as {}", collision.name, collision.renamed)
            });
            (name.clone(), Health { collisions: told.collect(), ..upstream.health() })
        };
        lock(&self.0.upstreams).iter().map(|running| of(&running.upstream)).collect()
    }

    /// Waits until every upstream was tried once, or `patience` is over; `true` if all were tried.
    pub async fn settled(&self, patience: Duration) -> bool {
        let mut changes = self.0.changes.subscribe();
        let tried = async {
            while self.health().iter().any(|(_, health)| {
                health.status == Status::Connecting && health.last_error.is_none()
            }) {
                let _ = tokio::time::timeout(Duration::from_millis(50), changes.changed()).await;
            }
        };
        tokio::time::timeout(patience, tried).await.is_ok()
    }

    /// Closes every connection and ends every process.
    pub async fn close(&self) {
        let running = std::mem::take(&mut *lock(&self.0.upstreams));
        let mut closing = tokio::task::JoinSet::new();
        for running in running {
            closing.spawn(running.close());
        }
        closing.join_all().await;
    }

    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.0.held
    }

    fn refresh(&self) {
        self.0.refresh();
    }
}

impl Inner {
    /// Gathers everything anew and shows it everywhere.
    fn refresh(&self) {
        // Whoever refreshes last has seen everything, so refreshing is one at a time.
        let upstreams = lock(&self.upstreams);
        let current: Vec<_> =
            upstreams.iter().map(|running| Arc::clone(&running.upstream)).collect();
        let doors: Vec<_> = lock(&self.doors).iter().filter_map(Weak::upgrade).collect();
        let mut taken: Vec<String> =
            doors.iter().flat_map(|door| door.server.own_tools()).collect();
        taken.sort_unstable();
        taken.dedup();
        let catalogue = Arc::new(Catalogue::gather(&current, &taken, &HashSet::new()));
        for collision in catalogue.tool_names.collisions() {
            let (upstream, renamed) = (&collision.other.upstream, &collision.renamed);
            tracing::warn!(upstream, name = collision.name, renamed, "a tool's name is taken");
        }
        for door in doors {
            if !current.is_empty() {
                door.server.expect_foreign();
            }
            door.show(&catalogue);
        }
        self.catalogue.store(catalogue);
        drop(upstreams);
        self.changes.send_modify(|n| *n += 1);
    }
}

impl DoorState {
    fn show(self: &Arc<Self>, catalogue: &Catalogue) {
        let (routes, mut foreign) = Routes::choose(catalogue, &self.allows);
        self.routes.store(Arc::new(routes));
        let door = Arc::downgrade(self);
        foreign.claims = Some(Arc::new(move |uri| {
            door.upgrade().is_some_and(|door| door.routes.load().resource(uri).is_some())
        }));
        self.server.show_foreign(&foreign);
    }
}

impl Running {
    /// Ends it in the background.
    fn stop(self) {
        tokio::spawn(self.close());
    }

    async fn close(self) {
        self.task.abort();
        self.upstream.close().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A way to the gateway that does not keep it alive.
struct ToGateway(Weak<Inner>);

impl Audience for ToGateway {
    fn listing_changed(&self) {
        if let Some(gateway) = self.0.upgrade() {
            gateway.refresh();
        }
    }

    fn resource_updated(&self, upstream: &Upstream, uri: &str) {
        let Some(gateway) = self.0.upgrade() else { return };
        let public = public_uri(upstream, uri);
        let doors: Vec<_> = lock(&gateway.doors).iter().filter_map(Weak::upgrade).collect();
        for door in doors {
            if door.routes.load().resource(&public).is_some() {
                door.server.resource_updated(&public);
            }
        }
    }
}

impl fmt::Debug for DoorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoorState").field("server", &self.server).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
