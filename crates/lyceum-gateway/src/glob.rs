//! Names with wildcards, and the allow and deny lists made of them.

use std::fmt;
use std::str::{Chars, FromStr};

/// A name with `*` for any run of characters and `?` for any one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

/// What may be seen: everything that is allowed and not denied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// What is allowed; `None` means everything.
    pub allow: Option<Vec<Glob>>,
    /// What is not, even if it is allowed.
    pub deny: Vec<Glob>,
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
        let globs = |text: &str| -> Vec<Glob> {
            text.split_whitespace().map(|glob| glob.parse().unwrap()).collect()
        };
        let rows: &[(Option<&str>, &str, &str, bool)] = &[
            (None, "", "x", true),
            (Some(""), "", "x", false),
            (Some("a_* b_*"), "", "b_x", true),
            (Some("a_* b_*"), "b_x", "b_x", false),
            (None, "*_delete", "a_delete", false),
        ];
        for &(allow, deny, name, expected) in rows {
            let filter = Filter { allow: allow.map(globs), deny: globs(deny) };
            assert_eq!(filter.admits(name), expected, "{filter:?} and {name}");
        }
    }
}
