//! [`Gateway`]: all upstreams, and the endpoints that show them.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use lyceum_http::Caller;
use lyceum_server::Server;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::catalogue::{Catalogue, public_uri};
use crate::config::UpstreamConfig;
use crate::door::Door;
use crate::drift::{self, Drift};
use crate::lock::{Definition, Lock};
use crate::names;
use crate::process::{AllowedCommands, Limits};
use crate::relay::Held;
use crate::relay::tasks::{Followed, Started};
use crate::reserved::{Reserved, Taken};
use crate::routes::{Allow, Routes};
use crate::upstream::{Audience, Health, Setting, Status, Upstream, supervise};

/// Other servers, shown at any number of endpoints. Cheap to clone; all clones are the same.
#[derive(Debug, Clone)]
pub struct Gateway(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    setting: ArcSwap<Setting>,
    upstreams: Mutex<Vec<Running>>,
    catalogue: ArcSwap<Catalogue>,
    doors: Mutex<Vec<Weak<DoorState>>>,
    /// What belongs to the server itself, besides what the doors have.
    reserved: Mutex<Reserved>,
    held: Arc<Held>,
    followed: Arc<Followed>,
    started: Started,
    drift: Mutex<Drift>,
    /// Counts changes of any upstream's listing or condition.
    changes: watch::Sender<u64>,
}

/// Where a tool's name leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// How the name was understood.
    pub form: Form,
    /// What clients see it as.
    pub public: String,
    /// Whose it is; empty if it is the server's own.
    pub upstream: String,
    /// What the upstream calls it.
    pub own: String,
    /// Whether a call whose answer was lost is made again.
    pub may_repeat: bool,
    /// Whether it is shown at all.
    pub is_shown: bool,
    /// Why it is held back, if it is.
    pub held_back: Option<String>,
}

/// How a tool's name was understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The server's own tool.
    Own,
    /// The name clients see.
    Public,
    /// A further name the operator gave it.
    Alias,
    /// `upstream.tool`.
    Dotted,
    /// The upstream's own name, which no other upstream has.
    OwnName,
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
    allows: ArcSwap<Allow>,
}

impl Gateway {
    /// A gateway without upstreams.
    pub fn new(setting: Setting) -> Gateway {
        Gateway(Arc::new(Inner {
            setting: ArcSwap::from_pointee(setting),
            upstreams: Mutex::default(),
            catalogue: ArcSwap::default(),
            doors: Mutex::default(),
            reserved: Mutex::default(),
            held: Arc::default(),
            followed: Arc::default(),
            started: Started::default(),
            drift: Mutex::default(),
            changes: watch::Sender::new(0),
        }))
    }

    /// Puts `configs` behind the gateway in place of what was there. Upstreams whose configuration
    /// is the same are left alone. Never fails: what cannot be reached is tried again.
    pub fn configure(&self, configs: Vec<UpstreamConfig>) {
        let mut upstreams = lock(&self.0.upstreams);
        let mut before = std::mem::take(&mut *upstreams);
        let setting = self.0.setting.load();
        for config in configs {
            let is_same = |running: &Running| running.upstream.is_of(&config, &setting);
            let same = before.iter().position(is_same);
            let running = match same {
                Some(place) => before.swap_remove(place),
                None => {
                    let is_before =
                        |running: &&Running| running.upstream.config.name == config.name;
                    let before = before.iter().find(is_before).map(|running| &running.upstream);
                    self.start(config, before.map(|before| &**before))
                }
            };
            upstreams.push(running);
        }
        drop(upstreams);
        self.refresh();
        for gone in before {
            gone.stop();
        }
    }

    /// Lets these commands run from now on, and no others, within these limits. Processes are started
    /// again when the upstreams are next configured.
    pub fn allow_processes(&self, commands: AllowedCommands, process_limits: Limits) {
        let setting = Setting::clone(&self.0.setting.load());
        let allowed_commands = Arc::new(commands);
        self.0.setting.store(Arc::new(Setting { allowed_commands, process_limits, ..setting }));
    }

    fn start(&self, config: UpstreamConfig, before: Option<&Upstream>) -> Running {
        let upstream = Arc::new(Upstream::new(config, self.0.setting.load_full(), before));
        let audience = Arc::new(ToGateway(Arc::downgrade(&self.0)));
        let task = tokio::spawn(supervise(Arc::clone(&upstream), audience));
        Running { upstream, task }
    }

    /// A caller will not come back.
    pub(crate) fn caller_ended(&self, caller: &Caller) {
        for running in lock(&self.0.upstreams).iter() {
            running.upstream.caller_ended(caller);
        }
    }

    /// A handler that answers for `server` and, as far as `allows` says, for everything behind the
    /// gateway.
    pub fn door(&self, server: Server, allows: Allow) -> Door {
        let allows = ArcSwap::from_pointee(allows);
        let state = Arc::new(DoorState { server, routes: ArcSwap::default(), allows });
        state.show(&self.0.catalogue.load());
        let mut doors = lock(&self.0.doors);
        doors.retain(|door| door.strong_count() > 0);
        doors.push(Arc::downgrade(&state));
        drop(doors);
        self.refresh();
        Door { state, gateway: self.clone() }
    }

    /// Keeps these names and URIs for the server itself, whether or not an endpoint shows them.
    pub fn reserve(&self, reserved: Reserved) {
        *lock(&self.0.reserved) = reserved;
        self.refresh();
    }

