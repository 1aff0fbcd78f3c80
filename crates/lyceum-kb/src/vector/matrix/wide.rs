//! Products of eight-bit rows with a vector in sixteen bits, written so that the compiler uses vector instructions.

/// The largest magnitude of an eight-bit value.
const MAX_I8: usize = 128;

/// A vector in sixteen bits: the side of a product that is prepared once may be precise.
#[derive(Debug, Clone, Default)]
pub(super) struct Wide {
    scale: f32,
    values: Vec<i16>,
}

impl Wide {
    pub(super) fn new(vector: &[f32]) -> Wide {
        // As precise as a sum over all components in 32 bits allows.
        let limit = i32::MAX as usize / (MAX_I8 * vector.len().max(1));
        let limit = limit.clamp(1, i16::MAX as usize) as f32;
        let largest = vector.iter().fold(0.0_f32, |max, value| max.max(value.abs()));
        if largest == 0.0 {
            return Wide { scale: 0.0, values: vec![0; vector.len()] };
        }
        let scale = largest / limit;
        Wide { scale, values: vector.iter().map(|value| (value / scale).round() as i16).collect() }
    }

    /// The product with a row of the same length, in units of the row's steps.
    #[inline(always)]
    pub(super) fn dot(&self, row: &[i8]) -> f32 {
        self.scale * product(row, &self.values) as f32
    }
}

/// The sum of the squares of a row.
pub(super) fn square(row: &[i8]) -> f32 {
    row.iter().map(|value| i32::from(*value) * i32::from(*value)).sum::<i32>() as f32
}

#[inline(always)]
fn product(row: &[i8], wide: &[i16]) -> i32 {
    row.iter().zip(wide).map(|(row, wide)| i32::from(*row) * i32::from(*wide)).sum()
}
