//! One order from two: lexical and vector scores, blended.
//!
//! The two kinds of score cannot be compared, so each is first scaled to 0–1 over its own candidates. Ranks alone
//! (reciprocal rank fusion) would forget by how much the first hit is better than the second.

use std::collections::HashMap;

/// A document's place, and how it came to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) key: i64,
    pub(crate) score: f32,
    /// The lexical score as it is and scaled, if words matched.
    pub(crate) lexical: Option<(f32, f32)>,
    /// The vector score as it is and scaled, if the meaning is near.
    pub(crate) vector: Option<(f32, f32)>,
}

/// Blends `lexical` and `vector` scores, of which the latter count for `weight`; best first, equals by key.
///
/// When one side has nothing to say, the other counts alone.
pub(crate) fn blend(lexical: &[(i64, f32)], vector: &[(i64, f32)], weight: f32) -> Vec<Ranked> {
    let weight = match (lexical.is_empty(), vector.is_empty()) {
        (true, _) => 1.0,
        (_, true) => 0.0,
        _ => weight,
    };
    let mut ranked: HashMap<i64, Ranked> = HashMap::new();
    let fresh = |key| Ranked { key, score: 0.0, lexical: None, vector: None };
    for (key, raw, scaled) in scaled(lexical) {
        let entry = ranked.entry(key).or_insert_with(|| fresh(key));
        entry.lexical = Some((raw, scaled));
        entry.score += (1.0 - weight) * scaled;
    }
    for (key, raw, scaled) in scaled(vector) {
        let entry = ranked.entry(key).or_insert_with(|| fresh(key));
        entry.vector = Some((raw, scaled));
        entry.score += weight * scaled;
    }
    let mut ranked: Vec<Ranked> = ranked.into_values().collect();
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.key.cmp(&b.key)));
    ranked
}

/// Each score with its place between the worst (0) and the best (1); all are 1 when they are equal.
fn scaled(scores: &[(i64, f32)]) -> impl Iterator<Item = (i64, f32, f32)> {
    let worst = scores.iter().map(|(_, score)| *score).fold(f32::INFINITY, f32::min);
    let best = scores.iter().map(|(_, score)| *score).fold(f32::NEG_INFINITY, f32::max);
    let span = best - worst;
    scores.iter().map(move |(key, score)| {
        (*key, *score, if span > 0.0 { (score - worst) / span } else { 1.0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lexical: &[(i64, f32)], vector: &[(i64, f32)], weight: f32, expected: &[(i64, f32)]) {
        let ranked = blend(lexical, vector, weight);
        let order: Vec<(i64, f32)> =
            ranked.iter().map(|ranked| (ranked.key, ranked.score)).collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn scores_are_scaled_and_weighted() {
        check(
            &[(1, 20.0), (2, 15.0), (3, 10.0)],
            &[(3, 0.9), (2, 0.1)],
            0.5,
            &[(1, 0.5), (3, 0.5), (2, 0.25)],
        );
        check(
            &[(1, 20.0), (2, 10.0)],
            &[(2, 0.9), (3, 0.4)],
            0.25,
            &[(1, 0.75), (2, 0.25), (3, 0.0)],
        );
    }

    #[test]
    fn one_side_alone_counts_fully() {
        check(&[(1, 3.0), (2, 1.0)], &[], 0.3, &[(1, 1.0), (2, 0.0)]);
        check(&[], &[(1, 0.3), (2, 0.1)], 0.3, &[(1, 1.0), (2, 0.0)]);
        check(&[], &[], 0.3, &[]);
    }

    #[test]
    fn equal_scores_are_all_best_and_ordered_by_key() {
        check(&[(2, 1.0), (1, 1.0)], &[], 0.3, &[(1, 1.0), (2, 1.0)]);
    }

    #[test]
    fn a_hit_says_where_its_score_came_from() {
        let ranked = blend(&[(1, 4.0), (2, 2.0)], &[(2, 0.5)], 0.25);
        assert_eq!(ranked[1].lexical, Some((2.0, 0.0)));
        assert_eq!(ranked[1].vector, Some((0.5, 1.0)));
        assert_eq!(ranked[0].vector, None);
    }
}