    /// How every upstream is doing, in the order of the configuration.
    pub fn health(&self) -> Vec<(String, Health)> {
        let catalogue = self.0.catalogue.load();
        let of = |upstream: &Arc<Upstream>| {
            let name = &upstream.config.name;
            let judged = lock(&self.0.drift).about(name);
            let health = Health {
                collisions: catalogue.clashes.about(name),
                quarantined: judged.held_back.into_iter().map(|(tool, _)| tool).collect(),
                changed: judged.changed.into_iter().map(|(tool, _)| tool).collect(),
                flagged: judged.flagged,
                ..upstream.health()
            };
            (name.clone(), health)
        };
        lock(&self.0.upstreams).iter().map(|running| of(&running.upstream)).collect()
    }

    /// Holds back every tool whose definition is not as `lock` has it; None trusts what is there.
    pub fn set_lock(&self, lock: Option<Lock>) {
        self::lock(&self.0.drift).set_lock(lock);
        self.refresh();
    }

    /// Whether tools are held against a lock.
    pub fn is_locked(&self) -> bool {
        lock(&self.0.drift).is_locked()
    }

    /// The tools of every upstream as it defines them, for a lockfile.
    pub fn definitions(&self) -> Vec<(String, Vec<Definition>)> {
        let upstreams = lock(&self.0.upstreams);
        let of = |upstream: &Arc<Upstream>| {
            (upstream.config.name.clone(), drift::definitions(&upstream.listing()))
        };
        upstreams.iter().map(|running| of(&running.upstream)).collect()
    }

    /// Why a tool of an upstream is held back, as text for people.
    pub fn held_back(&self, upstream: &str) -> Vec<(String, String)> {
        lock(&self.0.drift).about(upstream).held_back
    }

    /// Where a tool's name leads, however it is written; None if nowhere.
    pub fn why(&self, asked: &str) -> Option<Why> {
        let catalogue = self.0.catalogue.load();
        let source = catalogue.tool_names.route(asked)?;
        let public = catalogue.tool_names.public(&source.upstream, &source.name)?.to_owned();
        let shown = catalogue.tools.iter().find(|tool| tool.entry.item.key() == public);
        let form = match asked {
            _ if source.upstream.is_empty() => Form::Own,
            _ if asked == public => Form::Public,
            _ if catalogue.tool_names.find(asked).is_some() => Form::Alias,
            _ if catalogue.tool_names.is_dotted(asked, source) => Form::Dotted,
            _ => Form::OwnName,
        };
        let reasons = self.held_back(&source.upstream);
        let held_back = reasons.into_iter().find(|(tool, _)| *tool == source.name);
        Some(Why {
            form,
            public,
            upstream: source.upstream.clone(),
            own: source.name.clone(),
            may_repeat: shown.is_some_and(|tool| tool.may_repeat),
            is_shown: shown.is_some(),
            held_back: held_back.map(|(_, why)| why),
        })
    }

    /// The upstream that would have a tool of this name but cannot be reached, and why; None if there is
    /// none.
    pub fn why_absent(&self, asked: &str) -> Option<(String, String)> {
        let (upstream, _) = self.0.catalogue.load().absent.named(asked)?;
        Some((upstream.config.name.clone(), upstream.why_absent().to_string()))
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

    pub(crate) fn followed(&self) -> &Arc<Followed> {
        &self.0.followed
    }

    pub(crate) fn started(&self) -> &Started {
        &self.0.started
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
        let servers = doors.iter().map(|door| door.server.clone()).collect();
        let taken = Taken::new(lock(&self.reserved).clone(), servers);
        let held_back = lock(&self.drift).held_back(&current);
        let catalogue = Arc::new(Catalogue::gather(&current, &taken, &held_back));
        catalogue.clashes.log_new(&self.catalogue.load().clashes);
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
    /// Whether a tool of an upstream would be shown that has this name.
    pub(crate) fn may_show(&self, tool: &str) -> bool {
        (self.allows.load())(tool) && !self.server.has_tool(tool)
    }

    /// Whether something might be shown of an upstream, whatever it has.
    pub(crate) fn may_show_any(&self, upstream: &Upstream) -> bool {
        (self.allows.load())(&names::opening(upstream.config.prefix()))
    }

    /// Shows from the next time on what `allows` says.
    pub(crate) fn allow(&self, allows: Allow) {
        self.allows.store(Arc::new(allows));
    }

    fn show(self: &Arc<Self>, catalogue: &Catalogue) {
        let (routes, mut foreign) = Routes::choose(catalogue, &self.allows.load());
        self.routes.store(Arc::new(routes));
        let door = Arc::downgrade(self);
        foreign.claims = Some(Arc::new(move |uri| {
            door.upgrade()
                .is_some_and(|door| door.routes.load().resource(uri, &door.server).is_some())
        }));
        self.server.show_foreign(&foreign);
    }
}

impl Running {
    /// Ends it in the background, after the calls that are under way.
    fn stop(self) {
        self.task.abort();
        tokio::spawn(async move {
            self.upstream.finish_calls().await;
            self.close().await;
        });
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

    fn resource_updated(&self, upstream: &Upstream, uri: &str, only: Option<&Caller>) {
        let Some(gateway) = self.0.upgrade() else { return };
        let public = public_uri(upstream, uri);
        let doors: Vec<_> = lock(&gateway.doors).iter().filter_map(Weak::upgrade).collect();
        for door in doors {
            // What it calls its own may be somebody else's here.
            let routed = door.routes.load().resource(&public, &door.server);
            if routed.is_some_and(|(owner, _)| owner.config.name == upstream.config.name) {
                match only {
                    None => door.server.resource_updated(&public),
                    Some(caller) => door.server.resource_updated_for(caller, &public),
                }
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
