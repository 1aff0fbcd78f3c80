//! The matrix against a plain list of vectors in floating point.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::scan::{Best, ROWS_PER_CHECK};
use super::*;
use crate::cancel::{CancelFlag, CancelReason};
use crate::vector::{Quantized, unit};
use crate::{Code, Keys};

fn chunk(at: usize, vector: &[f32]) -> ChunkVector {
    ChunkVector { start: at, end: at + 10, vector: Quantized::new(vector) }
}

fn matrix(documents: &[(i64, &[&[f32]])]) -> Matrix {
    let mut matrix = Matrix::default();
    for (key, vectors) in documents {
        let chunks: Vec<ChunkVector> =
            vectors.iter().enumerate().map(|(at, vector)| chunk(at * 10, vector)).collect();
        matrix.replace(*key, 1, &chunks);
    }
    matrix
}

fn keys(near: &[Near]) -> Vec<i64> {
    near.iter().map(|near| near.key).collect()
}

/// Deterministic vectors that look like those of texts: a common direction and noise.
fn vector(seed: u64, dimensions: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let noise = (0..dimensions).map(|at| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0 + if at < 4 { 2.0 } else { 0.0 }
    });
    noise.collect()
}

#[test]
fn the_best_chunk_stands_for_its_document() {
    let matrix = matrix(&[
        (1, &[&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0]]),
        (2, &[&[0.0, 0.0, 1.0]]),
        (3, &[&[0.0, 0.8, 0.6]]),
    ]);
    let near = matrix.nearest(&[0.0, 1.0, 0.0], 10, None);
    assert_eq!(keys(&near), [1, 3]);
    assert_eq!((near[0].start, near[0].end, near[0].text_revision), (10, 20, 1));
    assert_eq!(keys(&matrix.nearest(&[0.0, 1.0, 0.0], 1, None)), [1]);
    assert_eq!(keys(&matrix.nearest(&[0.0, 1.0, 0.0], 0, None)), [] as [i64; 0]);
}

#[test]
fn only_allowed_documents_are_near() {
    let documents: Vec<Vec<f32>> = (0..100).map(|seed| vector(seed, 16)).collect();
    let mut matrix = Matrix::default();
    for (key, vector) in documents.iter().enumerate() {
        matrix.replace(key as i64, 1, &[chunk(0, vector)]);
    }
    for allowed in [1, 10, 24, 25, 60, 100] {
        let allow: Keys = (0..allowed).chain([-7]).collect();
        let all = matrix.nearest(&documents[0], 200, None);
        let expected: Vec<Near> = all.into_iter().filter(|near| allow.contains(near.key)).collect();
        assert_eq!(matrix.nearest(&documents[0], 200, Some(&allow)), expected);
    }
    assert!(matrix.nearest(&documents[0], 10, Some(&Keys::default())).is_empty());
}

#[test]
fn a_cancelled_scan_ends_before_the_last_row() {
    const NEAR: i64 = 2 * ROWS_PER_CHECK as i64;
    let query = [1.0, 0.0];
    let mut matrix = Matrix::default();
    for key in 0..4 * NEAR {
        let row = if key < NEAR { query } else { [0.0, 1.0] };
        matrix.put(key, 1, &[chunk(0, &row)]);
    }
    matrix.tidy();
    let cancel = CancelFlag::default();
    cancel.cancel(CancelReason::Abandoned);
    // Few keys are looked up one by one, many are met on the way.
    let (few, many): (Keys, Keys) = ((0..NEAR - 1).collect(), (0..2 * NEAR).collect());
    let probe = matrix.probe(&query).unwrap();
    for allow in [None, Some(&few), Some(&many)] {
        let mut best = Best::new(usize::MAX);
        let error = matrix.scan(&probe, allow, &mut best, &cancel).unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        let n_scored = best.into_sorted().len();
        assert!(n_scored > 0 && n_scored <= ROWS_PER_CHECK, "{n_scored}");
        assert!(matrix.nearest_cancellable(&query, 9, allow, &cancel).is_err());
        assert_eq!(matrix.nearest(&query, 9, allow).len(), 9);
    }
    assert!(matrix.related_cancellable(0, 9, &cancel).is_err());
    assert_eq!(matrix.related(0, 9).len(), 9);
}

