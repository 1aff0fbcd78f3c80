//! Names with wildcards, and the allow and deny lists made of them.

use std::fmt;
use std::str::{Chars, FromStr};

/// A name with `*` for any run of characters and `?` for any one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

/// One entry of a list: a glob for what may be seen, or, after a `!`, for what may not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// What may be seen.
    Allow(Glob),
    /// What may not, even if it is allowed.
    Deny(Glob),
}

/// What may be seen: everything that is allowed and not denied. The default is everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// What is allowed; `None` means everything.
    allow: Option<Vec<Glob>>,
    /// What is not, even if it is allowed.
    deny: Vec<Glob>,
}

impl Glob {
    /// A glob that matches `name` only, which must hold no `*` and no `?`.
    pub fn name(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// Whether the whole of `name` fits. Linear in `name` times the glob after its last star.
    pub fn matches(&self, name: &str) -> bool {
        let (mut glob, mut name) = (self.0.chars(), name.chars());
        // Where to go on when a later character does not fit: after the last star, one further.
        let mut retry: Option<(Chars<'_>, Chars<'_>)> = None;
        loop {
            let here = name.clone();
            match (glob.next(), name.next()) {
                (Some('*'), _) => {
                    name = here;
                    retry = Some((glob.clone(), name.clone()));
                }
                (None, None) => return true,
                (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {}
                _ => {
                    let Some((after_star, from)) = &mut retry else { return false };
                    if from.next().is_none() {
                        return false;
                    }
                    (glob, name) = (after_star.clone(), from.clone());
                }
            }
        }
    }
}

impl Filter {
    /// Whether `name` may be seen.
    pub fn admits(&self, name: &str) -> bool {
        let fits = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(name));
        self.allow.as_deref().is_none_or(fits) && !fits(&self.deny)
    }

    /// Whether nothing is left out.
    pub fn is_everything(&self) -> bool {
        *self == Filter::default()
    }

    /// The same, where a list of denials alone means everything else in `base`.
    #[must_use]
    pub fn within(mut self, base: Filter) -> Filter {
        self.allow = self.allow.or(base.allow);
        self.deny.extend(base.deny);
        self
    }
}

impl FromIterator<Rule> for Filter {
    /// Denials alone allow everything else; no rules at all allow nothing.
    fn from_iter<T: IntoIterator<Item = Rule>>(rules: T) -> Filter {
        let (mut allow, mut deny) = (Vec::new(), Vec::new());
        for rule in rules {
            match rule {
                Rule::Allow(glob) => allow.push(glob),
                Rule::Deny(glob) => deny.push(glob),
            }
        }
        let denies_only = allow.is_empty() && !deny.is_empty();
        Filter { allow: (!denies_only).then_some(allow), deny }
    }
}

impl fmt::Display for Filter {
    /// As it is written, with spaces between.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = self.allow.iter().flatten().map(Glob::to_string);
        let denied = self.deny.iter().map(|glob| format!("!{glob}"));
        f.write_str(&allowed.chain(denied).collect::<Vec<_>>().join(" "))
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix('!') {
            Some(denied) => denied.parse().map(Rule::Deny),
            None => text.parse().map(Rule::Allow),
        }
    }
}

impl FromStr for Glob {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a tool's name cannot be empty; write \"*\" for all tools".to_owned());
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_names() {
        let rows: &[(&str, &str, bool)] = &[
            ("echo", "echo", true),
            ("echo", "echo2", false),
            ("*", "anything", true),
            ("*", "", true),
            ("search_*", "search_knowledge", true),
            ("search_*", "research_x", false),
            ("*_doc*", "list_documents", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("a*bc", "abcbc", true),
            ("?cho", "echo", true),
            ("?cho", "écho", true),
            ("?cho", "cho", false),
            ("*?", "", false),
            ("*?", "x", true),
            ("**", "", true),
        ];
        for &(glob, name, expected) in rows {
            let glob: Glob = glob.parse().unwrap();
            assert_eq!(glob.matches(name), expected, "{glob} against {name}");
        }
        assert!("".parse::<Glob>().is_err());
    }

    #[test]
    fn a_hostile_pair_takes_no_exponential_time() {
        let glob: Glob = format!("{}b", "a*".repeat(500)).parse().unwrap();
        assert!(!glob.matches(&"a".repeat(5_000)));
    }

    #[test]
    fn deny_outranks_allow() {
        let rows: &[(&str, &str, bool)] = &[
            ("", "x", false),
            ("a_* b_*", "b_x", true),
            ("a_* b_*", "c_x", false),
            ("a_* !b_x b_*", "b_x", false),
            ("a_* !b_x b_*", "b_y", true),
            ("!*_delete", "a_delete", false),
            ("!*_delete", "a_read", true),
            ("* !*", "x", false),
            ("!!x", "!x", false),
        ];
        for &(rules, name, expected) in rows {
            assert_eq!(filter(rules).admits(name), expected, "{rules:?} and {name}");
        }
        assert!(Filter::default().admits("x"));
        assert_eq!(filter("!b a").to_string(), "a !b");
        assert!("!".parse::<Rule>().is_err());
    }

    #[test]
    fn denials_alone_leave_the_rest_of_what_there_was() {
        let base = filter("read write");
        let without = filter("!write").within(base.clone());
        assert!(without.admits("read") && !without.admits("write") && !without.admits("delete"));
        assert!(filter("delete").within(base.clone()).admits("delete"));
        assert!(!filter("").within(base).admits("read"), "an empty list is nothing");
    }

    fn filter(rules: &str) -> Filter {
        rules.split_whitespace().map(|rule| rule.parse::<Rule>().unwrap()).collect()
    }
}
