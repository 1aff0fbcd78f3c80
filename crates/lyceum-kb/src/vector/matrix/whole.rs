//! Documents as wholes: finding those that are about the same as another one.
//!
//! A document as a whole is the middle of its chunks. What is related is an extra to a document that is read, so it
//! must be found without looking at every vector: each document has a sketch of one bit per component, saying on which
//! side of the mean it is. Sketches choose some hundred candidates, which are then compared exactly. With few
//! documents all of them are candidates.

use fearless_simd::{Level, dispatch};

use super::scan::{Best, Near, Probe};
use super::{Entry, Matrix, Mean};
use crate::Result;
use crate::cancel::CancelFlag;

/// Documents compared exactly. Even of 100,000 texts of random words, where all are about as near, these hold 93 in
/// 100 of the nearest three.
const CANDIDATES: usize = 256;
/// Components a sketch has; longer vectors are sketched by their beginning.
const BITS: usize = 256;
const WORDS: usize = BITS / u64::BITS as usize;
/// Bits that each component of a query has.
const PLANES: usize = 4;
/// The largest component of a query.
const LARGEST: f32 = 7.0;
/// How far an estimate may be from 0.
const MOST: i32 = 8 * BITS as i32;

type Sketch = [u64; WORDS];

/// A document as a whole.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Whole {
    sketch: Sketch,
    /// One over the length of the sum of its vectors.
    inverse_length: f32,
    /// One over the distance of its direction from the mean, or 0.
    inverse_norm: f32,
}

/// A query for sketches: a small integer per component, the bits of the same worth side by side.
#[derive(Debug)]
struct Planes([Sketch; PLANES]);

impl Whole {
    pub(super) fn new(sum: &[f32], mean: &Mean) -> Whole {
        let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
        if length == 0.0 {
            return Whole::default();
        }
        let inverse_length = length.recip();
        let (mut sketch, mut square) = (Sketch::default(), 0.0);
        for (at, (value, mean)) in sum.iter().zip(&mean.exact).enumerate() {
            let centred = value * inverse_length - mean;
            square += centred * centred;
            if at < BITS && centred > 0.0 {
                sketch[at / 64] |= 1 << (at % 64);
            }
        }
        let inverse_norm = if square > 0.0 { square.sqrt().recip() } else { 0.0 };
        Whole { sketch, inverse_length, inverse_norm }
    }
}

impl Planes {
    fn new(centred: &[f32]) -> Planes {
        let largest = centred.iter().take(BITS).fold(0.0_f32, |max, value| max.max(value.abs()));
        let mut planes = [Sketch::default(); PLANES];
        for (at, value) in centred.iter().take(BITS).enumerate() {
            // Two's complement: the last plane counts against the others.
            let level = (value / largest.max(f32::MIN_POSITIVE) * LARGEST).round() as i8;
            for (plane, bits) in planes.iter_mut().enumerate() {
                bits[at / 64] |= u64::from(level >> plane & 1 == 1) << (at % 64);
            }
        }
        Planes(planes)
    }

    /// The sum of the components where the sketch has a bit: the larger, the nearer.
    #[inline(always)]
    fn estimate(&self, sketch: &Sketch) -> i32 {
        let mut sums = [0_i64; WORDS];
        for word in 0..WORDS {
            for plane in 0..PLANES {
                let common = i64::from((self.0[plane][word] & sketch[word]).count_ones());
                let worth = common << plane;
                sums[word] += if plane + 1 == PLANES { -worth } else { worth };
            }
        }
        // All words side by side and one sum at the end: that is how processors are quick at it.
        sums.iter().sum::<i64>() as i32
    }
}

impl Matrix {
    /// The `limit` documents that are nearest to a document as a whole, best first; the chunk of each is the one
    /// that is nearest.
    pub fn related(&self, key: i64, limit: usize) -> Vec<Near> {
        self.related_cancellable(key, limit, &CancelFlag::default()).unwrap_or_default()
    }

    /// The same, unless the work is cancelled meanwhile.
    pub(crate) fn related_cancellable(
        &self,
        key: i64,
        limit: usize,
        cancel: &CancelFlag,
    ) -> Result<Vec<Near>> {
        let probe = self.centroid(key).and_then(|centroid| self.probe(&centroid));
        let Some(probe) = probe else { return Ok(Vec::new()) };
        let mut best = Best::new(limit);
        dispatch!(Level::new(), _ => self.compare(&probe, key, &mut best, cancel))?;
        Ok(best.into_sorted())
    }

    #[inline(always)]
    fn compare(&self, probe: &Probe, key: i64, best: &mut Best, cancel: &CancelFlag) -> Result<()> {
        for at in self.candidates(probe) {
            // A candidate has up to some thousand rows.
            cancel.check()?;
            let entry = &self.entries[at];
            if entry.key == key {
                continue;
            }
            let score = self.score_whole(probe, entry, &self.wholes[at]);
            if score > 0.0 && best.admits(score) {
                best.offer(self.score(probe, entry).map(|near| Near { score, ..near }));
            }
        }
        Ok(())
    }

    /// Where the entries are whose sketches are nearest.
    #[inline(always)]
    fn candidates(&self, probe: &Probe) -> Vec<usize> {
        if self.wholes.len() <= CANDIDATES {
            return (0..self.wholes.len()).collect();
        }
        let planes = Planes::new(&probe.centred);
        let mut estimates = vec![0; self.wholes.len()];
        let mut counts = vec![0_usize; 2 * MOST as usize + 1];
        // A loop, because what `collect` calls would not be compiled for the processor at hand.
        for (estimate, whole) in estimates.iter_mut().zip(&self.wholes) {
            *estimate = planes.estimate(&whole.sketch);
            counts[(*estimate + MOST) as usize] += 1;
        }
        let mut left = CANDIDATES;
        let enough = counts.iter().rposition(|count| {
            left = left.saturating_sub(*count);
            left == 0
        });
        let least = enough.unwrap_or(0) as i32 - MOST;
        let mut near = Vec::with_capacity(2 * CANDIDATES);
        for (at, estimate) in estimates.iter().enumerate() {
            if *estimate >= least {
                near.push(at);
            }
        }
        near
    }

    #[inline(always)]
    fn score_whole(&self, probe: &Probe, entry: &Entry, whole: &Whole) -> f32 {
        let rows = entry.first..entry.last;
        let sum: f32 =
            rows.map(|at| self.rows[at].scale * probe.wide.dot(self.values_of(at))).sum();
        let product = sum * whole.inverse_length - probe.offset;
        (product * whole.inverse_norm * probe.inverse_norm).min(1.0)
    }
}
