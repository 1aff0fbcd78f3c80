//! Protocol revisions, the two eras they fall into, and how `initialize` picks one.

use std::fmt;

use bytes::Bytes;

/// A revision of the protocol, ordered by date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// HTTP+SSE with two endpoints.
    V2024_11_05,
    /// The first Streamable HTTP, with batches.
    V2025_03_26,
    /// Elicitation, structured content, the version header.
    V2025_06_18,
    /// Polling, URL elicitation, experimental tasks.
    V2025_11_25,
    /// Stateless: no handshake, no session.
    V2026_07_28,
}

/// How clients and servers of a revision talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// With `initialize` and sessions.
    Legacy,
    /// Every request stands alone.
    Modern,
}

impl Revision {
    /// All revisions, newest first.
    pub const ALL: [Revision; 5] = [
        Revision::V2026_07_28,
        Revision::V2025_11_25,
        Revision::V2025_06_18,
        Revision::V2025_03_26,
        Revision::V2024_11_05,
    ];

    /// The revision as it is written on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Revision::V2024_11_05 => "2024-11-05",
            Revision::V2025_03_26 => "2025-03-26",
            Revision::V2025_06_18 => "2025-06-18",
            Revision::V2025_11_25 => "2025-11-25",
            Revision::V2026_07_28 => "2026-07-28",
        }
    }

    /// The revision written like this, exactly.
    pub fn parse(text: &str) -> Option<Revision> {
        Revision::parse_bytes(text.as_bytes())
    }

    /// The same for a header value, which need not be text.
    pub(crate) fn parse_bytes(text: &[u8]) -> Option<Revision> {
        Some(match text {
            b"2026-07-28" => Revision::V2026_07_28,
            b"2025-11-25" => Revision::V2025_11_25,
            b"2025-06-18" => Revision::V2025_06_18,
            b"2025-03-26" => Revision::V2025_03_26,
            b"2024-11-05" => Revision::V2024_11_05,
            _ => return None,
        })
    }

    /// The era it belongs to.
    pub const fn era(self) -> Era {
        match self {
            Revision::V2026_07_28 => Era::Modern,
            _ => Era::Legacy,
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of revisions, such as those an endpoint serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RevisionSet(u8);

impl RevisionSet {
    /// Every revision.
    pub const ALL: RevisionSet = RevisionSet(0b1_1111);
    /// Those with a handshake.
    pub const LEGACY: RevisionSet = RevisionSet(0b0_1111);
    /// Those without.
    pub const MODERN: RevisionSet = RevisionSet(0b1_0000);

    /// The set of one revision.
    pub const fn only(revision: Revision) -> RevisionSet {
        RevisionSet(1 << revision as u8)
    }

    /// Whether the revision is in the set.
    pub const fn contains(self, revision: Revision) -> bool {
        self.0 & RevisionSet::only(revision).0 != 0
    }

    /// The revisions in both sets.
    #[must_use]
    pub const fn intersection(self, other: RevisionSet) -> RevisionSet {
        RevisionSet(self.0 & other.0)
    }

    /// The revisions in either set.
    #[must_use]
    pub const fn union(self, other: RevisionSet) -> RevisionSet {
        RevisionSet(self.0 | other.0)
    }

    /// Whether no revision is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether any revision of the era is in the set.
    pub const fn serves(self, era: Era) -> bool {
        let of_era = match era {
            Era::Legacy => RevisionSet::LEGACY,
            Era::Modern => RevisionSet::MODERN,
        };
        !self.intersection(of_era).is_empty()
    }

    /// The revisions, newest first.
    pub fn iter(self) -> impl Iterator<Item = Revision> {
        Revision::ALL.into_iter().filter(move |revision| self.contains(*revision))
    }

    /// The newest revision with a handshake.
    pub fn newest_legacy(self) -> Option<Revision> {
        self.intersection(RevisionSet::LEGACY).iter().next()
    }
}

impl FromIterator<Revision> for RevisionSet {
    fn from_iter<I: IntoIterator<Item = Revision>>(revisions: I) -> RevisionSet {
        let only = revisions.into_iter().map(RevisionSet::only);
        only.fold(RevisionSet(0), RevisionSet::union)
    }
}

/// The revision `initialize` answers with: the one asked for if it is legacy and served, otherwise
/// the newest legacy one. None if no legacy revision is served.
pub fn negotiate(requested: &str, served: RevisionSet) -> Option<Revision> {
    let legacy = served.intersection(RevisionSet::LEGACY);
    Revision::parse(requested)
        .filter(|revision| legacy.contains(*revision))
        .or_else(|| legacy.newest_legacy())
}

/// The served revisions as a JSON array, newest first: the one list that `server/discover` and every
/// "unsupported version" error show, so that they cannot disagree.
pub fn supported_versions_json(served: RevisionSet) -> Bytes {
    let quoted: Vec<String> = served.iter().map(|revision| format!("\"{revision}\"")).collect();
    Bytes::from(format!("[{}]", quoted.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(requested: &str, served: RevisionSet, expected: Option<&str>) {
        let negotiated = negotiate(requested, served).map(Revision::as_str);
        assert_eq!(negotiated, expected, "{requested}");
    }

    #[test]
    fn known_legacy_versions_are_echoed() {
        for revision in RevisionSet::LEGACY.iter() {
            check(revision.as_str(), RevisionSet::ALL, Some(revision.as_str()));
        }
    }

    #[test]
    fn anything_else_gets_the_newest_legacy_version_served() {
        for requested in ["2026-07-28", "2030-01-01", "1.0", "", "2025-11-25 "] {
            check(requested, RevisionSet::ALL, Some("2025-11-25"));
        }
        let old = RevisionSet::only(Revision::V2024_11_05).union(RevisionSet::MODERN);
        check("2025-11-25", old, Some("2024-11-05"));
        check("2025-11-25", RevisionSet::MODERN, None);
    }

    #[test]
    fn revisions_survive_their_names_and_are_ordered_by_date() {
        assert!(Revision::ALL.is_sorted_by(|newer, older| newer > older));
        for revision in Revision::ALL {
            assert_eq!(Revision::parse(revision.as_str()), Some(revision));
            assert_eq!(RevisionSet::MODERN.contains(revision), revision.era() == Era::Modern);
        }
        assert_eq!(Revision::parse("2025-3-26"), None);
        let set: RevisionSet = Revision::ALL.into_iter().collect();
        assert_eq!(set, RevisionSet::ALL);
        assert_eq!(RevisionSet::LEGACY.union(RevisionSet::MODERN), set);
    }

    #[test]
    fn served_versions_are_listed_newest_first() {
        assert_eq!(supported_versions_json(RevisionSet::MODERN), r#"["2026-07-28"]"#);
        let listed = supported_versions_json(RevisionSet::LEGACY);
        assert_eq!(listed, r#"["2025-11-25","2025-06-18","2025-03-26","2024-11-05"]"#);
    }
}
