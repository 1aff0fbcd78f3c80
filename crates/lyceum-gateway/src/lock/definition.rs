//! The part of a definition that is held, and its hash.
//!
//! The hash is taken of JSON without white space, with members sorted by name (by bytes, not by
//! UTF-16 as in RFC 8785) and strings escaped as little as possible. Numbers are left as the upstream
//! wrote them: `1` and `1.0` differ, because a reader may tell them apart.

use sha2::{Digest, Sha256};

use crate::tree::Tree;

/// What a definition defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
}

/// What an upstream says about a tool or a prompt, as far as it is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    kind: Kind,
    name: String,
    hash: String,
    held: Tree,
}

impl Kind {
    /// The members that are held, sorted; icons and `_meta` are nobody's orders.
    fn members(self) -> &'static [&'static str] {
        match self {
            Kind::Tool => {
                &["annotations", "description", "inputSchema", "name", "outputSchema", "title"]
            }
            Kind::Prompt => &["arguments", "description", "name", "title"],
        }
    }

    /// What the kind is called in the file.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Kind::Tool => "tools",
            Kind::Prompt => "prompts",
        }
    }
}

impl Definition {
    /// Takes a definition as it stands in an upstream's list.
    pub fn read(kind: Kind, raw: &str) -> Result<Definition, String> {
        Definition::of(kind, Tree::parse(raw)?)
    }

    pub(super) fn of(kind: Kind, tree: Tree) -> Result<Definition, String> {
        let Tree::Members(mut members) = tree else {
            return Err("a definition must be an object".to_owned());
        };
        members.retain(|(name, _)| kind.members().contains(&name.as_str()));
        let held = Tree::Members(members).sorted();
        let name = held.get("name").and_then(Tree::text).ok_or("a definition needs a name")?;
        let digest = Sha256::digest(held.compact());
        let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Definition { kind, name: name.to_owned(), hash: format!("sha256:{digits}"), held })
    }

    /// What it defines.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The upstream's name for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `sha256:` and 64 digits.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    pub(super) fn held(&self) -> &Tree {
        &self.held
    }

    pub(super) fn differs_in_name_only(&self, other: &Definition) -> bool {
        let (Tree::Members(ours), Tree::Members(theirs)) = (&self.held, &other.held) else {
            return false;
        };
        let others = |members: &[(String, Tree)]| -> Vec<(String, Tree)> {
            members.iter().filter(|(name, _)| name != "name").cloned().collect()
        };
        // Two tools without a word or a schema are not the same tool.
        ours.len() > 1 && others(ours) == others(theirs)
    }
}
