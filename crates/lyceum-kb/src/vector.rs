//! Vectors in eight bits: a quarter of the memory, and integers are what processors multiply fastest.

/// A vector of unit length, quantised.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantized {
    /// What one step is worth.
    pub scale: f32,
    pub values: Vec<i8>,
}
