//! What an abusive case is: what it prepares, who attacks how, and what it may cost.

use anyhow::Result;

use super::client::AbusiveClient;
use super::server::LyceumServer;

/// MiB a case may take beyond what the idle server has.
pub(super) const MEMORY_MIB: f64 = 300.0;
/// The same for cases that ask for as many large answers as they can get: the answer budget of a
/// caller, the copies of it on the way out, and what the allocator keeps.
pub(super) const ANSWERS_MIB: f64 = 600.0;
/// The same for all cases at once.
pub(super) const TOGETHER_MIB: f64 = 1024.0;

/// One row of the table.
#[derive(Clone)]
pub(super) struct AbuseCase {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Whether the fast subset has it.
    pub(super) quick: bool,
    /// Whether it takes part when all attack at once.
    pub(super) together: bool,
    /// MiB it may take beyond what the idle server has.
    pub(super) memory_mib: f64,
    /// Shell commands before the server in its process, such as a `ulimit`.
    pub(super) shell: Option<&'static str>,
    /// Whether the abuser's key is revoked while it attacks.
    pub(super) revoke: bool,
    pub(super) prepare: fn(&LyceumServer) -> Result<()>,
    pub(super) clients: fn(&LyceumServer) -> Result<Vec<AbusiveClient>>,
}

impl AbuseCase {
    /// A case with the usual limits that needs no preparation.
    pub(super) const fn new(
        name: &'static str,
        about: &'static str,
        clients: fn(&LyceumServer) -> Result<Vec<AbusiveClient>>,
    ) -> Self {
        Self {
            name,
            about,
            quick: false,
            together: true,
            memory_mib: MEMORY_MIB,
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

    pub(super) const fn memory(self, memory_mib: f64) -> Self {
        Self { memory_mib, ..self }
    }

    pub(super) const fn shell(self, shell: &'static str) -> Self {
        Self { shell: Some(shell), ..self }
    }
}
