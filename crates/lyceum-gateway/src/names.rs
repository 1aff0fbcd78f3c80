//! What tools, prompts and resources of upstreams are called in public.
//!
//! A tool's public name is its upstream's prefix, `_`, and its own name, in the letters every client
//! takes. Names that would be too long, or are taken, end in a few digits of a hash instead. What an
//! upstream is asked for is always its own name; only this module knows how the two belong together.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};

#[cfg(test)]
mod tests;

/// Characters of a public name; clients refuse longer ones.
pub const MAX_NAME: usize = 64;
/// Characters of an upstream's name.
pub const MAX_UPSTREAM_NAME: usize = 32;

/// Hexadecimal digits that tell apart names that would be the same.
const N_DIGITS: usize = 6;
/// What Knox calls tools whose name says nothing.
const UNKNOWN: &str = "unknown_tool";

/// One upstream and what it offers, before anything has a public name.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    /// The upstream's name in the configuration.
    pub upstream: &'a str,
    /// What its public names begin with: usually its name; empty leaves valid names as they are.
    pub prefix: &'a str,
    /// Its own names for what it offers.
    pub names: &'a [&'a str],
}

impl Offer<'_> {
    /// Whether it is an upstream whose names are public as they are.
    fn is_bare(&self) -> bool {
        self.prefix.is_empty() && !self.upstream.is_empty()
    }
}

/// Something an upstream offers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// The upstream's name in the configuration.
    pub upstream: String,
    /// Its own name for it.
    pub name: String,
}

/// Two things that would have had the same public name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collision {
    /// The name both would have.
    pub name: String,
    /// Who has it.
    pub keeper: Source,
    /// Who has another.
    pub other: Source,
    /// That other name.
    pub renamed: String,
}

/// The public names of everything of one kind.
#[derive(Debug, Clone, Default)]
pub struct Names {
    sources: HashMap<String, Source>,
    public: HashMap<String, HashMap<String, String>>,
    /// Upstreams by the prefix they do not share with an earlier one.
    prefixes: HashMap<String, String>,
    aliases: BTreeMap<String, Source>,
    /// Aliases that do nothing, and whose they are.
    dead_aliases: Vec<(String, Source)>,
    collisions: Vec<Collision>,
}

