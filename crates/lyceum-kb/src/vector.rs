//! Vectors in eight bits: a quarter of the memory, and integers are what processors multiply fastest.

mod matrix;
#[cfg(test)]
mod tests;

pub use matrix::{Matrix, Near};

/// The largest value a component takes.
const MAX: f32 = 127.0;

/// A vector of unit length, quantised; or of no length, when there was nothing to embed.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantized {
    /// What one step is worth.
    pub scale: f32,
    pub values: Vec<i8>,
}

impl Quantized {
    /// Scales `vector` to unit length and rounds it. A vector of zeros stays one; a vector with a component that is
    /// not a number becomes one.
    pub fn new(vector: &[f32]) -> Quantized {
        let Some(unit) = unit(vector) else {
            return Quantized { scale: 0.0, values: vec![0; vector.len()] };
        };
        let largest = unit.iter().fold(0.0_f32, |max, value| max.max(value.abs()));
        let scale = largest / MAX;
        let values = unit.iter().map(|value| (value / scale).round().clamp(-MAX, MAX) as i8);
        Quantized { scale, values: values.collect() }
    }

    /// The vector as it is stored: the scale, then one byte for each component.
    pub fn to_bytes(&self) -> Vec<u8> {
        let values = self.values.iter().map(|value| value.to_le_bytes()[0]);
        self.scale.to_le_bytes().into_iter().chain(values).collect()
    }

    /// What [`Quantized::to_bytes`] made; `None` when it cannot have been that.
    pub fn from_bytes(bytes: &[u8]) -> Option<Quantized> {
        let (scale, values) = bytes.split_first_chunk::<4>()?;
        let scale = f32::from_le_bytes(*scale);
        let sane = scale.is_finite() && (0.0..=1.0).contains(&scale);
        sane.then(|| Quantized {
            scale,
            values: values.iter().map(|byte| i8::from_le_bytes([*byte])).collect(),
        })
    }

    /// The vector in floating point, as near as quantisation allows.
    pub fn to_f32(&self) -> Vec<f32> {
        self.values.iter().map(|value| f32::from(*value) * self.scale).collect()
    }
}

/// `vector` scaled to unit length; `None` if it has none or is not made of numbers.
fn unit(vector: &[f32]) -> Option<Vec<f32>> {
    let norm = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    (norm.is_finite() && norm > f64::from(f32::MIN_POSITIVE))
        .then(|| vector.iter().map(|value| (f64::from(*value) / norm) as f32).collect())
}
