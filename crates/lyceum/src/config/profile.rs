//! The profiles: ready-made endpoints, from everything to reading only.
//!
//! A server nobody configured serves these. An endpoint the operator puts at the path of a profile
//! starts from it, so that naming keys for `/mcp-readonly` does not also hand out the writing tools.

use lyceum_http::dialect::Dialect;

/// An endpoint as it comes out of the box.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    /// Where it is reached with a secret in the path, once the operator gives one.
    pub(crate) token_path: Option<&'static str>,
    /// Its manners, where no preset says otherwise.
    pub(crate) dialect: Dialect,
    /// The tools it offers, in groups; `None` means all.
    tools: Option<&'static [&'static [&'static str]]>,
    /// Whether it is served, unasked, to other machines too.
    pub(crate) public: bool,
}

const READING: &[&str] = &[
    "search_knowledge",
    "list_documents",
    "get_document",
    "get_document_for_rewrite",
    "batch_read",
];
const EDITING: &[&str] = &["upload_document", "update_document", "patch_document"];

/// All profiles, the most general one first.
pub(crate) const PROFILES: &[Profile] = &[
    Profile {
        name: "mcp",
        path: "/mcp",
        token_path: None,
        dialect: Dialect::Standard,
        tools: None,
        public: true,
    },
    Profile {
        name: "mcp-readonly",
        path: "/mcp-readonly",
        token_path: None,
        dialect: Dialect::Standard,
        tools: Some(&[READING]),
        public: true,
    },
    Profile {
        name: "mcp-gpt",
        path: "/mcp-gpt",
        token_path: Some("/gpt-mcp/{token}/mcp"),
        dialect: Dialect::AgentData,
        tools: Some(&[READING, EDITING]),
        public: true,
    },
    Profile {
        name: "mcp-gpt-full",
        path: "/mcp-gpt-full",
        token_path: None,
        dialect: Dialect::AgentData,
        tools: None,
        public: false,
    },
];

impl Profile {
    /// Whether its clients expect every name it does not have to be called "not allowed", even where it has all.
    pub(crate) fn has_allow_list(&self) -> bool {
        self.path != "/mcp"
    }

    /// The profile that lives at `path`.
    pub(crate) fn at(path: &str) -> Option<&'static Profile> {
        PROFILES.iter().find(|profile| profile.path == path || profile.token_path == Some(path))
    }

    /// The names of its tools; `None` means all.
    pub(crate) fn tools(&self) -> Option<impl Iterator<Item = &'static str>> {
        self.tools.map(|groups| groups.iter().copied().flatten().copied())
    }
}
