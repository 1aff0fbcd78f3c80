//! All vectors of a knowledge base in memory, scanned exactly.
//!
//! Texts of one team resemble each other, so all their vectors point roughly the same way; what tells them apart is
//! how they differ from the mean. Scores are therefore cosines after the mean of all rows has been subtracted:
//! `(q - m)·(d - m) / |q - m| |d - m|`, of which all but `(q - m)·d` is known before the scan.

mod scan;
#[cfg(test)]
mod tests;
mod whole;
mod wide;

pub use scan::Near;

use std::collections::HashMap;

use self::whole::Whole;
use self::wide::{Wide, square};
use crate::store::ChunkVector;

/// Rows of zeros the mean is taken with: the mean of a few documents is what they are about, not what all share.
const PRIOR_ROWS: usize = 64;
/// The mean is taken anew when one row in this many has come or gone.
const DRIFT_SHARE: usize = 10;
/// Rows of documents that are gone stay until they are one in this many, because moving the others is dear.
const DEAD_SHARE: usize = 4;
const MIN_DEAD: usize = 1024;
/// Rows nearer to the mean than this match nothing: what is left of them is rounding.
const MIN_DISTANCE: f32 = 1e-3;

/// The vectors of all documents, those of one document side by side.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    /// Components of a row; the first row decides.
    dimensions: usize,
    values: Vec<i8>,
    rows: Vec<Row>,
    entries: Vec<Entry>,
    /// What each entry is as a whole.
    wholes: Vec<Whole>,
    /// Where the entry of a document is.
    index: HashMap<i64, usize>,
    /// Rows that belong to no document any more.
    dead: usize,
    /// The sum of all living rows.
    sum: Vec<f64>,
    mean: Mean,
    /// Rows that came or went since the mean was taken.
    drift: usize,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    /// What one step is worth.
    scale: f32,
    /// One over the distance from the mean, or 0.
    inverse_norm: f32,
    /// Byte range of the chunk in the text.
    start: u32,
    end: u32,
}

/// A document's rows, `first..last`; none when it is gone.
#[derive(Debug, Clone, Copy)]
struct Entry {
    key: i64,
    text_revision: i64,
    first: usize,
    last: usize,
}

#[derive(Debug, Clone, Default)]
struct Mean {
    exact: Vec<f32>,
    wide: Wide,
    square: f32,
}

impl Matrix {
    /// How many documents have vectors.
    pub fn documents(&self) -> usize {
        self.index.len()
    }

    /// How many vectors there are.
    pub fn rows(&self) -> usize {
        self.rows.len() - self.dead
    }

    /// Puts `chunks` in the place of what was known of the document.
    ///
    /// Vectors that are not as long as the others come from another model and are left out.
    pub fn replace(&mut self, key: i64, text_revision: i64, chunks: &[ChunkVector]) {
        self.put(key, text_revision, chunks);
        self.tidy();
    }

    /// The same for one of many: nothing is right before [`Matrix::tidy`].
    pub(crate) fn put(&mut self, key: i64, text_revision: i64, chunks: &[ChunkVector]) {
        self.bury(key);
        let first = self.rows.len();
        for chunk in chunks {
            self.push(chunk);
        }
        let last = self.rows.len();
        if first < last {
            self.index.insert(key, self.entries.len());
            let entry = Entry { key, text_revision, first, last };
            self.entries.push(entry);
            self.wholes.push(Whole::new(&self.sum_of(entry), &self.mean));
            self.drift += last - first;
        }
    }

    /// Forgets a document.
    pub fn remove(&mut self, key: i64) {
        self.bury(key);
        self.tidy();
    }

    /// The middle of a document's vectors: what the document is about as a whole.
    pub fn centroid(&self, key: i64) -> Option<Vec<f32>> {
        Some(self.sum_of(self.entries[*self.index.get(&key)?]))
    }

    fn sum_of(&self, entry: Entry) -> Vec<f32> {
        let mut sum = vec![0.0; self.dimensions];
        for row in entry.first..entry.last {
            let scale = self.rows[row].scale;
            for (sum, value) in sum.iter_mut().zip(self.values_of(row)) {
                *sum += scale * f32::from(*value);
            }
        }
        sum
    }

