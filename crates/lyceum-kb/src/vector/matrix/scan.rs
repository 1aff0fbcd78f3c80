//! Finding the rows nearest to a query.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use fearless_simd::{Level, dispatch};

use super::wide::Wide;
use super::{Entry, Matrix};
use crate::cancel::CancelFlag;
use crate::vector::unit;
use crate::{Keys, Result};

/// Places in the matrix that are read in turns.
const STREAMS: usize = 8;
/// Rows between two looks at the cancel flag: some hundred microseconds of scanning.
pub(super) const ROWS_PER_CHECK: usize = 4096;

/// A document near a query, by its best chunk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    pub key: i64,
    pub text_revision: i64,
    /// Byte range of the chunk in the text.
    pub start: usize,
    pub end: usize,
    /// Above 0, at most 1.
    pub score: f32,
}

/// A query, prepared.
#[derive(Debug)]
pub(super) struct Probe {
    /// How the query differs from the mean.
    pub(super) centred: Vec<f32>,
    pub(super) wide: Wide,
    /// What the mean adds to every product.
    pub(super) offset: f32,
    pub(super) inverse_norm: f32,
}

/// Orders by score, and equal scores by key, so that the same search has the same answer.
#[derive(Debug, PartialEq)]
pub(super) struct ByScore(pub(super) Near);

impl Matrix {
    /// The `limit` documents nearest to `query`, best first; with `allow`, only those with these keys.
    ///
    /// Documents that point away from the query are not near, however few there are.
    pub fn nearest(&self, query: &[f32], limit: usize, allow: Option<&Keys>) -> Vec<Near> {
        let never = CancelFlag::default();
        self.nearest_cancellable(query, limit, allow, &never).unwrap_or_default()
    }

    /// The same, unless the work is cancelled meanwhile.
    pub(crate) fn nearest_cancellable(
        &self,
        query: &[f32],
        limit: usize,
        allow: Option<&Keys>,
        cancel: &CancelFlag,
    ) -> Result<Vec<Near>> {
        let Some(probe) = self.probe(query) else { return Ok(Vec::new()) };
        let mut best = Best::new(limit);
        dispatch!(Level::new(), _ => self.scan(&probe, allow, &mut best, cancel))?;
        Ok(best.into_sorted())
    }

    #[inline(always)]
    pub(super) fn scan(
        &self,
        probe: &Probe,
        allow: Option<&Keys>,
        best: &mut Best,
        cancel: &CancelFlag,
    ) -> Result<()> {
        let mut pace = CancelPace { cancel, rows: 0 };
        match allow {
            // Few keys are looked up; many are cheaper to meet on the way.
            Some(allow) if allow.len() < self.entries.len() / 4 => {
                for at in allow.iter().filter_map(|key| self.index.get(&key)) {
                    let entry = &self.entries[*at];
                    pace.step(entry)?;
                    best.offer(self.score(probe, entry));
                }
            }
            Some(allow) => {
                for entry in self.in_streams() {
                    pace.step(entry)?;
                    if allow.contains(entry.key) {
                        best.offer(self.score(probe, entry));
                    }
                }
            }
            None => {
                for entry in self.in_streams() {
                    pace.step(entry)?;
                    best.offer(self.score(probe, entry));
                }
            }
        }
        Ok(())
    }

    /// All entries, taken in turns from several places: memory delivers several streams faster than one.
    #[inline(always)]
    fn in_streams(&self) -> impl Iterator<Item = &Entry> {
        let length = self.entries.len().div_ceil(STREAMS);
        let turn = move |at| (0..STREAMS).filter_map(move |n| self.entries.get(n * length + at));
        (0..length).flat_map(turn)
    }

    pub(super) fn probe(&self, query: &[f32]) -> Option<Probe> {
        if query.len() != self.dimensions {
            return None;
        }
        let mean = &self.mean.exact;
        let centred: Vec<f32> = unit(query)?.iter().zip(mean).map(|(q, m)| q - m).collect();
        let norm = centred.iter().map(|value| value * value).sum::<f32>().sqrt();
        let offset = centred.iter().zip(mean).map(|(q, m)| q * m).sum();
        (norm > 0.0).then(|| Probe {
            wide: Wide::new(&centred),
            centred,
            offset,
            inverse_norm: norm.recip(),
        })
    }

    /// The document's best chunk, if any is near.
    #[inline(always)]
    pub(super) fn score(&self, probe: &Probe, entry: &Entry) -> Option<Near> {
        let mut best = (0.0, entry.last);
        for at in entry.first..entry.last {
            let row = &self.rows[at];
            let product = row.scale * probe.wide.dot(self.values_of(at)) - probe.offset;
            let score = product * row.inverse_norm * probe.inverse_norm;
            if score > best.0 {
                best = (score, at);
            }
        }
        let (score, at) = best;
        let row = self.rows.get(at).filter(|_| score > 0.0)?;
        Some(Near {
            key: entry.key,
            text_revision: entry.text_revision,
            start: row.start as usize,
            end: row.end as usize,
            // Rounding may lead a little past 1.
            score: score.min(1.0),
        })
    }
}

/// The best so far, the worst of them on top.
pub(super) struct Best {
    pub(super) limit: usize,
    pub(super) heap: BinaryHeap<Reverse<ByScore>>,
}

/// Counts the rows of a scan and looks at the cancel flag once in a while.
struct CancelPace<'a> {
    cancel: &'a CancelFlag,
    /// Rows since the last look.
    rows: usize,
}

impl CancelPace<'_> {
    /// Fails when the scan should stop before this entry.
    #[inline(always)]
    fn step(&mut self, entry: &Entry) -> Result<()> {
        if self.rows >= ROWS_PER_CHECK {
            self.rows = 0;
            self.cancel.check()?;
        }
        self.rows += entry.last - entry.first;
        Ok(())
    }
}

impl Best {
    pub(super) fn new(limit: usize) -> Best {
        Best { limit, heap: BinaryHeap::new() }
    }

    /// Best first.
    pub(super) fn into_sorted(self) -> Vec<Near> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse(ByScore(near))| near).collect()
    }

    /// Whether something of that score might be among them.
    pub(super) fn admits(&self, score: f32) -> bool {
        self.heap.len() < self.limit
            || self.heap.peek().is_some_and(|Reverse(ByScore(worst))| score >= worst.score)
    }

    pub(super) fn offer(&mut self, near: Option<Near>) {
        let Some(near) = near else { return };
        if self.heap.len() < self.limit {
            self.heap.push(Reverse(ByScore(near)));
        } else if let Some(mut worst) = self.heap.peek_mut()
            && ByScore(near) > worst.0
        {
            *worst = Reverse(ByScore(near));
        }
    }
}

impl Eq for ByScore {}

impl Ord for ByScore {
    fn cmp(&self, other: &ByScore) -> Ordering {
        self.0.score.total_cmp(&other.0.score).then(other.0.key.cmp(&self.0.key))
    }
}

impl PartialOrd for ByScore {
    fn partial_cmp(&self, other: &ByScore) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
