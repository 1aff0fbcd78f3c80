//! What lets other machines in: the address that is listened on, or names that only a proxy's clients
//! use. Each of them makes a public server, which wants keys.

use lyceum_http::guard::{HostPolicy, OriginPolicy};

use crate::config::error::ConfigError;
use crate::config::given::{Given, Source};
use crate::config::values::Listen;

/// The setting that makes a server public.
#[derive(Debug, Clone)]
pub(super) struct Exposure {
    source: Source,
    /// What the setting says, and what follows from it.
    why: String,
    /// How to take it back.
    instead: String,
}

impl Exposure {
    /// The first setting that makes a server public; `None` if only this machine is served.
    pub(super) fn find(
        listen: &Given<Listen>,
        (host_list, hosts): (&Given<Vec<String>>, &HostPolicy),
        (origin_list, origins): (&Given<Vec<String>>, &OriginPolicy),
    ) -> Option<Self> {
        let address = listen.value.0;
        if !address.ip().is_loopback() {
            let instead = format!("listen on 127.0.0.1:{}", address.port());
            let why = format!("{address} can be reached from other machines");
            return Some(Self { source: listen.source.clone(), why, instead });
        }
        let named = |list: &Given<Vec<String>>, setting: &str| Self {
            source: list.source.clone(),
            why: format!("{setting} = {:?} is for callers beyond this machine", list.value),
            instead: format!("leave out {setting}"),
        };
        if !hosts.is_loopback_only() {
            return Some(named(host_list, "hosts"));
        }
        (!origins.is_loopback_only()).then(|| named(origin_list, "origins"))
    }

    /// Why the server does not start without a key.
    pub(super) fn refusal(&self) -> ConfigError {
        let Self { source, why, instead } = self;
        ConfigError::at(
            source,
            format!(
                "{why} and there is no API key to ask for; make one with `lyceum keys create NAME`, \
                 {instead}, or serve everyone with --i-know-unauthenticated"
            ),
        )
    }
}