    fn push(&mut self, chunk: &ChunkVector) {
        let vector = &chunk.vector;
        if self.rows.is_empty() && self.dimensions != vector.values.len() {
            self.dimensions = vector.values.len();
            self.sum = vec![0.0; self.dimensions];
            self.mean = Mean::new(&self.sum, 0);
        }
        if vector.values.len() != self.dimensions || self.dimensions == 0 {
            return;
        }
        let offset = |at| u32::try_from(at).unwrap_or(u32::MAX);
        self.values.extend_from_slice(&vector.values);
        self.rows.push(Row {
            scale: vector.scale,
            inverse_norm: self.mean.inverse_distance(vector.scale, &vector.values),
            start: offset(chunk.start),
            end: offset(chunk.end),
        });
        let mut sum = std::mem::take(&mut self.sum);
        self.add_to(&mut sum, self.rows.len() - 1, 1.0);
        self.sum = sum;
    }

    /// Takes a document out of the scan and the sum; its rows stay for now.
    fn bury(&mut self, key: i64) {
        let Some(at) = self.index.remove(&key) else { return };
        let Entry { first, last, .. } = self.entries[at];
        let mut sum = std::mem::take(&mut self.sum);
        for row in first..last {
            self.add_to(&mut sum, row, -1.0);
        }
        self.sum = sum;
        self.entries[at].last = first;
        self.dead += last - first;
        self.drift += last - first;
    }

    /// Does the dear work that is due.
    pub(crate) fn tidy(&mut self) {
        if self.dead > MIN_DEAD.max(self.rows.len() / DEAD_SHARE) {
            self.compact();
        }
        if self.drift > self.rows() / DRIFT_SHARE {
            self.recentre();
        }
    }

    /// Moves living rows over dead ones.
    fn compact(&mut self) {
        let mut to = 0;
        let living = self.entries.iter().map(|entry| entry.first < entry.last);
        let wholes = living.zip(&self.wholes).filter(|(living, _)| *living);
        self.wholes = wholes.map(|(_, whole)| *whole).collect();
        self.entries.retain_mut(|entry| {
            let Entry { first, last, .. } = *entry;
            let size = self.dimensions;
            self.values.copy_within(first * size..last * size, to * size);
            self.rows.copy_within(first..last, to);
            (entry.first, entry.last) = (to, to + last - first);
            to = entry.last;
            first < last
        });
        self.rows.truncate(to);
        self.values.truncate(to * self.dimensions);
        self.index = self.entries.iter().enumerate().map(|(at, entry)| (entry.key, at)).collect();
        self.dead = 0;
    }

    /// Takes the mean anew, and every row's distance from it.
    fn recentre(&mut self) {
        self.mean = Mean::new(&self.sum, self.rows());
        self.drift = 0;
        let values = self.values.chunks_exact(self.dimensions.max(1));
        for (row, values) in self.rows.iter_mut().zip(values) {
            row.inverse_norm = self.mean.inverse_distance(row.scale, values);
        }
        let wholes = self.entries.iter().map(|entry| Whole::new(&self.sum_of(*entry), &self.mean));
        self.wholes = wholes.collect();
    }

    fn values_of(&self, row: usize) -> &[i8] {
        &self.values[row * self.dimensions..(row + 1) * self.dimensions]
    }

    fn add_to(&self, sum: &mut [f64], row: usize, factor: f64) {
        let scale = f64::from(self.rows[row].scale) * factor;
        for (sum, value) in sum.iter_mut().zip(self.values_of(row)) {
            *sum += scale * f64::from(*value);
        }
    }
}

impl Mean {
    fn new(sum: &[f64], rows: usize) -> Mean {
        let rows = (rows + PRIOR_ROWS) as f64;
        let exact: Vec<f32> = sum.iter().map(|value| (value / rows) as f32).collect();
        let square = exact.iter().map(|value| value * value).sum();
        Mean { wide: Wide::new(&exact), exact, square }
    }

    /// One over the distance of a row from here, or 0 if the row is empty or too near.
    fn inverse_distance(&self, scale: f32, values: &[i8]) -> f32 {
        let own = scale * scale * square(values);
        let distance = (own - 2.0 * scale * self.wide.dot(values) + self.square).max(0.0).sqrt();
        if own > 0.0 && distance > MIN_DISTANCE { distance.recip() } else { 0.0 }
    }
}
