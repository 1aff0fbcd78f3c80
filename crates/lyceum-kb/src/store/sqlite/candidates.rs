//! Which documents are worth ranking, when a query has words that very many documents contain.
//!
//! Finding documents with a word is cheap, ranking them is not (about a microsecond each). So a query that matches few
//! documents is ranked as it is, and otherwise only documents with one of its rarer words are, for which the common
//! words still count: a document with none of the rare words hardly ever comes out on top. What consists of common
//! words only is looked for in documents that have them all, in titles, and in the newest documents.

/// How many documents are ranked, and how long the lists of common words may be that are read on the way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    pub(super) ranked: usize,
    pub(super) read: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { ranked: 6_000, read: 30_000 }
    }
}

/// A word or phrase of a query, as FTS5 writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) quoted: String,
    /// How often the query says it; it counts as often.
    pub(super) times: usize,
    /// How many documents have it.
    pub(super) documents: usize,
}

/// One way to find documents worth ranking.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Rank what matches.
    Rank { expression: String },
    /// Rank what matches; every score is twice what it should be.
    RankDoubled { expression: String },
    /// Rank what matches `expression` unless too many documents match `counted`.
    RankIfFew { expression: String, counted: String },
    /// Rank the newest documents that match.
    RankNewest { expression: String },
}

/// The steps, in order. Those after [`Plan::needed`] are for when the ones before find too little.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) needed: usize,
    /// Whether the steps may miss documents.
    pub(super) pruned: bool,
}

/// How to search for `terms` in about `n_documents` documents.
pub(super) fn plan(mut terms: Vec<Term>, n_documents: usize, budget: Budget) -> Plan {
    terms.retain(|term| term.documents > 0);
    terms.sort_by_key(|term| term.documents);
    let total: usize = terms.iter().map(|term| term.documents).sum();
    if terms.is_empty() || total <= budget.ranked {
        let steps = any(&terms).map(|expression| Step::Rank { expression });
        return Plan { steps: steps.into_iter().collect(), needed: 1, pruned: false };
    }
    let (rare, common) = terms.split_at(within(&terms, budget.ranked));
    // What more than half of all documents have weighs nothing in BM25.
    let telling = common.partition_point(|term| term.documents <= n_documents / 2);
    let affordable = &common[..within(&common[..telling], budget.read)];
    let mut steps: Vec<Step> = with_rare(rare, affordable).into_iter().collect();
    let rest = if affordable.is_empty() { &common[..common.len().min(1)] } else { affordable };
    steps.extend(without_rare(rest));
    let needed = if rare.is_empty() { steps.len() - 1 } else { 1 };
    Plan { steps, needed: needed.max(1), pruned: true }
}

/// How many of the terms, rarest first, have no more than `limit` documents together.
fn within(terms: &[Term], limit: usize) -> usize {
    let mut total = 0;
    let fits = |term: &&Term| {
        total += term.documents;
        total <= limit
    };
    terms.iter().take_while(fits).count()
}

/// Documents with a rare word, ranked by all words.
///
/// The rare words stand on both sides and so count twice, hence the common ones are said twice as well.
fn with_rare(rare: &[Term], common: &[Term]) -> Option<Step> {
    let any_rare = any(rare)?;
    let Some(any_common) = any(common) else {
        return Some(Step::Rank { expression: any_rare });
    };
    let expression = format!("({any_rare}) AND ({any_rare} OR {any_common} OR {any_common})");
    Some(Step::RankDoubled { expression })
}

fn without_rare(common: &[Term]) -> Vec<Step> {
    let Some(any) = any(common) else { return Vec::new() };
    let titles = format!("{{title}} : ({any})");
    let mut steps = Vec::new();
    if common.len() > 1 {
        let expression = joined(common, " AND ");
        steps.push(Step::RankIfFew { counted: expression.clone(), expression });
    }
    steps.push(Step::RankIfFew { expression: format!("({titles}) AND ({any})"), counted: titles });
    steps.push(Step::RankNewest { expression: any });
    steps
}

/// An expression for documents with at least one of the terms.
pub(super) fn any(terms: &[Term]) -> Option<String> {
    (!terms.is_empty()).then(|| joined(terms, " OR "))
}

fn joined(terms: &[Term], operator: &str) -> String {
    let repeated = terms.iter().flat_map(|term| std::iter::repeat_n(&*term.quoted, term.times));
    repeated.collect::<Vec<_>>().join(operator)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(quoted: &str, documents: usize) -> Term {
        Term { quoted: quoted.to_owned(), times: 1, documents }
    }

    /// The expressions of a plan for 1000 documents of which 100 may be ranked.
    #[track_caller]
    fn check(terms: &[Term], expected: &[&str], needed: usize) {
        let plan = plan(terms.to_vec(), 1000, Budget { ranked: 100, read: 400 });
        let expressions: Vec<&str> = plan
            .steps
            .iter()
            .map(|step| match step {
                Step::Rank { expression }
                | Step::RankDoubled { expression }
                | Step::RankIfFew { expression, .. }
                | Step::RankNewest { expression } => expression.as_str(),
            })
            .collect();
        assert_eq!(expressions, expected);
        assert_eq!(plan.needed, needed);
    }

    #[test]
    fn few_documents_are_ranked_as_they_are() {
        check(&[], &[], 1);
        check(&[term("a", 0)], &[], 1);
        check(&[term("a", 60), term("b", 40)], &["b OR a"], 1);
        check(&[Term { times: 2, ..term("a", 60) }], &["a OR a"], 1);
    }

    #[test]
    fn rare_words_choose_and_common_ones_count() {
        let fill = ["({title} : (c)) AND (c)", "c"];
        check(
            &[term("c", 300), term("a", 50), term("b", 50)],
            &["(a OR b) AND (a OR b OR c OR c)", fill[0], fill[1]],
            1,
        );
        check(&[term("c", 501), term("a", 50)], &["a", fill[0], fill[1]], 1);
    }

    #[test]
    fn common_words_are_looked_for_together_in_titles_and_lately() {
        check(&[term("a", 700)], &["({title} : (a)) AND (a)", "a"], 1);
        check(
            &[term("a", 200), term("b", 200), term("c", 300)],
            &["a AND b", "({title} : (a OR b)) AND (a OR b)", "a OR b"],
            2,
        );
    }
}