#[test]
fn what_is_related_is_near_as_a_whole() {
    let matrix = matrix(&[
        (1, &[&[1.0, 0.0, 0.0], &[0.0, 1.0, 0.0]]),
        (2, &[&[0.0, 1.0, 0.0], &[1.0, 0.1, 0.0]]),
        (3, &[&[0.0, 1.0, 0.0]]),
        (4, &[&[0.0, 0.0, 1.0]]),
    ]);
    let related = matrix.related(1, 5);
    assert_eq!(keys(&related)[..2], [2, 3], "{related:?}");
    assert!(related[0].score > 0.9 && related[1].score < 0.9, "{related:?}");
    assert_eq!((related[0].start, related[0].end), (10, 20), "its nearest chunk");
    assert!(!keys(&related).contains(&1), "not itself");
    assert_eq!(keys(&matrix.related(1, 1)), [2]);
    assert!(matrix.related(404, 5).is_empty());
}

#[test]
fn a_twin_is_found_among_thousands() {
    const TWINS: i64 = 2_000;
    let mut matrix = Matrix::default();
    let twin = |seed: i64, blur: f32| -> Vec<f32> {
        let noise = vector(seed as u64 + 90_000, 300).into_iter().map(|value| value * blur);
        vector(seed as u64, 300)
            .into_iter()
            .zip(noise)
            .map(|(value, noise)| value + noise)
            .collect()
    };
    for key in 0..TWINS {
        matrix.replace(key, 1, &[chunk(0, &twin(key, 0.0))]);
        matrix.replace(key + TWINS, 1, &[chunk(0, &twin(key, 0.5))]);
    }
    // Gone ones leave gaps, enough of them that all others move.
    (0..1_500).for_each(|key| matrix.remove(key));
    for key in 1_500..TWINS {
        assert_eq!(keys(&matrix.related(key, 1)), [key + TWINS]);
        assert_eq!(keys(&matrix.related(key + TWINS, 1)), [key]);
    }
}

#[test]
fn equal_documents_come_in_the_order_of_their_keys() {
    let row: &[f32] = &[1.0, 2.0];
    let matrix = matrix(&[(3, &[row]), (1, &[row]), (2, &[row]), (9, &[&[-1.0, 0.0]])]);
    assert_eq!(keys(&matrix.nearest(row, 10, None)), [1, 2, 3]);
    assert_eq!(keys(&matrix.nearest(row, 2, None)), [1, 2]);
}

#[test]
fn what_all_documents_share_does_not_count() {
    // All point along the first axis; only the small rest tells them apart.
    let kinds = [[1.0, 0.1, 0.0], [1.0, 0.0, 0.1]];
    let mut matrix = Matrix::default();
    for key in 0..1_000 {
        matrix.replace(key, 1, &[chunk(0, &kinds[key as usize % 2])]);
    }
    let near = matrix.nearest(&kinds[0], 1_000, None);
    assert_eq!(near.len(), 500);
    assert!(near.iter().all(|near| near.key % 2 == 0 && near.score > 0.9));
}

#[test]
fn a_lone_document_can_be_found() {
    assert_eq!(keys(&matrix(&[(5, &[&[0.6, 0.8]])]).nearest(&[0.6, 0.8], 5, None)), [5]);
}

#[test]
fn nothing_is_near_to_nothing() {
    let mut matrix = matrix(&[(1, &[&[1.0, 0.0]]), (2, &[&[0.0, 0.0]])]);
    for query in [&[0.0, 0.0][..], &[f32::NAN, 0.0], &[1.0], &[]] {
        assert!(matrix.nearest(query, 5, None).is_empty(), "{query:?}");
    }
    assert_eq!(keys(&matrix.nearest(&[1.0, 0.0], 5, None)), [1]);
    matrix.remove(1);
    matrix.remove(1);
    matrix.remove(404);
    assert!(matrix.nearest(&[1.0, 0.0], 5, None).is_empty());
    assert!(Matrix::default().nearest(&[], 5, None).is_empty());
}

#[test]
fn vectors_of_another_length_are_left_out() {
    let mut matrix =
        matrix(&[(1, &[&[1.0, 0.0]]), (2, &[&[1.0, 0.0, 0.0], &[1.0, 0.0]]), (3, &[&[]])]);
    assert_eq!((matrix.documents(), matrix.rows()), (2, 2));
    matrix.replace(1, 2, &[]);
    assert_eq!((matrix.documents(), matrix.rows()), (1, 1));
}

#[test]
fn a_centroid_is_the_middle_of_the_document() {
    let matrix = matrix(&[(1, &[&[1.0, 0.0], &[0.0, 1.0]])]);
    let centroid = matrix.centroid(1).unwrap();
    assert!((centroid[0] - centroid[1]).abs() < 1e-6);
    assert_eq!(matrix.centroid(2), None);
}

