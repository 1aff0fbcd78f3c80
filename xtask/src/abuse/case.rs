//! What an abusive case is: what it prepares, who attacks how, and what it may cost.

use std::path::Path;

use anyhow::Result;

use super::client::AbusiveClient;
use super::memory_limit::{MEMORY_MIB, MemoryLimit};
use super::server::LyceumServer;

/// MiB a process beside the server may take: a conversion, or `lyceum stdio`. A conversion limits
/// itself to 512 MiB beyond what it starts with.
pub(super) const CHILD_MIB: f64 = 600.0;

/// One row of the table.
#[derive(Clone)]
pub(super) struct AbuseCase {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Whether the fast subset has it.
    pub(super) quick: bool,
    /// Whether it takes part when all attack at once.
    pub(super) together: bool,
    pub(super) limits: CaseLimits,
    /// The server's configuration file; it gets the path of the hostile upstream.
    pub(super) config: Option<fn(&Path) -> String>,
    /// Shell commands before the server in its process, such as a `ulimit`.
    pub(super) shell: Option<&'static str>,
    /// Whether the abuser's key is revoked while it attacks.
    pub(super) revoke: bool,
    pub(super) prepare: fn(&LyceumServer) -> Result<()>,
    pub(super) clients: fn(&Attacker<'_>) -> Result<Vec<AbusiveClient>>,
}

/// What a case may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CaseLimits {
    pub(super) memory: MemoryLimit,
    /// Processor seconds of the server for each second of the attack.
    pub(super) cpu_share: f64,
    /// MiB of each process beside the server.
    pub(super) child_mib: f64,
}

/// Whose clients attack which server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attacker<'a> {
    pub(super) server: &'a LyceumServer,
    pub(super) key: &'a str,
}

impl CaseLimits {
    /// Work that others do not feel may take every processor there is.
    pub(super) const USUAL: Self = Self {
        memory: MemoryLimit::OverIdle(MEMORY_MIB),
        cpu_share: f64::INFINITY,
        child_mib: CHILD_MIB,
    };
}

impl AbuseCase {
    /// A case with the usual limits that needs no preparation.
    pub(super) const fn new(
        name: &'static str,
        about: &'static str,
        clients: fn(&Attacker<'_>) -> Result<Vec<AbusiveClient>>,
    ) -> Self {
        Self {
            name,
            about,
            quick: false,
            together: true,
            limits: CaseLimits::USUAL,
            config: None,
            shell: None,
            revoke: false,
            prepare: |_| Ok(()),
            clients,
        }
    }

    pub(super) const fn prepared(self, prepare: fn(&LyceumServer) -> Result<()>) -> Self {
        Self { prepare, ..self }
    }

    pub(super) const fn quick(self) -> Self {
        Self { quick: true, ..self }
    }

    /// Leaves the case out when all attack at once.
    pub(super) const fn alone(self) -> Self {
        Self { together: false, ..self }
    }

    pub(super) const fn revoked(self) -> Self {
        Self { revoke: true, ..self }
    }

    pub(super) const fn memory(self, memory: MemoryLimit) -> Self {
        Self { limits: CaseLimits { memory, ..self.limits }, ..self }
    }

    /// Limits the processor seconds of the server for each second of the attack.
    pub(super) const fn cpu(self, cpu_share: f64) -> Self {
        Self { limits: CaseLimits { cpu_share, ..self.limits }, ..self }
    }

    pub(super) const fn config(self, config: fn(&Path) -> String) -> Self {
        Self { config: Some(config), ..self }
    }

    pub(super) const fn shell(self, shell: &'static str) -> Self {
        Self { shell: Some(shell), ..self }
    }
}
