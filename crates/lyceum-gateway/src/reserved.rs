//! What belongs to the server itself, so that no upstream can take it.

use lyceum_server::Server;

/// What belongs to the server itself, whether or not an endpoint shows it.
#[derive(Debug, Clone, Default)]
pub struct Reserved {
    /// Names of tools.
    pub tools: Vec<String>,
    /// Names of prompts.
    pub prompts: Vec<String>,
    /// What its URIs begin with.
    pub uris: Vec<String>,
}

/// That, and whatever the servers of endpoints have.
#[derive(Debug)]
pub(crate) struct Taken {
    reserved: Reserved,
    servers: Vec<Server>,
}

impl Taken {
    pub(crate) fn new(mut reserved: Reserved, servers: Vec<Server>) -> Taken {
        reserved.tools.extend(servers.iter().flat_map(Server::own_tools));
        reserved.prompts.extend(servers.iter().flat_map(Server::own_prompts));
        for names in [&mut reserved.tools, &mut reserved.prompts] {
            names.sort_unstable();
            names.dedup();
        }
        Taken { reserved, servers }
    }

    pub(crate) fn tools(&self) -> &[String] {
        &self.reserved.tools
    }

    pub(crate) fn prompts(&self) -> &[String] {
        &self.reserved.prompts
    }

    /// Whether a URI, or a template of URIs, is the server's own.
    pub(crate) fn has_uri(&self, uri: &str) -> bool {
        self.reserved.uris.iter().any(|opening| uri.starts_with(opening))
            || self.servers.iter().any(|server| server.has_resource(uri))
    }
}