#[test]
fn removed_rows_are_reclaimed() {
    let mut matrix = Matrix::default();
    for round in 0..3 {
        for key in 0..2_000 {
            matrix.replace(key, round, &[chunk(0, &vector(key as u64, 8))]);
        }
    }
    assert_eq!((matrix.documents(), matrix.rows()), (2_000, 2_000));
    assert!(matrix.rows.len() < 4_000, "{}", matrix.rows.len());
    assert!(matrix.nearest(&vector(7, 8), 5, None).iter().all(|near| near.text_revision == 2));
    assert_eq!(matrix.nearest(&vector(7, 8), 5, None)[0].key, 7);
}

#[test]
fn products_do_not_overflow_at_any_length() {
    for dimensions in [1, 31, 32, 33, 256, 512, 3_072, 8_192] {
        let rows = [vec![1.0; dimensions], vec![-1.0; dimensions]];
        let matrix = matrix(&[(1, &[&rows[0]]), (2, &[&rows[1]])]);
        let near = matrix.nearest(&rows[0], 5, None);
        assert_eq!(keys(&near), [1]);
        assert!(near[0].score > 0.99, "{dimensions}: {}", near[0].score);
    }
}

/// What the matrix should answer: the same formula over the same rows, one by one in double precision.
fn expected(model: &BTreeMap<i64, Vec<Vec<f32>>>, mean: &[f32], query: &[f32]) -> Vec<(i64, f64)> {
    let centre = |vector: &[f32]| -> Vec<f64> {
        vector.iter().zip(mean).map(|(v, m)| f64::from(*v) - f64::from(*m)).collect()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let query = centre(&unit(query).unwrap());
    let score = |row: &Vec<f32>| {
        let row = centre(row);
        dot(&query, &row) / (dot(&query, &query) * dot(&row, &row)).sqrt()
    };
    let best = |rows: &Vec<Vec<f32>>| rows.iter().map(score).fold(f64::NEG_INFINITY, f64::max);
    model.iter().map(|(key, rows)| (*key, best(rows))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_history_gives_the_scores_of_a_plain_list(
        steps in prop::collection::vec((0_i64..12, 0_usize..4, any::<u64>()), 1..60),
        seed in any::<u64>(),
    ) {
        let mut matrix = Matrix::default();
        let mut model: BTreeMap<i64, Vec<Vec<f32>>> = BTreeMap::new();
        for (key, n, seed) in steps {
            let chunks: Vec<ChunkVector> = (0..n)
                .map(|at| chunk(at, &vector(seed.wrapping_add(at as u64), 40)))
                .collect();
            matrix.replace(key, 1, &chunks);
            model.remove(&key);
            if n > 0 {
                model.insert(key, chunks.iter().map(|chunk| chunk.vector.to_f32()).collect());
            }
        }
        prop_assert_eq!(matrix.documents(), model.len());
        let query = vector(seed, 40);
        let near = matrix.nearest(&query, 100, None);
        if model.is_empty() {
            prop_assert!(near.is_empty());
            return Ok(());
        }
        let expected = expected(&model, &matrix.mean.exact, &query);
        for (key, score) in expected {
            let found = near.iter().find(|near| near.key == key).map_or(0.0, |near| near.score);
            prop_assert!((f64::from(found) - score.max(0.0)).abs() < 2e-3, "{key}: {found} {score}");
        }
    }

    #[test]
    fn the_mean_stays_near_the_true_mean(steps in prop::collection::vec((0_i64..40, 0_usize..3, any::<u64>()), 1..200)) {
        let mut matrix = Matrix::default();
        for (key, n, seed) in steps {
            let chunks: Vec<ChunkVector> = (0..n).map(|at| chunk(at, &vector(seed, 16))).collect();
            matrix.replace(key, 1, &chunks);
        }
        let fresh = Mean::new(&matrix.sum, matrix.rows());
        for (kept, fresh) in matrix.mean.exact.iter().zip(&fresh.exact) {
            prop_assert!((kept - fresh).abs() < 0.25);
        }
        prop_assert!(matrix.drift <= matrix.rows() / DRIFT_SHARE);
    }

    #[test]
    fn any_floats_can_be_searched_for(
        rows in prop::collection::vec(prop::collection::vec(any::<f32>(), 3), 0..6),
        query in prop::collection::vec(any::<f32>(), 3),
    ) {
        let mut matrix = Matrix::default();
        for (key, row) in rows.iter().enumerate() {
            matrix.replace(key as i64, 1, &[chunk(0, row)]);
        }
        for near in matrix.nearest(&query, 10, None) {
            prop_assert!(near.score > 0.0 && near.score <= 1.0);
        }
    }
}