impl Names {
    /// Gives everything a public name. Offers come in the order of the configuration: the first keeps
    /// the plain name, so offers added behind change nothing. In which order an upstream lists its
    /// own names does not matter.
    pub fn assign(offers: &[Offer<'_>]) -> Names {
        let mut names = Names::default();
        for offer in offers {
            if !offer.prefix.is_empty() {
                let prefixed = names.prefixes.entry(offer.prefix.to_owned());
                prefixed.or_insert_with(|| offer.upstream.to_owned());
            }
            let mut own: Vec<(String, &str)> =
                offer.names.iter().map(|name| (plain(offer.prefix, name), *name)).collect();
            // Whoever would have to be changed less is served first: `a_b` before `a.b`.
            own.sort_by_key(|(plain, name)| (!plain.ends_with(name), *name));
            own.dedup_by_key(|(_, name)| *name);
            for (plain, name) in own {
                let source = Source { upstream: offer.upstream.to_owned(), name: name.to_owned() };
                let owner = if offer.is_bare() { names.owner(&plain) } else { None };
                match owner.map(str::to_owned) {
                    Some(owner) => names.add_apart(plain, source, owner),
                    None => drop(names.add(plain, source)),
                }
            }
        }
        names
    }

    /// Lets things be known by other names besides. They are understood in calls and never listed.
    #[must_use]
    pub fn with_aliases(mut self, aliases: impl IntoIterator<Item = (String, Source)>) -> Names {
        for (alias, source) in aliases {
            let keeper = self.sources.get(&alias).or_else(|| self.aliases.get(&alias));
            match keeper {
                None => drop(self.aliases.insert(alias, source)),
                Some(keeper) if *keeper == source => {}
                Some(_) => self.dead_aliases.push((alias, source)),
            }
        }
        self
    }

    /// The public name of what `upstream` calls `name`.
    pub fn public(&self, upstream: &str, name: &str) -> Option<&str> {
        self.public.get(upstream)?.get(name).map(String::as_str)
    }

    /// What a public name or an alias of one stands for.
    pub fn find(&self, public: &str) -> Option<&Source> {
        let by_alias = || {
            let source = self.aliases.get(public)?;
            self.sources.get(self.public(&source.upstream, &source.name)?)
        };
        self.sources.get(public).or_else(by_alias)
    }

    /// What a caller means who may also write `upstream.name`, with the upstream's prefix or its
    /// name, or just `name` if only one upstream has it.
    pub fn route(&self, asked: &str) -> Option<&Source> {
        let dotted = || {
            let find = |(before, name): (&str, &str)| {
                // Clients know the prefix, so it comes before another upstream's name.
                let prefixed = || self.public(self.prefixes.get(before)?, name);
                self.sources.get(prefixed().or_else(|| self.public(before, name))?)
            };
            halves(asked, '.').find_map(find)
        };
        let bare = || {
            let mut having = self.public.values().filter_map(|own| own.get(asked));
            let only = having.next().filter(|_| having.next().is_none())?;
            let source = self.sources.get(only)?;
            // What begins like another upstream's names is not meant for this one.
            self.owner(asked).is_none_or(|owner| owner == source.upstream).then_some(source)
        };
        self.find(asked).or_else(dotted).or_else(bare)
    }

    /// Whether `asked` is `upstream.name` for this very thing.
    pub(crate) fn is_dotted(&self, asked: &str, source: &Source) -> bool {
        halves(asked, '.').any(|(before, name)| {
            let is_upstream =
                before == source.upstream || self.prefixes.get(before) == Some(&source.upstream);
            name == source.name && is_upstream
        })
    }

    /// What could not have its plain name, in the order it was found.
    pub fn collisions(&self) -> &[Collision] {
        &self.collisions
    }

    /// Aliases that do nothing, because something else has that very name or was given it before.
    pub fn dead_aliases(&self) -> &[(String, Source)] {
        &self.dead_aliases
    }

    /// The upstream whose public names begin like this one; of several, the one that says most.
    fn owner(&self, public: &str) -> Option<&str> {
        let owners = self.prefixes.iter().map(|(prefix, upstream)| (opening(prefix), upstream));
        let owners = owners.filter(|(opening, _)| public.starts_with(opening));
        owners.max_by_key(|(opening, _)| opening.len()).map(|(_, upstream)| upstream.as_str())
    }

    /// Adds what would have a name among an earlier upstream's: it is known by its own upstream's name.
    fn add_apart(&mut self, plain: String, source: Source, owner: String) {
        let public = self.add(self::plain(&source.upstream, &source.name), source.clone());
        let keeper = Source { upstream: owner, name: plain.clone() };
        self.collisions.push(Collision { name: plain, keeper, other: source, renamed: public });
    }

    /// Gives something its plain name, or one that nobody has; returns it.
    fn add(&mut self, plain: String, source: Source) -> String {
        let public = match (plain.len() <= MAX_NAME, self.sources.get(&plain)) {
            (true, None) => plain,
            (_, keeper) => {
                let keeper = keeper.cloned();
                let public = (0..)
                    .map(|round| marked(&plain, &source, round))
                    .find(|name| !self.sources.contains_key(name))
                    .expect("four thousand million attempts find one that is free");
                if let Some(keeper) = keeper {
                    let (other, renamed) = (source.clone(), public.clone());
                    self.collisions.push(Collision { name: plain, keeper, other, renamed });
                }
                public
            }
        };
        let own = self.public.entry(source.upstream.clone()).or_default();
        own.insert(source.name.clone(), public.clone());
        self.sources.insert(public.clone(), source);
        public
    }
}

/// A name in letters, digits, `_` and `-`, beginning with a letter or `_`, as Knox writes it.
pub fn sanitise(name: &str) -> String {
    if name.trim().is_empty() {
        return UNKNOWN.to_owned();
    }
    let first = name.chars().next().map(in_name);
    let begins_well = first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let start = if begins_well { "" } else { "_" };
    let name: String = start.chars().chain(name.chars().map(in_name)).collect();
    if name == "_" { UNKNOWN.to_owned() } else { name }
}

/// What stands before and after each separator, the longest beginning first.
pub(crate) fn halves(text: &str, separator: char) -> impl Iterator<Item = (&str, &str)> {
    let halves = text.rmatch_indices(separator).map(|(at, _)| (&text[..at], &text[at + 1..]));
    halves.filter(|(before, after)| !before.is_empty() && !after.is_empty())
}

/// What the public names of an upstream with this prefix begin with.
pub(crate) fn opening(prefix: &str) -> String {
    if prefix.is_empty() { String::new() } else { sanitise(&format!("{prefix}_")) }
}

/// Whether clients of every kind take `name` as it is.
pub fn is_public(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(|c| in_name(c) == c)
}

/// Whether an upstream may be called `name`.
pub fn is_upstream(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_UPSTREAM_NAME).contains(&name.len()) && name.bytes().all(fits)
}

