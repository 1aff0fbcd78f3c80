//! A definition as it is held, and its hash.
//!
//! All members are held: whatever an upstream says in one may reach a model or a person. Lockfiles of
//! version 1 hold only some members, and what was approved by them is compared by those alone.
//!
//! The hash is taken of JSON without white space, with members sorted by name (by bytes, not by
//! UTF-16 as in RFC 8785) and strings escaped as little as possible. Numbers are left as the upstream
//! wrote them: `1` and `1.0` differ, because a reader may tell them apart.

use std::borrow::Cow;

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

/// What an upstream says about a tool or a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    kind: Kind,
    /// Whether it is only what lockfiles of version 1 hold.
    is_partial: bool,
    name: String,
    hash: String,
    held: Tree,
}

impl Kind {
    /// The members that lockfiles of version 1 hold.
    fn first_members(self) -> &'static [&'static str] {
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
        Definition::of(kind, Tree::parse(raw)?, false)
    }

    pub(super) fn of(kind: Kind, tree: Tree, is_partial: bool) -> Result<Definition, String> {
        let Tree::Members(mut members) = tree else {
            return Err("a definition must be an object".to_owned());
        };
        members.retain(|(name, _)| !is_partial || kind.first_members().contains(&name.as_str()));
        let held = Tree::Members(members).sorted();
        let name = held.get("name").and_then(Tree::text).ok_or("a definition needs a name")?;
        let digest = Sha256::digest(held.compact());
        let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let (name, hash) = (name.to_owned(), format!("sha256:{digits}"));
        Ok(Definition { kind, is_partial, name, hash, held })
    }

    /// Whether it is only what lockfiles of version 1 hold.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// As much of this definition as `pin` holds of its own.
    pub(super) fn as_far_as<'a>(&'a self, pin: &Definition) -> Cow<'a, Definition> {
        let part = |definition: &Definition| {
            Definition::of(definition.kind, definition.held.clone(), true).ok()
        };
        match pin.is_partial {
            true => part(self).map_or(Cow::Borrowed(self), Cow::Owned),
            false => Cow::Borrowed(self),
        }
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