/// A name for an upstream as near to `wanted` as the rules and the names that are `taken` allow.
pub fn upstream_name(wanted: &str, taken: &[String]) -> String {
    let mut name = String::new();
    for c in wanted.chars().map(|c| c.to_ascii_lowercase()) {
        match c {
            'a'..='z' | '0'..='9' => name.push(c),
            _ if name.is_empty() || name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    let cut = |name: &str, len: usize| name[..name.len().min(len)].trim_end_matches('-').to_owned();
    let name = match cut(&name, MAX_UPSTREAM_NAME) {
        name if name.is_empty() => "upstream".to_owned(),
        name => name,
    };
    let numbered = (2..).map(|n: u32| {
        let number = format!("-{n}");
        cut(&name, MAX_UPSTREAM_NAME - number.len()) + &number
    });
    std::iter::once(name.clone())
        .chain(numbered)
        .find(|name| !taken.contains(name))
        .expect("there are more numbers than upstreams")
}

/// How public URIs name the upstream they lead to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum UriForm {
    /// `files+file:///srv/a.md`: the prefix becomes part of the scheme.
    #[default]
    Plus,
    /// `files.file:///srv/a.md`, which Knox's clients know.
    Dot,
}

impl UriForm {
    /// The public form of an upstream's URI or URI template. Without a prefix it stays as it is.
    pub fn public<'a>(self, prefix: &str, uri: &'a str) -> Cow<'a, str> {
        match prefix {
            "" => Cow::Borrowed(uri),
            _ => Cow::Owned(format!("{prefix}{}{uri}", self.separator())),
        }
    }

    /// What may be the prefix and the upstream's own form of a public URI, the longest prefix first.
    /// Prefixes and own URIs may hold the separator themselves (`git+ssh:`), so it counts only where
    /// there is such a prefix.
    pub fn splits(self, public: &str) -> impl Iterator<Item = (&str, &str)> {
        halves(public, self.separator())
    }

    fn separator(self) -> char {
        match self {
            UriForm::Plus => '+',
            UriForm::Dot => '.',
        }
    }
}

/// What the public URIs of one upstream begin with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UriPrefix<'a> {
    pub(crate) form: UriForm,
    pub(crate) prefix: &'a str,
}

impl UriPrefix<'_> {
    /// Whether its URIs are public as they are.
    pub(crate) fn is_empty(&self) -> bool {
        self.prefix.is_empty()
    }

    pub(crate) fn public<'a>(&self, uri: &'a str) -> Cow<'a, str> {
        self.form.public(self.prefix, uri)
    }
}

/// The name as it is when nothing stands in its way; perhaps too long.
fn plain(prefix: &str, name: &str) -> String {
    match prefix {
        "" if is_public(name) => name.to_owned(),
        "" => sanitise(name),
        _ => sanitise(&format!("{prefix}_{name}")),
    }
}

/// `plain`, cut and told apart by a hash. Somebody may have that name on purpose, hence the rounds.
fn marked(plain: &str, source: &Source, round: u32) -> String {
    let mut hash = Sha256::new();
    hash.update(&source.upstream);
    hash.update([0]);
    hash.update(&source.name);
    if round > 0 {
        hash.update([0]);
        hash.update(round.to_be_bytes());
    }
    let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let stem = &plain[..plain.len().min(MAX_NAME - 1 - N_DIGITS)];
    format!("{stem}_{}", &digits[..N_DIGITS])
}

fn in_name(c: char) -> char {
    if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }
}
